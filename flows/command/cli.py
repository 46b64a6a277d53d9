"""The program `zyda`: register the commands, and print errors."""

import errno
import inspect
import os
import sys
from types import ModuleType
from typing import Annotated

import typer
from typer.exceptions import TyperException

from zyda_flows.flows.command import (
    ablate,
    audit,
    build,
    check,
    clean,
    demo,
    down,
    explain,
    export,
    fetch,
    find,
    forget,
    init,
    ledger,
    look,
    mix,
    params,
    plan,
    push,
    recipes,
    report,
    status,
    trace_mixture,
    train_judge,
    try_recipe,
    up,
    verify,
    watch,
)
from zyda_flows.flows.command.inert_text import inert
from zyda_flows.tasks.errors import ZydaError

PACKAGE = "zyda-flows"
LONGEST_LINE = 2000  # characters
NOT_A_BUG = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)  # faults of the machine

PANELS: dict[str, tuple[ModuleType, ...]] = {
    "Start": (demo, recipes, init),
    "Make a corpus": (check, try_recipe, params, train_judge, fetch, plan, build),
    "Inspect a corpus": (ledger, explain, find, look, audit, report),
    "Maintain a corpus": (verify, clean, forget),
    "Publish a corpus": (export, push),
    "Train on corpora": (mix, trace_mixture, ablate),
    "Run it from Prefect": (up, status, watch, down),
}

# Commands whose names cannot be names of modules: a keyword, a module of Python's library, a name with a hyphen.
COMMAND_NAMES = {"try_recipe": "try", "trace_mixture": "trace", "train_judge": "train-judge"}

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def add_command(file: ModuleType, panel: str) -> None:
    """Register the function with the name of a module as a command, named as the module or by COMMAND_NAMES.

    Its help is its docstring, with paragraphs wrapped at the width of the terminal, and the examples of the
    module.
    """
    name = file.__name__.rpartition(".")[2]
    command = getattr(file, name)
    epilog = "\n".join(["For example:", *file.EXAMPLES]) if file.EXAMPLES else None
    register = app.command(
        COMMAND_NAMES.get(name, name), help=flowing(command.__doc__), epilog=epilog, rich_help_panel=panel
    )
    register(command)


def flowing(text: str) -> str:
    """Join the lines of each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


for panel, files in PANELS.items():
    for file in files:
        add_command(file, panel)


def print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # late

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
    """Run the command line. Print errors that users can correct as one line each, and return 1."""
    try:
        return app(prog_name="zyda", standalone_mode=False) or 0
    except TyperException as error:  # of a command line
        if message := error.format_message().replace("Value error, ", "").rstrip("."):  # empty after help
            print(f"zyda: {inert(short_line(message + hint(error)))}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except typer.Abort:
        print("zyda: aborted", file=sys.stderr)  # noqa: T201
        return 1
    except ZydaError as error:
        for fault in error.faults:
            print(f"zyda: {inert(short_line(fault))}", file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        if error.errno not in NOT_A_BUG:
            raise
        place = error.filename or "the output, or a file of this machine"
        if error.filename is None:  # Python would write to the output again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"zyda: {inert(str(place))}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 1


def hint(error: TyperException) -> str:
    """Return the command that prints the help for an error of a command line."""
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context else ""


def short_line(line: str) -> str:
    """Return a line, without its middle if it is longer than LONGEST_LINE."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
