"""The command line: `zyda` and its commands, which parse, call and print.

What takes time to import is imported inside the commands, so that help, version and completion take a moment.
"""

import errno
import os
import sys
from typing import Annotated

import typer

from flows.command.cli.keeping import keeping
from flows.command.cli.looking import looking
from flows.command.cli.making import making
from flows.command.cli.running import running
from tasks.errors import BadRecipe, ZydaError, on_one_line

PACKAGE = "zyda-flows"
LONGEST_LINE = 2000  # characters

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for commands in (making, looking, keeping, running):
    app.add_typer(commands)


def print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"{PACKAGE} {version(PACKAGE)}")
        raise typer.Exit


@app.callback()
def zyda(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Make language-model pretraining corpora out of many published datasets."""


def main() -> int:
    """Run the command line; an error that a person can mend is one line, and exit status 1."""
    try:
        return app(prog_name="zyda") or 0
    except ZydaError as error:
        from flows.command.terminal import inert

        for fault in error.faults if isinstance(error, BadRecipe) else [on_one_line(str(error))]:
            print(f"zyda: {inert(short_line(fault))}", file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        # What was printed is lost, where that is what found no room, and Python would write it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        said = "zyda: no space left on device, where the output goes or a file of this machine"
        print(said, file=sys.stderr)  # noqa: T201
        return 1


def short_line(line: str) -> str:
    """Leave out the middle of a line that nobody would read."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
