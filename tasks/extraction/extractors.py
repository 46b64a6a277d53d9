"""The extractors that a recipe can name.

To add an extractor, write a function in a module of this folder, and add it to EXTRACTORS.
The function takes a text in UTF-8 and returns the extracted text.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zyda_flows.tasks.extraction.nesting import Bytes

Extract = Callable[["Bytes"], str]  # an exception removes only the text for which it was raised
VERSION = "1"  # increase it when an extractor returns other texts than before


class Extractor(NamedTuple):
    """An extractor. function: `module:function` in this folder. library: the package that the module imports."""

    function: str
    library: str = ""
    writes_markdown: bool = False

    def load(self) -> Extract:
        """Import and return the function. Most recipes need no extractor, so none is imported before."""
        module, _, name = self.function.partition(":")
        extract: Extract = getattr(import_module(f"{__package__}.{module}"), name)
        return extract


EXTRACTORS = {
    "fast": Extractor("pages:main_content", "resiliparse"),
    "structured": Extractor("structured:structured_text", "resiliparse", writes_markdown=True),
    "trafilatura": Extractor("by_trafilatura:trafilatura_text", "trafilatura"),
    "wikitext": Extractor("wikitext:wikitext_article", writes_markdown=True),
    "latex": Extractor("latex:latex_article", writes_markdown=True),
}


def extractor_named(name: str) -> Extractor:
    """Return an extractor. Raises ValueError for an unknown name."""
    if name not in EXTRACTORS:
        raise ValueError(f"extract: expected one of {', '.join(EXTRACTORS)}, got {name}")
    return EXTRACTORS[name]


def known_as(name: str) -> str:
    """Return an extractor's name with the versions that its texts depend on, for keys of results.

    Raises ValueError if the extractor is unknown or its library is not installed.
    """
    library = extractor_named(name).library
    try:
        return " ".join([name, VERSION, *([library, version(library)] if library else [])])
    except PackageNotFoundError as error:
        message = f"extract: {library} is not installed; run pip install 'zyda-flows[{library}]'"
        raise ValueError(message) from error
