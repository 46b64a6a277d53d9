"""Contamination: in how many surroundings the corpus has each phrase of an item, and which sets are looked for.

A phrase that stands in many is no evidence: a clause of a licence, or a public text that a question quotes. Copies
and near-copies of a page have the same words around a phrase, and count once. All ingested documents are counted,
from what ingest found in them; no text is read. Published, a row for each set and the sources with one step: SETS.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.evaluation_sets import PlannedSet
from zyda_flows.tasks.documents.item_search import TWO, ItemSearch, search_for
from zyda_flows.tasks.documents.planning import STATISTICS, DocumentPlan
from zyda_flows.tasks.documents.steps.decontaminate import FOUND, Decontamination
from zyda_flows.tasks.recipe.evaluation import Decontaminate
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.steps.decontaminate import DecontaminateStep
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, artifact_path, stage_key
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 1
SURROUNDINGS = pa.schema([("phrase", pa.uint64()), ("around", pa.uint64())])
COUNTS = pa.schema([("phrase", pa.uint64()), ("surroundings", pa.int64())])
SETS = pa.schema(
    [("set", pa.string()), ("sources", pa.list_(pa.string())), ("files", pa.list_(pa.string())),
     ("sha256", pa.list_(pa.string())), ("items", pa.int64()), ("too_short", pa.int64()),
     ("unanswered", pa.int64()), ("too_frequent", pa.int64()), ("phrases", pa.int64()), ("frequent", pa.int64())]
)  # fmt: skip


class Parameters(Protocol):
    """How a source is ingested."""

    @property
    def documents(self) -> DocumentPlan: ...


class Planned(Protocol):
    """A source as `prepare` found it."""

    @property
    def parameters(self) -> Parameters: ...


class PhraseCounts(Facts):
    """counts: the table of how many surroundings each phrase has, COUNTS. documents: how many there are."""

    counts: Artifact
    documents: int


def asked_of(recipe: Recipe, source: str) -> tuple[int, Decontaminate] | None:
    """Return the number of the step of a source that decontaminates, and what it says; None where there is none."""
    steps = enumerate(recipe.steps_of(source), 1)
    asked = ((number, step) for number, step in steps if isinstance(step, DecontaminateStep))
    return next(((number, step.decontaminate) for number, step in asked), None)


def is_asked(recipe: Recipe, source: str) -> bool:
    """Say whether a source is decontaminated; for "", whether any is."""
    return any(asked_of(recipe, one.name) for one in recipe.sources if source in {one.name, ""})


@dataclass(frozen=True)
class PhrasesOfShard(ArtifactJob):
    """The surroundings of each phrase of an item in a shard: SURROUNDINGS. column: of its statistics."""

    stage, version = "contamination", VERSION

    shard: Artifact
    column: str

    @property
    def name(self) -> str:
        return self.shard.name

    def make(self) -> Artifact:
        found = pc.list_flatten(measured(self.folder, self.shard, self.column))
        table = pa.table([found.field(name) for name in SURROUNDINGS.names], schema=SURROUNDINGS)
        return write_table(self.folder, self.path, self.name, distinct(table))


def distinct(table: pa.Table) -> pa.Table:
    """Return SURROUNDINGS without repetitions, sorted."""
    found = table.group_by(SURROUNDINGS.names).aggregate([])
    return found.select(SURROUNDINGS.names).sort_by([(name, "ascending") for name in SURROUNDINGS.names])


def measured(folder: Folder, shard: Artifact, column: str) -> pa.Array:
    """Read what ingest measured of a shard's documents under one name."""
    statistics = read_table(folder, shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    return statistics.field(statistics.type.get_field_index(column))


def contamination_key(recipe: Recipe, trails: list[Trail], sources: list[Planned]) -> str:
    thresholds = [(names, asked.action, limits(asked)) for asked, names in judged_alike(recipe)]
    sets = [planned.model_dump() for planned in planned_sets(sources)]
    return stage_key("contamination", VERSION, [thresholds, sets], *(i for t in trails for i in t.identities))


def all_asked(recipe: Recipe) -> list[tuple[int, Decontaminate]]:
    return [asked for source in recipe.sources if (asked := asked_of(recipe, source.name))]


def judged_alike(recipe: Recipe) -> list[tuple[Decontaminate, list[str]]]:
    """Return every distinct step `decontaminate` with the names of the sources that have it."""
    found = list[tuple[Decontaminate, list[str]]]()
    for source in recipe.sources:
        if asked := asked_of(recipe, source.name):
            names = next((names for said, names in found if said == asked[1]), None)
            if names is None:
                found.append((asked[1], [source.name]))
            else:
                names.append(source.name)
    return found


def limits(asked: Decontaminate) -> tuple[int, float]:
    return asked.frequent_documents, asked.frequent_share


def planned_sets(sources: Sequence[Planned]) -> list[PlannedSet]:
    """Return the sets that any source is searched for, each once."""
    steps = [step for plan in sources for step in plan.parameters.documents.steps]
    sets = [one for step in steps if isinstance(step, Decontamination) for one in step.evaluation]
    return [*{digest_of(one.model_dump()): one for one in sets}.values()]


@stage(
    "contamination",
    contamination_key,
    scope="corpus",
    inputs=("trails", "sources"),
    enabled=is_asked,
    published_as="contamination",
)
def contamination(recipe: Recipe, trails: list[Trail], sources: list[Planned]) -> Manifest:
    """Count the phrases of evaluation sets in the corpus, and list the sets. trails: of each source."""
    folder, key = recipe.folder, contamination_key(recipe, trails, sources)
    searched = [(trail, found) for trail in trails if (found := asked_of(recipe, trail.source))]
    jobs = [
        PhrasesOfShard(folder, trail.source, history.shard, f"{number}.{FOUND}")
        for trail, (number, _) in searched
        for history in load_histories(folder, trail)
    ]
    made = fan_out(ArtifactJob.__call__, jobs, stage="contamination", source=None)
    tables = pa.concat_tables([read_table(folder, one) for one in made])
    counted = distinct(tables).group_by("phrase").aggregate([("around", "count")]).sort_by("phrase")
    counts = counted.select(["phrase", "around_count"]).rename_columns(COUNTS.names)
    documents = sum(trail.receipts[0].out.documents for trail, _ in searched)
    alike = judged_alike(recipe)
    looking = search_for(tuple(planned_sets(sources)), alike[0][0].answer_within)
    accounts = [
        sets_table(
            [one for one in planned_sets(sources) if one.name in asked.sets], names, looking,
            frequent_phrases(counts, documents, asked) if asked.action != "cut" else (),
        )
        for asked, names in alike
    ]  # fmt: skip
    path, path_of_counts = (artifact_path("contamination", None, name, key) for name in ("sets", "phrases"))
    facts = PhraseCounts(counts=write_table(folder, path_of_counts, "phrases", counts), documents=documents)
    return Manifest(
        stage="contamination",
        artifacts=(write_table(folder, path, "sets", pa.concat_tables(accounts)),),
        intermediate=tuple(one.path for one in made),
        facts=facts.written(),
    )


def frequent_phrases(counts: pa.Table, documents: int, asked: Decontaminate) -> frozenset[int]:
    """Return the phrases that are no evidence, for they stand in too many surroundings."""
    most = max(asked.frequent_documents, int(asked.frequent_share * documents))
    return frozenset(counts.filter(pc.field("surroundings") > most).column("phrase").to_pylist())


def sets_table(
    sets: Sequence[PlannedSet], sources: Sequence[str], looking: ItemSearch, frequent: Collection[int]
) -> pa.Table:
    """List sets, and how their items are looked for in some sources: SETS."""
    items, often = looking.items, np.array(sorted(frequent), np.uint64)
    of_phrases = np.repeat(items.sets, np.diff(items.ends))
    rare = np.concatenate([[0], np.cumsum(~np.isin(items.phrases, often))])[items.ends]
    is_unjudged = np.diff(rare) < np.minimum(TWO, np.diff(items.ends))
    rows = list[dict[str, Any]]()
    for one in sets:
        number, tally = items.names.index(one.name), looking.tallies[one.name]
        phrases = np.unique(items.phrases[of_phrases == number])
        rows.append(
            {
                "set": one.name, "sources": sources, "files": [file.listed.url for file in one.files],
                "sha256": [file.sha256 for file in one.files], "items": tally.items, "too_short": tally.short,
                "unanswered": tally.unanswered, "too_frequent": int(is_unjudged[items.sets == number].sum()),
                "phrases": len(phrases), "frequent": int(np.isin(phrases, often).sum()),
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, SETS)
