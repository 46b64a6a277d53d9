"""The program `zyda`: a signal ends it in order at every moment, also while it still imports."""

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from zyda_flows.flows.server.signals import RESUME_ADVICE, end_on_signal

UNWRITTEN = 120  # the exit status of a Python program whose last output could not be written
STARTED = "what has been started runs on; zyda up starts the rest, zyda down ends it"
LOOKED = "what was said is kept; zyda look RECIPE --results prints it"
# Of other commands there is nothing to say.
KEPT_BY = {"build": RESUME_ADVICE, "demo": RESUME_ADVICE, "up": STARTED, "look": LOOKED}
OBJECTS_BETWEEN_COLLECTIONS = 20_000  # with Python's 700, garbage takes a sixth of the time of the imports


@dataclass
class End:
    """Ends the process, when all that Python does at its end is done but to take itself apart.

    Threads of Arrow may still hold what was read for them, and the process aborts where one lets it go while Python
    is taken apart: github.com/apache/arrow/issues/34314.
    """

    status: int = 1

    def __call__(self) -> None:
        logging.shutdown()
        for stream in filter(None, (sys.stdout, sys.stderr)):  # one that is closed at the start is none
            try:
                stream.flush()
            except (OSError, ValueError):  # as Python does where nobody reads any more, or nothing finds room
                self.status = UNWRITTEN
        os._exit(self.status)


def run_command() -> int:
    """Run the command that was typed, and return its exit status."""
    command = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")

    def run() -> int:
        from zyda_flows.flows.command.cli import main as run_cli

        return run_cli()

    return run_with_signals(run, KEPT_BY.get(command, ""))


def run_with_signals(run: Callable[[], int], kept: str) -> int:
    """Run a program, which a signal ends in order, and return its exit status. kept: see `end_on_signal`."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    # Python looks for modules in the folder that it is started in, which may be a dataset with files of any name:
    # what is started from here does not, or starts in another folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    if home := os.environ.get("PREFECT_HOME"):
        os.environ["PREFECT_HOME"] = os.path.abspath(os.path.expanduser(home))
    try:
        with end_on_signal(kept):
            return run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who presses again gets no traceback of the end itself


def main(run: Callable[[], int] = run_command) -> int:
    """Run the command line, or another program of ours, and return its exit status."""
    end = End()
    atexit.register(end)  # the first that is registered is called last
    try:
        end.status = run()
    except SystemExit as error:
        end.status = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    return end.status


if __name__ == "__main__":
    sys.exit(main())
