"""Filter: remove the documents that a source's quality labels or its `keep` expression reject.

Rows out: `doc_id` (uint64) and `reason` (`quality` or `keep`) of each removed document, sorted by doc_id. The
reason of a document that both reject is `quality`.

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
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.column_names import names_of_text
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder

VERSION = 1
MAX_SHOWN = 300  # characters of an expression in a message
QUALITY, KEEP = "quality", "keep"
REASONS = {
    QUALITY: "its quality label is not one that the recipe keeps",
    KEEP: "the recipe's `keep` is not true for it",
}


def filter_params(source: Source) -> list[object]:
    """Return the settings on which a source's filter depends."""
    return [source.keep, source.text, source.classify.keep if source.classify else None]


def visible_columns(source: Source, stored: pa.Schema, model: Model | None) -> pa.Schema:
    """Return the columns that a `keep` can name, from those of a source's documents."""
    classified = source.classify is not None
    names = [name for name in names_of_text(source.text, classified=classified) if name not in stored.names]
    added = model.added_columns if model else []
    return pa.schema([*stored, *(pa.field(name, pa.large_string()) for name in names), *added])


def check_keep(source: Source, stored: pa.Schema, model: Model | None) -> None:
    """Raise BadInput if a source's `keep` cannot be evaluated on the columns of its documents."""
    if not source.keep:
        return
    from zyda_flows.tasks.quality.keep import fault

    if description := fault(source.keep, visible_columns(source, stored, model)):
        raise bad_input(source.name, f"keep: {shorten(source.keep)}: {description}")


def shorten(expression: str) -> str:
    return expression if len(expression) <= MAX_SHOWN else f"{expression[:MAX_SHOWN]}..."


def columns_to_read(source: Source) -> tuple[str, ...]:
    """Return the columns of a source's documents that the filter reads."""
    columns = set[str]()
    if source.keep:
        from zyda_flows.tasks.quality.keep import columns_of

        columns.update(columns_of(source.keep))
    if columns & set(names_of_text(source.text, classified=source.classify is not None)):
        columns |= {"text"}
    return tuple(sorted(columns))


def removal_verdicts(folder: Folder, source: Source, documents: pa.Table) -> pa.Table:
    """Return the documents to remove, as VERDICTS. documents: with the columns of the source and of its model."""
    is_bad_quality = np.zeros(len(documents), np.bool_)
    if source.classify and source.classify.keep:
        labels = pa.array(source.classify.keep)
        is_bad_quality = ~pc.is_in(documents.column("quality_pred"), labels).to_numpy()
    is_kept = (
        source_keep_mask(folder, source, documents) if source.keep else np.ones(len(documents), np.bool_)
    )
    is_removed = is_bad_quality | ~is_kept
    reasons = np.where(is_bad_quality[is_removed], QUALITY, KEEP)
    ids = documents.column("doc_id").filter(pa.array(is_removed))
    return pa.table([ids, pa.array(reasons, pa.string())], schema=VERDICTS)


def source_keep_mask(folder: Folder, source: Source, documents: pa.Table) -> NDArray[np.bool_]:
    """Return the rows for which `keep` is true: bool, (n,). Raises BadInput with the row on which it fails."""
    from zyda_flows.tasks.quality.keep import keep_mask
    from zyda_flows.tasks.quality.keep_parser import BadKeep

    for name in names_of_text(source.text, classified=source.classify is not None)[1:]:
        if "text" in documents.column_names:
            documents = documents.append_column(name, documents.column("text"))
    try:
        return keep_mask(str(source.keep), documents)
    except BadKeep as error:
        message = f"keep: {shorten(str(source.keep))}: {error}"
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
    """Remove the documents of a source that its labels or its `keep` reject."""
    source, facts = recipe.source(trail.source), read_ingest_facts(recipe.folder, trail)
    check_keep(source, facts.columns, facts.model)
    verdicts = partial(removal_verdicts, recipe.folder, source)
    document_filter = DocumentFilter(
        "filter", VERSION, verdicts, REASONS, params=filter_params(source), columns=columns_to_read(source)
    )
    return run_filter(recipe, trail, document_filter)
