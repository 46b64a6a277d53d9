"""`zyda find`: print the published documents that are most similar to a text."""

import codecs
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import console, table_of
from zyda_flows.tasks.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zyda_flows.tasks.lookup.nearest_meaning import Cosines
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda find recipe.yaml page.txt",
    "cat page.txt | zyda find recipe.yaml -",
    "zyda find recipe.yaml 'how to sort a list' --meaning edu",
    "zyda find recipe.yaml page.txt --meaning pairs",
)
LONGEST_NAME = 4096  # characters of a path; longer arguments are texts
LONGEST_HINT = 80  # characters of a text that may be a mistyped path
NO_DOCUMENT = "no published document is similar to this text as a whole; parts of documents are not searched"
LONGEST_TEXT = 64 << 20  # bytes
# Byte order marks, with the encodings that leave them out of the text. That of UTF-32 begins with that of UTF-16.
FILE_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


def find(
    recipe_path: RecipePath,
    text: Annotated[
        str,
        typer.Argument(metavar="FILE-OR-TEXT", help="Text file, - for standard input, or the text itself."),
    ],
    most: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="Largest number of documents to print.")
    ] = 10,
    meaning: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare vectors: of a judge that `publish_vectors` of the recipe lists; or of the model that "
            "proposes the pairs of a semantic round, by the folder of its pairs, pairs or pairs2.",
        ),
    ] = None,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Find the published documents that are most similar to a text as a whole.

    The command looks up candidates by their MinHash signatures, and compares their texts with the given text. It
    does not find a document by a sentence or a paragraph of it. With --meaning it compares the vectors of all
    documents with the vector of the text. For a semantic round, the model then reads all published texts. The exit
    status is 1 if no document is found.
    """
    recipe = load(recipe_path, storage, sample)
    if not (
        print_nearest(recipe, text, most) if meaning is None else print_meaning(recipe, text, meaning, most)
    ):
        raise typer.Exit(code=1)


def print_meaning(recipe: "Recipe", file_or_text: str, name: str, most: int) -> bool:
    """Print the documents with the most similar vectors; return whether there are any. Raises BadInput, Denied."""
    from rich.markup import escape  # late

    from zyda_flows.tasks.lookup.nearest_meaning import nearest_in_meaning  # late

    columns = ("cosine", "document", "source", "row", "file", "begins")
    table = table_of(*columns, words=["document", "source", "file", "begins"])
    with console(stderr=True).status("comparing vectors") as status:

        def follow(parts: "Iterable[Cosines]") -> "Iterator[Cosines]":
            documents = 0
            for ids, cosines in parts:
                documents += len(ids)
                status.update(f"comparing vectors: {documents:,} documents")
                yield ids, cosines

        found = nearest_in_meaning(recipe, text_of(file_or_text), name, most, follow)
    for near in found:
        place = (str(near.doc_id), near.source, f"{near.row:,}", escape(near.file))
        table.add_row(f"{near.cosine:.3f}", *place, escape(in_one_line(near.beginning)))
    console().print(table if table.row_count else f"{name}: no published document has a vector")
    return bool(table.row_count)


def print_nearest(recipe: "Recipe", file_or_text: str, most: int) -> bool:
    """Print the most similar published documents; return whether there are any. Raises BadInput."""
    from rich.markup import escape  # late

    from zyda_flows.tasks.lookup.nearest import nearest  # late

    text = text_of(file_or_text)
    neighbours = nearest(recipe, text, most)
    if not neighbours:
        is_one_word = text == file_or_text and not any(c.isspace() for c in text)
        hint = f"there is no file {text[:LONGEST_HINT]}; searched as a text: " if is_one_word else ""
        console().print(f"{hint}{NO_DOCUMENT}", markup=False, soft_wrap=True)
        return False
    columns = ("jaccard", "containment", "document", "source", "row", "file", "begins")
    table = table_of(*columns, words=["document", "source", "file", "begins"])
    for near in neighbours:
        numbers = (f"{near.jaccard:.3f}", f"{near.containment:.3f}", str(near.doc_id))
        table.add_row(
            *numbers, near.source, f"{near.row:,}", escape(near.file), escape(in_one_line(near.beginning))
        )
    console().print(table)
    return True


def in_one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def text_of(file_or_text: str) -> str:
    """Return the text of a file, of standard input for `-`, or the given text. Raises BadInput."""
    if file_or_text == "-":
        content, name = sys.stdin.buffer.read(LONGEST_TEXT + 1), "standard input"
    elif is_file(file_or_text):
        try:
            with Path(file_or_text).open("rb") as file:
                content, name = file.read(LONGEST_TEXT + 1), file_or_text
        except OSError as error:
            raise BadInput(f"{file_or_text}: cannot be read: {error.strerror}") from error
    else:
        content, name = file_or_text.encode(errors="surrogateescape"), "the text"
    if len(content) > LONGEST_TEXT:
        raise BadInput(f"{name}: the text exceeds {LONGEST_TEXT >> 20} MiB; give a part of it")
    return decoded(content, name)


def decoded(content: bytes, name: str) -> str:
    """Decode a text by its byte order mark, or as UTF-8 without one. Raises BadInput."""
    encoding = next((encoding for mark, encoding in FILE_MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: byte {error.start} is not {encoding.upper()}; a text is expected") from error


def is_file(name: str) -> bool:
    """Return whether a text is the path of an existing file, pipe or device."""
    try:
        return 0 < len(name) <= LONGEST_NAME and Path(name).exists()
    except (OSError, ValueError):
        return False
