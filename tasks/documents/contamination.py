"""Contamination: how many documents of the corpus have each phrase of an item, and which sets are looked for.

What many documents have is no evidence: a clause of a licence, or a public text that a question quotes. Counted are
all that were ingested, from what was found in them then; no text is read. Published, a row for each set: SETS.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.documents.evaluation_sets import PlannedSet
from tasks.documents.item_search import ItemSearch, search_for
from tasks.documents.planning import FOUND, STATISTICS, DocumentPlan
from tasks.recipe.evaluation import Decontaminate
from tasks.recipe.fields import Recipe
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import ArtifactJob
from tasks.stage.stage import stage
from tasks.stage.verdicts import Trail, load_histories
from tasks.storage.artifacts import Artifact, Manifest, artifact_path, stage_key
from tasks.storage.facts import Facts
from tasks.storage.folder import Folder
from tasks.storage.records import digest_of
from tasks.storage.tables import read_table, write_table

VERSION = 1
COUNTS = pa.schema([("phrase", pa.uint64()), ("documents", pa.int64())])
SETS = pa.schema(
    [("set", pa.string()), ("files", pa.list_(pa.string())), ("sha256", pa.list_(pa.string())),
     ("items", pa.int64()), ("too_short", pa.int64()), ("unanswered", pa.int64()), ("phrases", pa.int64()),
     ("frequent", pa.int64())]
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
    """counts: the table of how many documents have each phrase, COUNTS. documents: how many there are."""

    counts: Artifact
    documents: int


def asked_of(recipe: Recipe, source: str) -> tuple[int, Decontaminate] | None:
    """Return the number of the step of a source that decontaminates, and what it says; None where there is none."""
    steps = enumerate(recipe.steps_of(source), 1)
    return next(((number, step.decontaminate) for number, step in steps if step.decontaminate), None)


def is_asked(recipe: Recipe, source: str) -> bool:
    """Say whether a source is decontaminated; for "", whether any is."""
    return any(asked_of(recipe, one.name) for one in recipe.sources if source in {one.name, ""})


@dataclass(frozen=True)
class PhrasesOfShard(ArtifactJob):
    """How many documents of a shard have each phrase of an item: COUNTS. column: of its statistics."""

    stage, version = "contamination", VERSION

    shard: Artifact
    column: str

    @property
    def name(self) -> str:
        return self.shard.name

    @property
    def params(self) -> Any:
        return self.column

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.shard.digest,)

    def make(self) -> Artifact:
        found = measured(self.folder, self.shard, self.column)
        counted = pc.value_counts(pc.list_flatten(found))
        table = pa.table([counted.field("values"), counted.field("counts")], schema=COUNTS)
        return write_table(self.folder, self.path, self.name, table.sort_by("phrase"))


def measured(folder: Folder, shard: Artifact, column: str) -> pa.Array:
    """Read what ingest measured of a shard's documents under one name."""
    statistics = read_table(folder, shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    return statistics.field(statistics.type.get_field_index(column))


def contamination_key(recipe: Recipe, trails: list[Trail], sources: list[Planned]) -> str:
    thresholds = [limits(asked) for _, asked in all_asked(recipe)]
    sets = [planned.model_dump() for planned in planned_sets(sources)]
    return stage_key("contamination", VERSION, [thresholds, sets], *(i for t in trails for i in t.identities))


def all_asked(recipe: Recipe) -> list[tuple[int, Decontaminate]]:
    return [asked for source in recipe.sources if (asked := asked_of(recipe, source.name))]


def limits(asked: Decontaminate) -> tuple[int, float]:
    return asked.frequent_documents, asked.frequent_share


def planned_sets(sources: Sequence[Planned]) -> list[PlannedSet]:
    """Return the sets that any source is searched for, each once."""
    steps = (step for plan in sources for step in plan.parameters.documents.steps)
    return [*{digest_of(one.model_dump()): one for step in steps for one in step.evaluation}.values()]


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
    asked = searched[0][1][1]
    jobs = [
        PhrasesOfShard(folder, trail.source, history.shard, f"{number}.{FOUND}")
        for trail, (number, _) in searched
        for history in load_histories(folder, trail)
    ]
    made = fan_out(ArtifactJob.__call__, jobs, stage="contamination", source=None)
    tables = pa.concat_tables([read_table(folder, one) for one in made])
    added = tables.group_by("phrase").aggregate([("documents", "sum")]).sort_by("phrase")
    counts = added.rename_columns(["phrase", "documents"]).select(COUNTS.names)
    documents = sum(trail.receipts[0].out.documents for trail, _ in searched)
    frequent = frequent_phrases(counts, documents, asked)
    looking = search_for(tuple(planned_sets(sources)), asked.answer_within)
    path, path_of_counts = (artifact_path("contamination", None, name, key) for name in ("sets", "phrases"))
    facts = PhraseCounts(counts=write_table(folder, path_of_counts, "phrases", counts), documents=documents)
    return Manifest(
        stage="contamination",
        artifacts=(write_table(folder, path, "sets", sets_table(planned_sets(sources), looking, frequent)),),
        intermediate=tuple(one.path for one in made),
        facts=facts.written(),
    )


def frequent_phrases(counts: pa.Table, documents: int, asked: Decontaminate) -> frozenset[int]:
    """Return the phrases that are no evidence, for too many documents have them."""
    most = max(asked.frequent_documents, int(asked.frequent_share * documents))
    return frozenset(counts.filter(pc.field("documents") > most).column("phrase").to_pylist())


def sets_table(sets: Sequence[PlannedSet], looking: ItemSearch, frequent: Collection[int]) -> pa.Table:
    """List sets, and how their items are looked for: SETS."""
    items = looking.items
    of_phrases = np.repeat(items.sets, np.diff(items.ends))
    phrases = [np.unique(items.phrases[of_phrases == number]) for number in range(len(items.names))]
    often = np.array(sorted(frequent), np.uint64)
    rows = [
        {
            "set": one.name, "files": [file.listed.url for file in one.files],
            "sha256": [file.sha256 for file in one.files],
            "items": looking.tallies[one.name].items, "too_short": looking.tallies[one.name].short,
            "unanswered": looking.tallies[one.name].unanswered,
            "phrases": len(its), "frequent": int(np.isin(its, often).sum()),
        }
        for one, its in zip(sets, phrases, strict=True)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SETS)
