"""A published corpus, opened in Python: its documents, its accounts, and the reason of each removal."""

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zyda_flows.flows.python.recipes import AnyRecipe, is_recipe, recipe_path
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.lookup.published_rows import Rows
from zyda_flows.tasks.passages.marks import PASSAGES
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.folder import absolute

if TYPE_CHECKING:
    from zyda_flows.tasks.lookup.explain import Explanation
    from zyda_flows.tasks.lookup.nearest import SimilarDocument

DOCUMENTS = pa.schema(
    [("doc_id", pa.uint64()), ("source", pa.string()), ("text", pa.string()), ("n_tokens", pa.int64())]
)


def open_corpus(
    place: AnyRecipe, *, storage: str | os.PathLike[str] | None = None, sample: float | None = None
) -> "Corpus":
    """Open a published corpus. Its files are read when they are used.

    Args:
        place: The URL or the path of the folder of a corpus, or of its published folder; or its recipe: the path
            or the URL of a YAML file, or a mapping.
        storage: The folder of corpora, instead of the recipe's.
        sample: The part of the input, of a corpus that is a sample.

    Raises:
        BadRecipe: The recipe cannot be read.
        Denied: No corpus is published there, or it is damaged.
        Unavailable: The storage does not answer.
    """
    if is_recipe(place):
        return open_by_recipe(place, as_place(storage), sample)
    if storage is not None or sample is not None:
        raise BadRequest("storage and sample belong to a recipe; the folder of a corpus has its own")
    return Corpus(PublishedCorpus.at(absolute(os.fspath(place))))  # type: ignore[arg-type]


def open_by_recipe(recipe: AnyRecipe, storage: str | None, sample: float | None) -> "Corpus":
    """Open the corpus of a recipe; the name of the recipe's file may have any ending."""
    with recipe_path(recipe) as path:
        loaded = load_recipe(path, storage=storage, sample=sample)
    return Corpus(PublishedCorpus.of(loaded), loaded)


def as_place(storage: str | os.PathLike[str] | None) -> str | None:
    return None if storage is None else os.fspath(storage)


class Corpus:
    """A published corpus.

    Attributes:
        published: The location of the corpus, and the digest of its manifest.
        recipe: The recipe, or None if the corpus was opened by its folder.
    """

    def __init__(self, published: PublishedCorpus, recipe: Recipe | None = None) -> None:
        self.published = published
        self.recipe = recipe

    def __repr__(self) -> str:
        ledger = self.manifest.ledger
        return f"<corpus {self.name}: {ledger.of(ledger.stages[-1]).sentence()}, in {self.url}>"

    @property
    def url(self) -> str:
        """The published folder."""
        return self.published.url

    @property
    def name(self) -> str:
        return self.manifest.corpus

    @cached_property
    def manifest(self) -> Published:
        """The manifest: the recipe, the ledger, the reasons of removals, the digests of other corpora."""
        return self.published.manifest

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, the best first."""
        return self.manifest.ledger.sources

    @property
    def tokenizer(self) -> str:
        """The name of the tokenizer that counted the tokens."""
        return str(self.manifest.recipe["tokenizer"])

    @property
    def tokens(self) -> int:
        """The tokens of the published documents."""
        return self.manifest.ledger.of(self.manifest.ledger.stages[-1]).tokens

    @property
    def ledger(self) -> pa.Table:
        """The documents, tokens and bytes that each stage kept of each source, removed and set aside."""
        return self.manifest.ledger.table()

    @property
    def reasons(self) -> pa.Table:
        """The documents, tokens and bytes that each stage removed of each source, by reason."""
        return self.manifest.ledger.reasons()

    def documents(
        self, columns: Sequence[str] | None = None, filter: Any = None, *,  # noqa: A002
        sources: Iterable[str] | None = None,
    ) -> Rows:  # fmt: skip
        """Return the published documents, which are read in parts when they are used.

        Args:
            columns: The names of the columns to read; all columns by default.
            filter: An expression of pyarrow.compute, such as `pc.field("n_tokens") > 1000`, over any columns.
            sources: The names of the sources to read, in this order; all sources by default.

        Raises:
            BadRequest: The corpus has no such source or column.
            Denied: A file is missing or damaged.
        """
        places = [f"{source}/" for source in self.known(sources)]
        return self.rows(places, DOCUMENTS, columns, filter)

    def removed(
        self, columns: Sequence[str] | None = None, filter: Any = None, *,  # noqa: A002
        sources: Iterable[str] | None = None,
    ) -> Rows:  # fmt: skip
        """Return a row for each removed document: the stage, the reason, and the document that was kept instead.

        Args and Raises: as for `documents`. The texts of removed documents are not published.
        """
        places = ["removed/"] if sources is None else [f"removed/{name}/" for name in self.known(sources)]
        return self.rows(places, REMOVED, columns, filter)

    def passages(self, columns: Sequence[str] | None = None, filter: Any = None) -> Rows:  # noqa: A002
        """Return a row for each repeated passage, if the recipe has `passages`: its document, place and owner.

        Args and Raises: as for `documents`.
        """
        return self.rows(["passages/"], PASSAGES, columns, filter)

    def rows(
        self, places: Iterable[str], base: pa.Schema, columns: Sequence[str] | None, condition: Any
    ) -> Rows:
        if isinstance(columns, str):
            raise BadRequest(f"columns={columns!r}: expected a list of names")
        files = [file for place in places for file in self.published.artifacts(place)]
        return Rows(self.published, files, base, columns, condition)

    def known(self, sources: Iterable[str] | None) -> list[str]:
        """Return the names of the sources, or of all sources for None. Raises BadRequest for an unknown source."""
        names = [*self.sources] if sources is None else [sources] if isinstance(sources, str) else [*sources]
        if unknown := [name for name in names if name not in self.sources]:
            raise BadRequest(
                f"{self.url}: there is no source {unknown[0]!r}; the sources are {', '.join(self.sources)}"
            )
        return names

    def explain(self, doc_id: int | str) -> "Explanation":
        """Return the origin of a document and the decisions about it, as `zyda explain` prints them.

        Raises:
            BadRequest: The corpus never had this document, or was not opened by its recipe.
        """
        from zyda_flows.tasks.lookup.explain import explain

        return explain(self.recipe_for("explain"), str(doc_id))

    def nearest(self, text: str, most: int = 10) -> "list[SimilarDocument]":
        """Return the published documents that are most similar to a text, as `zyda find` prints them.

        Raises:
            BadRequest: The text has no shingles to look up, or the corpus was not opened by its recipe.
        """
        from zyda_flows.tasks.lookup.nearest import nearest

        return nearest(self.recipe_for("nearest"), text, most)

    def recipe_for(self, method: str) -> Recipe:
        if self.recipe is None:
            raise BadRequest(f"{method}: open the corpus by its recipe: zyda.open('recipe.yaml')")
        return self.recipe
