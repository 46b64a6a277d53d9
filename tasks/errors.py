"""The errors of this project, with a class for each kind.

    ZydaError
    ├── SeveralFaults   an error whose message has a line for each fault
    │   ├── BadRecipe       an invalid recipe: every fault, with file, line and field
    │   └── PoisonShards    shards during which several workers died (also LostWorkers); other shards are finished
    ├── BadInput        data of a source that the recipe does not allow: source, file and row
    │   └── BadRequest      a call or a command names an unknown document, source or column
    ├── Denied          storage that fails permanently: no such bucket, no permission
    │   └── NoCorpus        a folder without a published corpus
    ├── Unavailable     storage that may answer later; only this kind is retried
    ├── Damaged         artifacts that were changed after they were written; they are rebuilt
    ├── TooMuchLost     a build in which a source would lose more than its recipe's max_loss
    ├── LostWorkers     a cluster that ended, has no workers, or whose workers die during the same task
    ├── WrongBits       a GPU whose result differs from that of a CPU
    ├── WrongTokens     a library of tokens that differs from tokenizers in too many documents
    ├── NoServer        a Prefect server that does not start or does not answer (`flows.server.local_server`)
    ├── BuildStopped    the process of a build that a Python program started has ended (`flows.python.builds`)
    ├── InvalidSchedule an ambiguous `zyda watch`: which recipe, how often (`deployments.schedules`)
    └── NotConserved    documents in differ from documents out + removed + set aside: a bug in this project

The command line prints the message of these errors in a line (SeveralFaults: a line for each fault)
and exits with status 1. Any other exception is a bug and shows its traceback.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

# Suffixes of files with a row per line; the suffix of a compression may follow.
WITH_LINES = (".json", ".jsonl", ".ndjson")
ADVICE = ". What to do: "  # between a fault and the advice for it, if both are on the same line


class ZydaError(Exception):
    """The base class of all errors here. The message is for the person who started the build.

    advice: what that person can do. where: the source, file and row of the fault, as far as known.
    """

    advice = "Look at the run's log, and start the build again."
    where: Mapping[str, str] = {}

    @property
    def faults(self) -> Sequence[str]:
        """The lines of the message, one for each fault."""
        return [one_line(str(self))]


class SeveralFaults(ZydaError):
    """An error with a line for each of its arguments."""

    @property
    def faults(self) -> Sequence[str]:
        return tuple(dict.fromkeys(map(one_line, self.args)))

    def __str__(self) -> str:
        return "\n".join(self.faults)


class BadRecipe(SeveralFaults, ValueError):
    """All faults of a recipe."""

    advice = (
        "Correct the recipe, or the files that it names, as each line describes; zyda check tests them without "
        "building."
    )


class BadInput(ZydaError, ValueError):
    """Unusable input. Create it with `bad_input`, so that the message names the source, file and row."""

    advice = (
        "Correct or remove that file; with `on_bad_rows: set_aside` in the recipe, rows that are not documents are "
        "published in a separate folder."
    )


class BadRequest(BadInput):
    """A call or a command that names an unknown document, source or column."""

    advice = "Correct the names and values of the call or the command, as the message describes."


class Denied(ZydaError, OSError):
    """Storage that refuses a request permanently: a retry cannot help."""

    advice = (
        "Check the permissions, the credentials, the name and the free space of that place; then build again."
    )


class NoCorpus(Denied):
    """A folder without a published corpus."""

    advice = "Give the recipe of a corpus, its folder or its published folder; zyda build builds a corpus."


class Unavailable(ZydaError, OSError):
    """Storage that did not answer: a retry may help.

    seconds: the wait that a host requests, if it states a wait. host: that host.
    """

    seconds: float | None = None
    host = ""
    advice = "Several retries failed. When the store answers again, start the build again."


class Damaged(ZydaError, ValueError):
    """Artifacts that are truncated, changed or missing: a description, and `paths` relative to the corpus."""

    advice = "Start the build again: it rebuilds damaged files."

    def __init__(self, fault: str, *paths: str) -> None:
        super().__init__(fault, *paths)
        self.fault = fault
        self.paths: Sequence[str] = paths

    def __str__(self) -> str:
        return self.fault


class LostWorkers(ZydaError, RuntimeError):
    """A cluster without workers: they died one after another during the same work, or none was started."""

    advice = (
        "Check that the cluster runs and that its workers have enough memory; then start the build again."
    )


class PoisonShards(LostWorkers, SeveralFaults):
    """Shards during which several workers died, a line for each. All other shards are finished."""

    advice = (
        "Give each worker more memory (start fewer workers), or make shard_mib smaller in the recipe, or remove "
        "the faulty file from it. Then build again: only these shards remain."
    )


class WrongTokens(ZydaError, ArithmeticError):
    """A library whose tokens differ from those of `tokenizers` in more than a few documents."""

    advice = "Set ZYDA_TOKENS=exact for the build: then only tokenizers counts, slowly. Report the tokenizer."


class WrongBits(ZydaError, ArithmeticError):
    """A GPU, or its libraries, whose results differ from those of a CPU."""

    advice = (
        "Earlier results of this GPU may be wrong, too: in the corpus's folder of the storage, delete "
        "work/minhash, work/keys-left, work/edges and work/clusters, which a build makes again, and build with "
        "ZYDA_ENGINE=cpu. Try make gpu on that machine, and report its output, with the output of nvidia-smi."
    )


class TooMuchLost(ZydaError, ValueError):
    """Removals beyond the recipe's max_loss, for any source."""

    advice = (
        "Look at the documents that would be removed (zyda try, zyda audit, --sample), then change the recipe, or "
        "its max_loss."
    )


class NotConserved(ZydaError, AssertionError):
    """Counts that do not add up."""

    advice = "This is a fault of zyda-flows, and nothing was published: please report it with the run's log."


@contextmanager
def without_causes() -> Iterator[None]:
    """Raise a ZydaError without its causes, so that it can be sent to another process.

    Some exceptions of libraries cannot be pickled, for example an HTTP status of aiohttp. Dask would then send a
    bare Exception, which is not retried. The message of the ZydaError describes the cause.
    """
    try:
        yield
    except ZydaError as error:
        error.__cause__ = error.__context__ = None
        raise


def all_but_poison(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """Make calls in sequence, and return their results. Raises the error of the first failing call.

    If that error is PoisonShards, the remaining calls are still made, because all work without these shards should
    be finished. Further errors of the remaining calls are added to the message if they are ZydaErrors.
    """
    results, faults = list[Result](), list[str]()
    for call in calls:
        try:
            results.append(call())
        except Exception as error:
            if not (faults or isinstance(error, PoisonShards)):
                raise
            faults += error.faults if isinstance(error, ZydaError) else ()
    if faults:
        raise PoisonShards(*faults)
    return results


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message; for text that cannot be decoded also the remedy."""
    if isinstance(error, UnicodeDecodeError):
        number = error.object.count(b"\n", 0, error.start) + 1
        encoding, byte = error.encoding.upper(), error.object[error.start]
        return f"line {number:,}: expected {encoding}, found the byte 0x{byte:02x}; save it as UTF-8"
    return str(error).partition("\n")[0] or type(error).__name__


def one_line(text: str) -> str:
    """Join the lines of a library's message."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def bad_input(source: str, fault: str, *, file: str = "", row: int | None = None) -> BadInput:
    """Return the error for a `fault` of a source, with its file and row if they are known.

    row: counted from 0, as in a doc_id; for a file with a row per line the message also has the line, from 1.
    """
    where = f"source {source}"
    if file:
        where += f", file {file}"
    has_lines = file.removesuffix(".gz").removesuffix(".zst").endswith(WITH_LINES)
    if row is not None:
        where += f", row {row} (line {row + 1})" if has_lines else f", row {row}"
    error = BadInput(f"{where}: {one_line(fault)}")
    line = f" (line {(row or 0) + 1:,})" if has_lines else ""
    known = {"source": source, "file": file, "row": "" if row is None else f"{row:,}{line}"}
    error.where = {name: value for name, value in known.items() if value}
    return error


def bad_row(source: str, fault: str, *, file: str, row: int) -> BadInput:
    """Return the error for a row that is not a document, in a build that stops at the first such row."""
    return bad_input(
        source, f"{fault} (with on_bad_rows: set_aside, such rows are set apart)", file=file, row=row
    )
