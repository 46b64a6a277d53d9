"""The stage `rules`: removes documents by the filters of a recipe, from the statistics of ingest; it reads no text.

Rows out: for each removed document, `doc_id`, `reason` (the rule, `gopher-quality.words`), and its evidence: the
`value` of the statistic, the `threshold` that it is below or above, `also` (other rules that the document breaks,
of those with statistics) and `note` (the text of a user's function, or the licence). If the recipe has a step
`measure`, a row for every document, with the published statistics.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.bounds import Bound, broken_rules, first_broken, limits
from zyda_flows.tasks.documents.planning import STATISTICS, bounds_of, published_columns, steps_with_classes
from zyda_flows.tasks.documents.steps.step import NeededColumn, PublishedColumn
from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.tables import read_table

VERSION = 1
EVIDENCE = pa.schema(
    [
        ("value", pa.float64()), ("threshold", pa.float64()), ("also", pa.list_(pa.string())),
        ("note", pa.string()),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class RulesOfShard(VerdictJob):
    """Which documents of a shard break rules. published: the columns to publish with the documents."""

    stage, version = "rules", VERSION

    bounds: tuple[Bound, ...]
    published: tuple[PublishedColumn, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        added = [pa.field(column.name, column.type) for column in self.published]
        return pa.schema([*VERDICTS, *EVIDENCE, *added])

    @property
    def added_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.published)

    @property
    def reasons(self) -> Collection[str]:
        return {bound.rule for bound in self.bounds}

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        table = read_table(self.folder, self.history.shard, ["doc_id", STATISTICS])
        measured = table.column(STATISTICS).combine_chunks()
        columns = {field.name: measured.field(i) for i, field in enumerate(measured.type)}
        verdict_table = verdicts(table.column("doc_id"), columns, self.bounds)
        for column in self.published:
            verdict_table = verdict_table.append_column(column.name, columns[column.statistic])
        if len(remaining) < len(verdict_table):  # an earlier stage has removed documents
            verdict_table = verdict_table.filter(
                pc.is_in(verdict_table.column("doc_id"), remaining.column("doc_id").combine_chunks())
            )
        return (
            verdict_table
            if self.published
            else verdict_table.filter(verdict_table.column("reason").is_valid())
        )


def verdicts(doc_ids: pa.ChunkedArray, columns: dict[str, pa.Array], bounds: Sequence[Bound]) -> pa.Table:
    """Return a row for each document, with the evidence of removed documents."""
    is_broken = broken_rules(columns, bounds).reshape(len(bounds), len(doc_ids))
    first = first_broken(is_broken)
    values, thresholds = np.zeros((2, len(first)))
    notes = np.full(len(first), None, object)
    for i, bound in enumerate(bounds):
        places = np.flatnonzero(first == i)
        if not len(places):
            continue
        rule_values = columns[bound.column].take(pa.array(places))
        if bound.is_noted:
            notes[places] = rule_values.to_pylist()
        else:
            values[places] = rule_values.to_numpy(zero_copy_only=False)
            low, high = (np.broadcast_to(ends, len(first))[places] for ends in limits(columns, bound))
            thresholds[places] = np.where(values[places] < low, low, high)
    is_removed, is_noted = first >= 0, np.array([bound.is_noted for bound in bounds] or [False])
    names = np.array([bound.rule for bound in bounds] or [""], object)
    has_no_value = ~is_removed | is_noted[first]
    columns_of_verdicts = [
        pa.array(names[first], pa.string(), mask=~is_removed),
        *(pa.array(numbers, mask=has_no_value) for numbers in (values, thresholds)),
        other_reasons(is_broken, names, is_removed),
        pa.array(notes, pa.string()),
    ]
    return pa.table([doc_ids, *columns_of_verdicts], schema=pa.schema([*VERDICTS, *EVIDENCE]))


def other_reasons(
    is_broken: NDArray[np.bool_], names: NDArray[np.object_], is_removed: NDArray[np.bool_]
) -> pa.ListArray:
    """Return the rules that each removed document breaks besides the first, (n,); null for kept documents."""
    documents, rules_broken = np.nonzero(is_broken.T)
    is_other = np.zeros(len(documents), np.bool_)
    is_other[1:] = documents[1:] == documents[:-1]
    ends = np.cumsum(np.bincount(documents[is_other], minlength=len(is_removed)))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    names_of_rules = pa.array(names[rules_broken[is_other]], pa.string())
    return pa.ListArray.from_arrays(offsets, names_of_rules, mask=pa.array(~is_removed))


def reasons_of(recipe: Recipe) -> dict[str, str]:
    """Return the rules of all sources of a recipe, each with a sentence about a removed document."""
    sources = [recipe.steps_of(source.name) for source in recipe.sources]
    pairs = [pair for steps in sources for pair in steps_with_classes(steps)]
    return {rule.bound.rule: rule.sentence for kind, step in pairs for rule in kind.rules(step)}


def has_rules(recipe: Recipe, source: str) -> bool:
    """Return whether a step of a source has rules or publishes columns."""
    pairs = steps_with_classes(recipe.steps_of(source))
    return any([*kind.rules(step), *kind.published(step)] for kind, step in pairs)


def key(recipe: Recipe, trail: Trail) -> str:
    bounds = [bound.model_dump() for bound in bounds_of(recipe, trail.source)]
    columns = [[column.name, column.statistic] for column in published_columns(recipe.steps_of(trail.source))]
    return stage_key("rules", VERSION, [bounds, columns], *trail.identities)


@stage("rules", key, enabled=has_rules, reasons=reasons_of, evidence=EVIDENCE)
def rules(recipe: Recipe, trail: Trail) -> Manifest:
    """Remove documents of a source by the rules of the recipe."""
    bounds = bounds_of(recipe, trail.source)
    columns = tuple(published_columns(recipe.steps_of(trail.source)))
    jobs = [
        RulesOfShard(recipe.folder, trail.source, history, bounds, columns)
        for history in load_histories(recipe.folder, trail)
    ]
    manifest = run_jobs("rules", trail, jobs)
    if not manifest.out.documents:
        for kind, step in steps_with_classes(recipe.steps_of(trail.source)):
            if needed := kind.needed_column(step, manifest.removed_by.keys()):
                check_has_values(recipe, trail, needed)
    return manifest


def check_has_values(recipe: Recipe, trail: Trail, needed: NeededColumn) -> None:
    """Raise BadInput if no document of a source, removed documents included, has a value in a column."""
    count = 0
    for history in load_histories(recipe.folder, trail):
        statistics = (
            read_table(recipe.folder, history.shard, [STATISTICS]).column(STATISTICS).combine_chunks()
        )
        if statistics.field(needed.column).null_count < len(statistics):
            return
        count += len(statistics)
    raise bad_input(trail.source, needed.fault.format(count=count))
