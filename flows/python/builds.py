"""Builds and checks that a Python program starts, each in a separate process.

A build can therefore be started in a script, in a notebook with a running event loop, in a thread and in an
interactive shell. It does not share signals, environment, logging and imports with the program, and its workers do
not run the script again. It ends with the program, even if the program is killed, and leaves no process.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO

from zyda_flows.flows.python.build_process import Answer, BuildFault, BuildRequest
from zyda_flows.flows.python.corpus import Corpus, as_place, open_by_recipe
from zyda_flows.flows.python.recipes import AnyRecipe, as_json
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.planning.checked import CheckResult

# -P: modules are not imported from the working directory, which may be a dataset with files of any name.
PROGRAM = ["-P", "-m", "zyda_flows.flows.python.build_process"]
LAST_LINES = 20  # of a process's output, in the message about its end


class BuildStopped(ZydaError):
    """The process of a build or a check ended without an answer."""

    advice = "Finished work is kept: start the build again."


def build(
    recipe: AnyRecipe,
    *,
    storage: str | os.PathLike[str] | None = None,
    sample: float | None = None,
    replace: bool = False,
    quiet: bool = False,
) -> Corpus:
    """Build the missing parts of a recipe's corpus, and open the corpus.

    The build is a separate process, which ends if this call ends, also by an interrupt. Finished work is kept for
    the next build.

    Args:
        recipe: The path or the URL of a YAML file, or a mapping with the same fields. Relative paths in a file are
            relative to its folder; paths in a mapping or behind a URL are relative to the working directory.
        storage: The folder of corpora, instead of the recipe's: a path or any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a separate corpus.
        replace: Replace a corpus of this name that was built from other sources.
        quiet: Show no progress.

    Raises:
        BadRecipe: The recipe cannot be built: a line for each fault.
        BuildStopped: The process of the build was killed, or failed by a bug.
        ZydaError: Another error, with the message of the command line.
    """
    place = as_place(storage)
    answer_of(
        BuildRequest(recipe=as_json(recipe), storage=place, sample=sample, replace=replace), quiet=quiet
    )
    return open_by_recipe(recipe, place, sample)


def check(
    recipe: AnyRecipe,
    *,
    storage: str | os.PathLike[str] | None = None,
    sample: float | None = None,
    replace: bool = False,
) -> CheckResult:
    """Check a recipe for all faults that can be detected before a build, and return the input of the build.

    Args: as for `build`.

    Raises:
        BadRecipe: The recipe cannot be built: a line for each fault.
    """
    request = BuildRequest(
        recipe=as_json(recipe), only_check=True, storage=as_place(storage), sample=sample, replace=replace
    )
    checked = answer_of(request, quiet=True).checked
    assert checked is not None
    return checked


def answer_of(request: BuildRequest, *, quiet: bool) -> Answer:
    """Execute a request in another process, and return its answer. Raises the fault of the answer."""
    with TemporaryFile() as answer, TemporaryFile() as unseen:
        errors = unseen if quiet else None if is_our_terminal(sys.stderr) else subprocess.PIPE
        with child(answer, errors) as process:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # a process that has ended already shows why
                process.stdin.write(request.model_dump_json().encode() + b"\n")
                process.stdin.flush()
            last = deque(echo_lines(process.stderr), LAST_LINES)
            status = process.wait()
        answer.seek(0)
        content = answer.read()
        if not content:
            unseen.seek(0)
            last.extend(unseen.read().decode(errors="replace").splitlines())
            raise stopped_error(status, last)
    result = Answer.model_validate_json(content)
    if result.fault:
        raise error_of(result.fault)
    return result


@contextmanager
def child(output: IO[bytes], errors: IO[bytes] | int | None) -> "Iterator[subprocess.Popen[bytes]]":
    """Start the process of a build, which has ended after the block.

    The child has its own session: Ctrl-C reaches only this process, which then ends the child.
    """
    command, environment = [sys.executable, *PROGRAM], dict(os.environ)
    if errors is not None:  # a notebook sets variables that force colours, but cannot show bars
        environment = {**environment, "FORCE_COLOR": "", "TTY_COMPATIBLE": "0"}
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=environment, start_new_session=True
    )
    try:
        yield process
    except BaseException:
        with suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        deque(echo_lines(process.stderr), maxlen=0)
        process.wait()
        raise
    finally:
        process.kill()  # needed only if a second interrupt arrives during the end
        process.wait()
        for stream in filter(None, (process.stdin, process.stderr)):
            with suppress(BrokenPipeError):
                stream.close()


def is_our_terminal(stream: IO[str] | None) -> bool:
    """Return whether a stream is the terminal of this process, which another process can draw bars on."""
    try:
        return stream is not None and stream.fileno() == 2 and stream.isatty()
    except (OSError, ValueError, AttributeError):  # a stream of a notebook has no number
        return False


def echo_lines(errors: IO[bytes] | None) -> Iterator[str]:
    """Print the lines of another process's standard error to this program's standard error, and yield them."""
    for line in errors or ():
        text = line.decode(errors="replace").rstrip("\n")
        print(text, file=sys.stderr, flush=True)  # noqa: T201
        yield text


def stopped_error(status: int, last: "deque[str]") -> BuildStopped:
    """Return the error for a process that ended without an answer."""
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    words = f"; the last lines: {' | '.join(last)}" if last else ""
    return BuildStopped(f"the process of the build ended {how}{words}")


def error_of(fault: BuildFault) -> ZydaError:
    """Return the ZydaError that another process raised."""
    kinds = {kind.__name__: kind for kind in all_kinds(ZydaError)}
    error = kinds.get(fault.kind, ZydaError)(*fault.arguments)
    error.where = fault.where
    return error


def all_kinds(kind: type[ZydaError]) -> Iterator[type[ZydaError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from all_kinds(subclass)
