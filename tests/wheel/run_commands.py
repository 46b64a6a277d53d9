"""Run command lines of `zyda` in this process, and print their exit status and output as JSON."""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from zyda_flows.flows.command.cli import app, main


def run(arguments):
    """Return the exit status and the output of a command line."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.argv = ["zyda", *arguments]
    with redirect_stdout(output), redirect_stderr(output):
        try:
            status = main()
        except SystemExit as exit_error:
            status = exit_error.code
    output.flush()
    return status or 0, output.buffer.getvalue().decode()


if __name__ == "__main__":
    lines = json.loads(sys.argv[1])
    names = [command.name for command in app.registered_commands]
    lines += [[name, "--help"] for name in names]
    answers = [[line, *run(line)] for line in lines]
    json.dump({"names": names, "answers": answers}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)
