"""Filter: remove the documents that a judge's `keep`, a source's quality labels or its `keep` reject.

Rows out: `doc_id` (uint64) and `reason` (`quality` or `keep`) of each removed document, sorted by doc_id. The
reason of a document that both the labels and `keep` reject is `quality`.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.quality.conditions import Condition, check_conditions, judge_keep, source_keep
from zyda_flows.tasks.quality.document_filter import DocumentFilter, run_filter
from zyda_flows.tasks.quality.ingested import read_columns, read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder

VERSION = 1
QUALITY, KEEP = "quality", "keep"
REASONS = {
    QUALITY: "its quality label is not one that the recipe keeps",
    KEEP: "the recipe's `keep` is not true for it",
}


def filter_params(source: Source) -> list[object]:
    """Return the settings on which a source's filter depends."""
    return [source.keep, source.text, source.classify.keep if source.classify else None]


def removal_verdicts(
    folder: Folder, condition: Condition | None, labels: tuple[str, ...], documents: pa.Table
) -> pa.Table:
    """Return the documents to remove, as VERDICTS.

    condition: for the documents to keep. labels: the quality labels to keep, () for all. documents: with the
    columns of the source and of its judges.
    """
    is_bad_quality = np.zeros(len(documents), np.bool_)
    if labels:
        is_bad_quality = ~pc.is_in(documents.column("quality_pred"), pa.array(labels)).to_numpy()
    is_kept = condition.mask(folder, documents) if condition else np.ones(len(documents), np.bool_)
    is_removed = is_bad_quality | ~is_kept
    reasons = np.where(is_bad_quality[is_removed], QUALITY, KEEP)
    ids = documents.column("doc_id").filter(pa.array(is_removed))
    return pa.table([ids, pa.array(reasons, pa.string())], schema=VERDICTS)


def key(recipe: Recipe, trail: Trail) -> str:
    return stage_key("filter", VERSION, filter_params(recipe.source(trail.source)), *trail.identities)


def is_filtered(recipe: Recipe, name: str) -> bool:
    source = recipe.source(name)
    return bool(source.keep or (source.classify and source.classify.keep))


@stage("filter", key, enabled=is_filtered, reasons=REASONS)
def filter_documents(recipe: Recipe, trail: Trail) -> Manifest:
    """Remove the documents of a source that its labels or its `keep` reject."""
    source, facts = recipe.source(trail.source), read_ingest_facts(recipe.folder, trail)
    columns = read_columns(recipe.folder, trail)
    check_conditions(source, recipe.judges_of(source.name), columns, facts.models)
    condition, labels = source_keep(source), source.classify.keep if source.classify else ()
    document_filter = DocumentFilter(
        "filter",
        VERSION,
        partial(removal_verdicts, recipe.folder, condition, labels),
        REASONS,
        params=filter_params(source),
        columns=condition.columns if condition else (),
    )
    return run_filter(recipe, trail, document_filter)


def key_of_judge(judged: Judged, trail: Trail) -> str:
    params = [judged.settings_of(trail.source).keep, judged.recipe.source(trail.source).text]
    return stage_key(judged.name_of("keep"), VERSION, params, *trail.identities)


def reasons_of_judge(judged: Judged) -> dict[str, str]:
    return {KEEP: f"the `keep` of judge {judged.judge} is not true for it"}


def is_filtered_by_judge(judged: Judged, source: str) -> bool:
    judge = judged.of(source)
    return judge is not None and judge.keep is not None


@stage("keep", key_of_judge, enabled=is_filtered_by_judge, reasons=reasons_of_judge)
def keep_judged(judged: Judged, trail: Trail) -> Manifest:
    """Remove the documents of a source that the `keep` of a judge rejects."""
    recipe = judged.recipe
    condition = judge_keep(recipe.source(trail.source), judged.settings_of(trail.source))
    assert condition is not None
    document_filter = DocumentFilter(
        judged.name_of("keep"),
        VERSION,
        partial(removal_verdicts, recipe.folder, condition, ()),
        reasons_of_judge(judged),
        params=condition.params,
        columns=condition.columns,
    )
    return run_filter(recipe, trail, document_filter)
