"""`zyda init`: write a recipe for files, folders, globs or URLs, with a reason for each guess."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.terminal import as_size, console, say, table_of
from zyda_flows.tasks.errors import BadRecipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from zyda_flows.tasks.planning.draft_sources import DraftSource

EXAMPLES = (
    "zyda init texts/",
    'zyda init wiki.parquet "crawl/*.jsonl.gz"',
    "zyda init hf://datasets/lab/wiki --output wiki.yaml",
)
TOKENIZER = "EleutherAI/gpt-neox-20b"


def init(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="FILES-OR-URLS...", help="Files, folders, patterns in quotes, URLs."),
    ],
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="File to write; - prints the recipe.")
    ] = "recipe.yaml",
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Hub name, or path of a tokenizer.json. If not given, the command asks for it on a terminal; "
            f"elsewhere it uses {TOKENIZER}.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Folder or fsspec URL for the corpus; if not given, the folder `corpus` beside FILE.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing FILE.")] = False,
) -> None:
    """Write a draft of a recipe for your files: guess the format and the columns, and give a reason for each guess.

    The command reads the first rows of some files. Files of one folder with the same format and columns become
    one source. The order of the arguments is the rank of the sources, best first. Read the draft, and correct
    wrong guesses.
    """
    from zyda_flows.tasks.planning.draft_recipe import Draft, left_out_lines, recipe_text  # late
    from zyda_flows.tasks.planning.draft_sources import draft_from_inputs  # late

    expect_free(output, is_replaced=replace)
    sources, left_out = draft_from_inputs(inputs)
    folder = os.getcwd() if output == "-" else str(Path(output).resolve().parent)
    out = console(stderr=output == "-")
    out.print(table_of_sources(sources))
    for line in left_out_lines(left_out):
        out.print(line, markup=False, soft_wrap=True)
    draft = Draft(sources, left_out, folder, chosen_tokenizer(tokenizer, folder), storage)
    text = recipe_text(draft)
    if output == "-":
        say(text.removesuffix("\n"))
        return
    Path(output).write_text(text, encoding="utf-8")
    say(f"wrote {output}: read it, and correct wrong guesses")
    say(f"next: zyda check {shlex.quote(output)}")


def expect_free(output: str, *, is_replaced: bool) -> None:
    """Raise BadRecipe if the file exists and is not to be replaced, or if its folder does not exist."""
    if output != "-" and not Path(output).resolve().parent.is_dir():
        raise BadRecipe(f"{output}: there is no folder {Path(output).resolve().parent}")
    if output != "-" and os.path.lexists(output) and not is_replaced:
        raise BadRecipe(f"{output}: the file exists; give another --output, or replace it with --replace")


def table_of_sources(sources: "Sequence[DraftSource]") -> "Table":
    """Return a table of the sources."""
    table = table_of(
        "source", "files", "size", "format", "text", "url", words=["source", "format", "text", "url"]
    )
    for source in sources:
        url = source.guesses.url_column.name if source.guesses.url_column else ""
        size = as_size(sum(file.size for file in source.files))
        cells = (
            source.name,
            f"{len(source.files):,}",
            size,
            source.kind.NAME,
            source.guesses.text_column.name,
            url,
        )
        table.add_row(*map(escaped, cells))
    return table


def escaped(text: str) -> str:
    """Return a text that rich prints without interpreting its markup."""
    from rich.markup import escape  # late

    return escape(text)


def chosen_tokenizer(name: str | None, folder: str) -> str:
    """Return the tokenizer as a recipe in a folder names it: that of the option, of an answer, or the default.

    Raises BadRecipe if a chosen tokenizer cannot be loaded. If the default cannot, the recipe names it anyway.
    """
    from zyda_flows.tasks.tokens.stored import load_tokenizer  # late

    if name is None and sys.stdin.isatty():
        question = "Tokenizer that counts tokens: a hub name, or the path of a tokenizer.json"
        name = typer.prompt(question, default=TOKENIZER, err=True)
    err = console(stderr=True)
    try:
        with err.status(f"loading the tokenizer {escaped(name or TOKENIZER)}"):
            load_tokenizer(name or TOKENIZER)
    except BadRecipe as error:
        if name is not None and name != TOKENIZER:
            raise
        fault = f"{error}. Give another with --tokenizer, or in the recipe"
        err.print(fault, markup=False, soft_wrap=True)
    is_relative = name is not None and os.path.exists(name) and not os.path.isabs(name)
    return os.path.relpath(name, folder) if name and is_relative else name or TOKENIZER
