"""The process of a build or a check that a Python program started.

    python -P -m zyda_flows.flows.python.build_process

The first line of standard input is a BuildRequest. Standard input ends if the parent program has ended or has
stopped waiting; this process then ends as at Ctrl-C. Standard output receives an Answer.
"""

import os
import signal
import sys
import threading
import time
from contextlib import redirect_stdout
from functools import partial
from typing import IO

from pydantic import BaseModel

from zyda_flows.__main__ import main, run_with_signals
from zyda_flows.flows.server.signals import RESUME_ADVICE
from zyda_flows.tasks.errors import Denied, ZydaError
from zyda_flows.tasks.planning.checked import CheckResult

LONGEST_END = 120  # seconds for a regular end, before the process is ended without cleaning up
SECONDS_BETWEEN_LINES = 10.0


class BuildRequest(BaseModel):
    """A recipe, as a path, a URL or a mapping, with the options of `zyda build`."""

    recipe: str | dict[str, object]
    only_check: bool = False
    storage: str | None = None
    sample: float | None = None
    replace: bool = False


class BuildFault(BaseModel):
    """An error of `tasks.errors`: the name of its class, its arguments, and its place."""

    kind: str
    arguments: tuple[str, ...]
    where: dict[str, str] = {}


class Answer(BaseModel):
    """The result of a request: a fault, or the result of a check, or neither if a corpus was built."""

    fault: BuildFault | None = None
    checked: CheckResult | None = None


def answer_request() -> int:
    """Read the request and write the answer; return the exit status."""
    request = BuildRequest.model_validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_asker, daemon=True).start()
    return run_with_signals(partial(answer_to, request), "" if request.only_check else RESUME_ADVICE)


def answer_to(request: BuildRequest) -> int:
    output = sys.stdout
    with redirect_stdout(sys.stderr):  # standard output is only for the answer
        answer = result_or_fault(request)
    write(answer, output)
    return 1 if answer.fault else 0


def write(answer: Answer, output: IO[str]) -> None:
    output.write(answer.model_dump_json())
    output.flush()


def result_or_fault(request: BuildRequest) -> Answer:
    """Execute a request, and return its result or its ZydaError."""
    try:
        return Answer(checked=execute(request))
    except ZydaError as error:
        arguments = tuple(map(str, error.args))
        return Answer(
            fault=BuildFault(kind=type(error).__name__, arguments=arguments, where=dict(error.where))
        )


def execute(request: BuildRequest) -> CheckResult | None:
    """Check a recipe and return the result, or build its corpus. Raises ZydaError."""
    from zyda_flows.flows.command.build import build_if_needed, hide_prefect_log

    hide_prefect_log()  # before Prefect is imported
    from zyda_flows.flows.command.cli import NOT_A_BUG
    from zyda_flows.flows.command.terminal import in_threads
    from zyda_flows.flows.dashboard.progress_bars import ProgressLines
    from zyda_flows.flows.python.recipes import recipe_path
    from zyda_flows.tasks.planning.checked import check
    from zyda_flows.tasks.recipe.loading import load_recipe

    ProgressLines.seconds_between = SECONDS_BETWEEN_LINES
    try:
        with recipe_path(request.recipe) as path:
            recipe = load_recipe(path, storage=request.storage, sample=request.sample)
            if request.only_check:
                return check(recipe, replace=request.replace, call_on_each=in_threads)
            build_if_needed(path, request.storage, request.sample, recipe, replace=request.replace)
            return None
    except OSError as error:
        if isinstance(error, ZydaError) or error.errno not in NOT_A_BUG:
            raise
        raise Denied(f"{error.filename or 'a file of this machine'}: {error.strerror}") from error


def end_with_asker() -> None:
    """End this process when standard input ends: as at Ctrl-C, or at once if that takes over LONGEST_END."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(LONGEST_END)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(answer_request))
