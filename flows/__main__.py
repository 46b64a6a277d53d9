"""The program `zyda`: a signal ends it in order at every moment, also while it still imports."""

import os
import signal
import sys

from flows.server.signals import RESUME_ADVICE, end_in_order

STARTED = "what has been started runs on; zyda up starts the rest, zyda down ends it"
KEPT_BY = {"build": RESUME_ADVICE, "up": STARTED}  # of other commands there is nothing to say


def main() -> int:
    """Run the command line and return its exit status."""
    # Python looks for modules in the folder that it is started in, which may be a dataset with files of any name:
    # what is started from here does not, or starts in another folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    if home := os.environ.get("PREFECT_HOME"):
        os.environ["PREFECT_HOME"] = os.path.abspath(os.path.expanduser(home))
    command = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    try:
        with end_in_order(KEPT_BY.get(command, "")):
            from flows.command.cli import main as run

            return run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who presses again gets no traceback of the end itself


if __name__ == "__main__":
    sys.exit(main())
