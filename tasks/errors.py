"""What can go wrong, one class for each kind.

    ZydaError
    ├── SeveralFaults   of which the message has a line for each
    │   ├── BadRecipe       the recipe cannot be built: every fault, with file, line and field
    │   └── PoisonShards    shards that take each worker with them (a LostWorkers, too); all others are finished
    ├── BadInput        a source's data is not as the recipe says: source, file and row
    │   └── BadRequest      a call or a command names a document, source or column that is not there
    ├── Denied          storage that will not answer differently: no such bucket, no permission
    │   └── NoCorpus        a place where no corpus is published
    ├── Unavailable     storage that may answer later; the only kind that is tried again
    ├── Damaged         artifacts that are not what was written; they are made again
    ├── TooMuchLost     a build in which a source would lose more than its recipe's max_loss
    ├── LostWorkers     a cluster that is gone, has no workers, or loses each of them to one task
    ├── WrongBits       a GPU that computes something else than a CPU
    ├── WrongTokens     a library of tokens that differs from tokenizers more often than may be
    ├── NoServer        a Prefect server that does not start or does not answer (`flows.server.local_server`)
    ├── BuildStopped    the process of a build that a Python program started is gone (`flows.python.builds`)
    ├── NotUnderstood   a `zyda watch` that is not clear: which recipe, how often (`deployments.schedules`)
    └── NotConserved    documents in are not documents out + removed + set aside: a bug of ours

The command line prints the message of any of these on one line (SeveralFaults: a line for each)
and exits with status 1. Anything else is a bug and shows its traceback.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

Found = TypeVar("Found")

WITH_LINES = (".json", ".jsonl", ".ndjson")  # how files are named whose rows are lines, before a compression
ADVICE = ". What to do: "  # between what was found and what can be done, where both are one line


class ZydaError(Exception):
    """The root of this tree; its message is meant to be read by the person who started the build.

    advice: what that person can do. where: the source, file and row that it is about, as far as known.
    """

    advice = "Look at the run's log, and start the build again."
    where: Mapping[str, str] = {}

    @property
    def faults(self) -> Sequence[str]:
        """The lines of the message, one for each fault."""
        return [one_line(str(self))]


class SeveralFaults(ZydaError):
    """An error of several lines, one for each of its arguments."""

    @property
    def faults(self) -> Sequence[str]:
        return tuple(dict.fromkeys(map(one_line, self.args)))

    def __str__(self) -> str:
        return "\n".join(self.faults)


class BadRecipe(SeveralFaults, ValueError):
    """All the faults of a recipe at once."""

    advice = (
        "Mend the recipe, or the files that it names, as each line says; zyda check looks without building."
    )


class BadInput(ZydaError, ValueError):
    """Input that cannot be used. Build it with `bad_input`, so that it says where."""

    advice = (
        "Mend or remove that file; with `on_bad_rows: set_aside` in the recipe, rows that are no documents are "
        "published in a folder of their own."
    )


class BadRequest(BadInput):
    """A call or a command that names a document, a source or a column that is not there."""

    advice = "Correct the names and values of the call or the command, as the message describes."


class Denied(ZydaError, OSError):
    """Storage that refuses: trying again cannot help."""

    advice = (
        "Look at the permissions, the credentials, the name and the room of that place; then build again."
    )


class NoCorpus(Denied):
    """A place where no corpus is published."""

    advice = "Give the recipe of a corpus, its folder or its published folder; zyda build builds a corpus."


class Unavailable(ZydaError, OSError):
    """Storage that did not answer: trying again may help.

    seconds: how long it asks to wait, where it says so. host: who does.
    """

    seconds: float | None = None
    host = ""
    advice = "It was tried several times. When the store answers again, start the build again."


class Damaged(ZydaError, ValueError):
    """Artifacts that are cut, changed or gone: `paths`, relative to the corpus, and what was found."""

    advice = "Start the build again: it makes what is damaged anew."

    def __init__(self, fault: str, *paths: str) -> None:
        super().__init__(fault, *paths)
        self.found = fault
        self.paths: Sequence[str] = paths

    def __str__(self) -> str:
        return self.found


class LostWorkers(ZydaError, RuntimeError):
    """A cluster without workers: they died one after another on the same work, or nobody started any."""

    advice = "Look whether the cluster runs and its workers have memory enough; then start the build again."


class PoisonShards(LostWorkers, SeveralFaults):
    """Shards that took one worker after another with them, a line for each. All others are finished."""

    advice = (
        "Give each worker more memory (start fewer of them), or make shard_mib smaller in the recipe, or take the "
        "file at fault out of it. Then build again: only these shards are left."
    )


class WrongTokens(ZydaError, ArithmeticError):
    """A library that gives other tokens than `tokenizers`, for more than a document here and there."""

    advice = (
        "Set ZYDA_TOKENS=exact for the build: tokenizers counts alone then, slowly. Tell us of the tokenizer."
    )


class WrongBits(ZydaError, ArithmeticError):
    """A GPU, or its libraries, whose results are not those of a CPU."""

    advice = (
        "What this GPU has made before may be wrong as well: in the corpus's folder of the storage, delete "
        "work/minhash, work/keys-left, work/edges and work/clusters, all of which is made again, and build with "
        "ZYDA_ENGINE=cpu. Try make gpu on that machine, and report what it says, with the output of nvidia-smi."
    )


class TooMuchLost(ZydaError, ValueError):
    """Removals that a recipe forbids, of whichever source."""

    advice = (
        "Look at what would go (zyda try, zyda audit, --sample), then change the recipe, or its max_loss."
    )


class NotConserved(ZydaError, AssertionError):
    """An account that does not add up."""

    advice = "This is a fault of zyda-flows, and nothing was published: please report it with the run's log."


@contextmanager
def without_causes() -> Iterator[None]:
    """Let an error of this tree out alone, as it has to be where it goes to another process.

    What libraries raise cannot always be pickled, an HTTP status by aiohttp for one, and then Dask sends a bare
    Exception, which nothing is tried again for. The message says what the cause was.
    """
    try:
        yield
    except ZydaError as error:
        error.__cause__ = error.__context__ = None
        raise


def all_but_poison(calls: Iterable[Callable[[], Found]]) -> list[Found]:
    """Make calls one after another, and return what they return. Raises what the first failing one raised.

    Where that was PoisonShards, the others are made all the same: what can be done without these shards is to be
    done. What else they raise stands in the same error, if it is of this tree.
    """
    found, faults = list[Found](), list[str]()
    for call in calls:
        try:
            found.append(call())
        except Exception as error:
            if not (faults or isinstance(error, PoisonShards)):
                raise
            faults += error.faults if isinstance(error, ZydaError) else ()
    if faults:
        raise PoisonShards(*faults)
    return found


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def one_line(text: str) -> str:
    """Join the lines of a library's message."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def bad_input(source: str, fault: str, *, file: str = "", row: int | None = None) -> BadInput:
    """Return the error for a `fault` of a source, at a file and row where known.

    row: counted from 0, as in a doc_id; of a file of lines the message also gives the line, counted from 1.
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
    error.where = {what: value for what, value in known.items() if value}
    return error


def bad_row(source: str, fault: str, *, file: str, row: int) -> BadInput:
    """Return the error for a row that is no document, in a build that stops at the first."""
    return bad_input(
        source, f"{fault} (with on_bad_rows: set_aside, such rows are set apart)", file=file, row=row
    )
