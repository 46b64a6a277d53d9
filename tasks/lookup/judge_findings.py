"""The report's findings about judges: measures of trained judges, texts near thresholds, and pairs of judges."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.documents import published_row, removal_row
from zyda_flows.tasks.lookup.document_reader import DocumentPlace, DocumentReader
from zyda_flows.tasks.lookup.document_texts import text_ingested
from zyda_flows.tasks.lookup.judge_columns import JudgeThreshold
from zyda_flows.tasks.lookup.judge_counting import (
    ABOVE,
    BELOW,
    DECISIONS,
    KEPT,
    NOT_JUDGED,
    OUTCOMES,
    REMOVED,
    SAMPLED,
)
from zyda_flows.tasks.lookup.judge_stats import JudgeStats, judge_stats
from zyda_flows.tasks.quality.training.measured import Measures, measures_of
from zyda_flows.tasks.quality.training.measures import spearman

BEGINNING = 400  # characters of a text in the report
NO_TEXT = "(the text is neither published nor in the work folder)"


@dataclass(frozen=True)
class NearDocument:
    """A document near a threshold. decision: kept, or the stage that removed it."""

    place: DocumentPlace
    score: float
    decision: str
    beginning: str


@dataclass(frozen=True)
class ShownThreshold:
    """A threshold, with documents for which `keep` is false, and is true; the nearest first."""

    threshold: JudgeThreshold
    below: list[NearDocument]
    above: list[NearDocument]


@dataclass(frozen=True)
class PairOfJudges:
    """Two judges on documents that both judged.

    documents: their number. sampled: of them, for the correlation, which is None if a judge has no order.
    decisions: (kept or removed by the first, by the second), if both have a `keep`. alone: the numbers of
    documents that only the first, and only the second judged.
    """

    first: str
    second: str
    documents: int
    sampled: int
    correlation: float | None
    decisions: tuple[tuple[int, int], tuple[int, int]] | None
    alone: tuple[int, int]


@dataclass(frozen=True)
class JudgeFindings:
    """The judges of a corpus. measures: of trained judges, by the name of the judge."""

    measures: list[tuple[str, Measures]]
    thresholds: list[ShownThreshold]
    pairs: list[PairOfJudges]


def judge_findings(reader: DocumentReader) -> JudgeFindings | None:
    """Return the findings about judges; None if no judge judged a document."""
    stats = judge_stats(reader.corpus)
    if stats is None:
        return None
    measures, thresholds = [*measures_of_judges(reader)], [*near_thresholds(reader, stats)]
    return JudgeFindings(measures, thresholds, [*pairs_in(stats)])


def measures_of_judges(reader: DocumentReader) -> Iterator[tuple[str, Measures]]:
    """Yield the measures of each trained judge whose model still has them beside it."""
    seen, known = set[tuple[str, str]](), {source.name for source in reader.recipe.sources}
    for origin in reader.corpus.manifest.made_of:
        judges = reader.recipe.judges_of(origin.source) if origin.source in known else ()
        models = {judge.name: judge.model for judge in judges}
        for model in origin.models:
            named = (model["judge"], model["digest"])
            if named[0] not in models or named in seen:
                continue
            seen.add(named)
            if measures := measures_of(models[named[0]], named[1]):
                yield named[0], measures


def near_thresholds(reader: DocumentReader, stats: JudgeStats) -> Iterator[ShownThreshold]:
    """Yield the documents near each threshold, with the beginnings of their texts."""
    for number, threshold in enumerate(stats.thresholds):
        below, above = (
            [near_document(reader, row["doc_id"], row["value"]) for row in rows_of(stats, kind, number)]
            for kind in (BELOW, ABOVE)
        )
        if below or above:
            yield ShownThreshold(threshold, below, above)


def rows_of(stats: JudgeStats, kind: int, first: int) -> list[dict[str, Any]]:
    """Return the rows of a list, in their order."""
    rows: list[dict[str, Any]] = stats.table.filter(
        (pc.field("kind") == kind) & (pc.field("first") == first)
    ).to_pylist()
    return rows


def near_document(reader: DocumentReader, doc_id: int, score: float) -> NearDocument:
    """Return a document with the beginning of its text."""
    text, decision = text_and_decision(reader, doc_id)
    return NearDocument(reader.place(doc_id), score, decision, text[:BEGINNING] or NO_TEXT)


def text_and_decision(reader: DocumentReader, doc_id: int) -> tuple[str, str]:
    """Return the published text of a document, or its text in the work folder, and the decision about it.

    The text is not read from the source, which may have personal data that the recipe's steps replace.
    """
    row = published_row(reader.corpus, doc_id)
    if len(row):
        return str(row.column("text")[0]), "kept"
    removal = removal_row(reader.corpus, doc_id)
    return text_ingested(reader, doc_id), f"removed by {removal.column('stage')[0]}"


def pairs_in(stats: JudgeStats) -> Iterator[PairOfJudges]:
    """Yield the pairs of judges that judged the same documents, in the order of the judges."""
    judged = [each for columns in stats.columns.values() for each in columns]
    with_keep = {each.judge for each in judged if each.stage}
    counts = stats.table.filter(pc.field("kind") == DECISIONS)
    for first, one in enumerate(stats.judges):
        for second, other in enumerate(stats.judges):
            is_pair = (pc.field("first") == first) & (pc.field("second") == second)
            table = decision_table(counts.filter(is_pair))
            documents = int(table[:NOT_JUDGED, :NOT_JUDGED].sum())
            if not documents:
                continue
            sample = stats.table.filter(is_pair & (pc.field("kind") == SAMPLED))
            scores = [sample.column(name).to_numpy() for name in ("value", "other")]
            kept, removed = ((int(row[KEPT]), int(row[REMOVED])) for row in table[:NOT_JUDGED])
            yield PairOfJudges(
                one,
                other,
                documents,
                len(sample),
                spearman(*scores) if len(sample) > 1 else None,
                (kept, removed) if {one, other} <= with_keep else None,
                (int(table[:NOT_JUDGED, NOT_JUDGED].sum()), int(table[NOT_JUDGED, :NOT_JUDGED].sum())),
            )


def decision_table(counts: pa.Table) -> np.ndarray:
    """Return the documents by the decisions of two judges: int64, (OUTCOMES, OUTCOMES)."""
    table = np.zeros(OUTCOMES * OUTCOMES, np.int64)
    table[counts.column("place").to_numpy().astype(np.int64)] = counts.column("count").to_numpy()
    return table.reshape(OUTCOMES, OUTCOMES)
