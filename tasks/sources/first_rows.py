"""Read the first rows of a file, before a recipe names the text column."""

from zyda_flows.tasks.errors import BadInput, bad_input
from zyda_flows.tasks.sources.file_rows import Chunk
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.json_columns import TooWide
from zyda_flows.tasks.sources.reading import UNINSPECTABLE, format_of, open_listed_file, wrong_ending
from zyda_flows.tasks.sources.streams import damage

UNREADABLE: tuple[type[Exception], ...] = (*UNINSPECTABLE, TooWide)


def first_rows(source: str, file: InputFile, count: int) -> Chunk:
    """Return at most `count` first rows of a file, with all columns.

    Raises BadInput if the file cannot be read, and Unavailable if the store failed.
    """
    kind = format_of(source, file)
    with open_listed_file(source, file, kind) as stream:
        try:
            return kind.first_rows(stream, count)
        except UNREADABLE as error:
            stream.expect_unchanged()
            fault = wrong_ending(stream)
            if isinstance(error, BadInput) and not fault:
                raise
            fault = fault or damage(stream, error)
            raise bad_input(source, f"cannot be read: {fault}", file=file.url) from error
