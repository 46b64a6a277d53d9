"""Filter: what a source's labels and its `keep` expression let go.

Rows out: `doc_id` (uint64), `reason` (`quality` or `keep`), sorted by doc_id, for every document
that is left and goes now. A document that both would let go goes for `quality`.

`tasks.quality.keep` is imported only if a source has an expression: DuckDB and sqlglot take a third of a second.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.quality.document_filter import DocumentFilter, run_filter
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.ingested import ingested
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.column_names import names_of_text
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder

VERSION = 1
MOST_SHOWN = 300  # characters of an expression in a message
QUALITY, KEEP = "quality", "keep"
REASONS = {
    QUALITY: "its quality label is not one that the recipe keeps",
    KEEP: "the recipe's `keep` is not true for it",
}


def filter_params(source: Source) -> list[object]:
    """Return what a source's filter depends on, besides its data."""
    return [source.keep, source.text, source.classify.keep if source.classify else None]


def visible_columns(source: Source, stored: pa.Schema, model: Model | None) -> pa.Schema:
    """Return the columns that a `keep` can name, from those of a source's documents."""
    classified = source.classify is not None
    names = [name for name in names_of_text(source.text, classified=classified) if name not in stored.names]
    added = model.added_columns if model else []
    return pa.schema([*stored, *(pa.field(name, pa.large_string()) for name in names), *added])


def check_keep(source: Source, stored: pa.Schema, model: Model | None) -> None:
    """Raise BadInput where a source's `keep` cannot be evaluated on its documents, one by one."""
    if not source.keep:
        return
    from zyda_flows.tasks.quality.keep import fault

    if what_is_wrong := fault(source.keep, visible_columns(source, stored, model)):
        raise bad_input(source.name, f"keep: {shorten(source.keep)}: {what_is_wrong}")


def shorten(expression: str) -> str:
    return expression if len(expression) <= MOST_SHOWN else f"{expression[:MOST_SHOWN]}..."


def columns_to_read(source: Source) -> tuple[str, ...]:
    """Return the columns of a source's documents that have to be read to judge them."""
    named = set[str]()
    if source.keep:
        from zyda_flows.tasks.quality.keep import columns_of

        named.update(columns_of(source.keep))
    if named & set(names_of_text(source.text, classified=source.classify is not None)):
        named |= {"text"}
    return tuple(sorted(named))


def reasons_to_go(folder: Folder, source: Source, documents: pa.Table) -> pa.Table:
    """Judge each document: a table with the columns of a source and those of its model, to VERDICTS."""
    is_bad_quality = np.zeros(len(documents), np.bool_)
    if source.classify and source.classify.keep:
        labels = pa.array(source.classify.keep)
        is_bad_quality = ~pc.is_in(documents.column("quality_pred"), labels).to_numpy()
    is_kept = (
        source_keep_mask(folder, source, documents) if source.keep else np.ones(len(documents), np.bool_)
    )
    is_gone = is_bad_quality | ~is_kept
    reasons = np.where(is_bad_quality[is_gone], QUALITY, KEEP)
    ids = documents.column("doc_id").filter(pa.array(is_gone))
    return pa.table([ids, pa.array(reasons, pa.string())], schema=VERDICTS)


def source_keep_mask(folder: Folder, source: Source, documents: pa.Table) -> NDArray[np.bool_]:
    """Say which rows `keep` is true for: (n,) bool. Raises BadInput that names the row it fails on."""
    from zyda_flows.tasks.quality.keep import keep_mask
    from zyda_flows.tasks.quality.keep_parser import BadKeep

    for name in names_of_text(source.text, classified=source.classify is not None)[1:]:
        if "text" in documents.column_names:
            documents = documents.append_column(name, documents.column("text"))
    try:
        return keep_mask(str(source.keep), documents)
    except BadKeep as error:
        message = f"keep: {shorten(str(source.keep))}: {error.found}"
        if error.row is None:
            raise bad_input(source.name, message) from error
        url, row = file_and_row_of(folder, source.name, documents.column("doc_id")[error.row].as_py())
        raise bad_input(source.name, message, file=url, row=row) from error


def key(recipe: Recipe, trail: Trail) -> str:
    return stage_key("filter", VERSION, filter_params(recipe.source(trail.source)), *trail.identities)


def is_filtered(recipe: Recipe, name: str) -> bool:
    source = recipe.source(name)
    return bool(source.keep or (source.classify and source.classify.keep))


@stage("filter", key, enabled=is_filtered, reasons=REASONS)
def filter_documents(recipe: Recipe, trail: Trail) -> Manifest:
    """Filter a source."""
    source, facts = recipe.source(trail.source), ingested(recipe.folder, trail)
    check_keep(source, facts.columns, facts.model)
    verdicts = partial(reasons_to_go, recipe.folder, source)
    document_filter = DocumentFilter(
        "filter", VERSION, verdicts, REASONS, params=filter_params(source), columns=columns_to_read(source)
    )
    return run_filter(recipe, trail, document_filter)
