"""The extractors that a recipe can name, and where each stands.

A new extractor is a function in a module of this folder, from a text in UTF-8 to its extracted text, and a place in
EXTRACTORS.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zyda_flows.tasks.extraction.nesting import Bytes

Extract = Callable[["Bytes"], str]  # it may raise anything: that costs the one text
VERSION = "1"  # raised when an extractor gives other texts


class Extractor(NamedTuple):
    """Where an extractor stands. function: `module:function` in this folder. library: the package that it needs."""

    function: str
    library: str = ""
    writes_markdown: bool = False

    def load(self) -> Extract:
        """Import the function. It is imported late: most recipes need none."""
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
        raise ValueError(f"extract: there is no {name}; there are {', '.join(EXTRACTORS)}")
    return EXTRACTORS[name]


def known_as(name: str) -> str:
    """Return an extractor with the versions its texts depend on. Raises ValueError where it is not installed."""
    library = extractor_named(name).library
    try:
        return " ".join([name, VERSION, *([library, version(library)] if library else [])])
    except PackageNotFoundError as error:
        needed = f"extract: {library} is not installed here; pip install 'zyda-flows[{library}]'"
        raise ValueError(needed) from error
