"""The stage `contamination`: counts the contexts of each phrase of evaluation sets, and lists the sets.

A phrase with many contexts does not count as evidence: for example a clause of a licence, or a public text that a
question quotes. The context of a phrase is the words around it, so that copies and near-copies of a page count
once. All ingested documents are counted, from the statistics of ingest; the stage reads no text. Published: SETS, a
row for each set and group of sources with the same step.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.evaluation_sets import PlannedSet
from zyda_flows.tasks.documents.item_search import LEAST_PHRASES, ItemSearch, search_for
from zyda_flows.tasks.documents.phrase_contexts import PhrasesOfShard, count_contexts
from zyda_flows.tasks.documents.planning import DocumentPlan
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
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import write_table

VERSION = 1
SETS = pa.schema(
    [("set", pa.string()), ("sources", pa.list_(pa.string())), ("files", pa.list_(pa.string())),
     ("sha256", pa.list_(pa.string())), ("items", pa.int64()), ("too_short", pa.int64()),
     ("unanswered", pa.int64()), ("too_frequent", pa.int64()), ("phrases", pa.int64()), ("frequent", pa.int64())]
)  # fmt: skip


class PlannedParameters(Protocol):
    """The parameters of a source's ingest."""

    @property
    def documents(self) -> DocumentPlan: ...


class PlannedSource(Protocol):
    """A source as `prepare` has planned it."""

    @property
    def parameters(self) -> PlannedParameters: ...


class PhraseCounts(Facts):
    """counts: the table of the number of contexts of each phrase, COUNTS. documents: the number of documents.

    A phrase may have more contexts than its number, if it is too frequent for every step.
    """

    counts: Artifact
    documents: int


def decontaminate_step(recipe: Recipe, source: str) -> tuple[int, Decontaminate] | None:
    """Return the number and the settings of a source's step `decontaminate`; None if it has none."""
    for number, step in enumerate(recipe.steps_of(source), 1):
        if isinstance(step, DecontaminateStep):
            return number, step.decontaminate
    return None


def is_decontaminated(recipe: Recipe, source: str) -> bool:
    """Return whether a source has a step `decontaminate`; for "", whether any source has."""
    names = [source] if source else [each.name for each in recipe.sources]
    return any(decontaminate_step(recipe, name) for name in names)


def contamination_key(recipe: Recipe, trails: list[Trail], sources: list[PlannedSource]) -> str:
    thresholds = [(names, step.action, frequency_limits(step)) for step, names in distinct_steps(recipe)]
    sets = [planned.model_dump() for planned in planned_sets(sources)]
    return stage_key("contamination", VERSION, [thresholds, sets], *(i for t in trails for i in t.identities))


def decontaminate_steps(recipe: Recipe) -> list[tuple[int, Decontaminate]]:
    return [step for source in recipe.sources if (step := decontaminate_step(recipe, source.name))]


def distinct_steps(recipe: Recipe) -> list[tuple[Decontaminate, list[str]]]:
    """Return every distinct step `decontaminate` with the names of the sources that have it."""
    steps = list[tuple[Decontaminate, list[str]]]()
    for source in recipe.sources:
        if step := decontaminate_step(recipe, source.name):
            names = next((names for settings, names in steps if settings == step[1]), None)
            if names is None:
                steps.append((step[1], [source.name]))
            else:
                names.append(source.name)
    return steps


def frequency_limits(settings: Decontaminate) -> tuple[int, float]:
    return settings.frequent_documents, settings.frequent_share


def planned_sets(sources: Sequence[PlannedSource]) -> list[PlannedSet]:
    """Return the sets that are searched for in any source, each once."""
    steps = [step for plan in sources for step in plan.parameters.documents.steps]
    sets = [planned for step in steps if isinstance(step, Decontamination) for planned in step.evaluation]
    return [*{digest_of(planned.model_dump()): planned for planned in sets}.values()]


@stage(
    "contamination",
    contamination_key,
    scope="corpus",
    inputs=("trails", "sources"),
    enabled=is_decontaminated,
    published_as="contamination",
)
def contamination(recipe: Recipe, trails: list[Trail], sources: list[PlannedSource]) -> Manifest:
    """Count the contexts of phrases of evaluation sets in the corpus, and list the sets. trails: of each source."""
    folder, key = recipe.folder, contamination_key(recipe, trails, sources)
    searched = [(trail, step) for trail in trails if (step := decontaminate_step(recipe, trail.source))]
    jobs = [
        PhrasesOfShard(folder, trail.source, history.shard, f"{number}.{FOUND}")
        for trail, (number, _) in searched
        for history in load_histories(folder, trail)
    ]
    shards = fan_out(ArtifactJob.__call__, jobs, stage="contamination", source=None)
    documents = sum(trail.receipts[0].out.documents for trail, _ in searched)
    sets, steps = planned_sets(sources), distinct_steps(recipe)
    most = max(most_contexts(settings, documents) for settings, _ in steps)
    counts, paths = count_contexts(folder, shards, most + 1)
    search = search_for(tuple(sets), steps[0][0].answer_within)
    accounts = [
        sets_table(
            [planned for planned in sets if planned.name in settings.sets],
            names,
            search,
            frequent_phrases(counts, documents, settings) if settings.action != "cut" else (),
        )
        for settings, names in steps
    ]
    path, path_of_counts = (artifact_path("contamination", None, name, key) for name in ("sets", "phrases"))
    facts = PhraseCounts(counts=write_table(folder, path_of_counts, "phrases", counts), documents=documents)
    return Manifest(
        stage="contamination",
        artifacts=(write_table(folder, path, "sets", pa.concat_tables(accounts)),),
        intermediate=tuple(paths),
        facts=facts.written(),
    )


def most_contexts(settings: Decontaminate, documents: int) -> int:
    """Return the number of contexts up to which a phrase is evidence."""
    return max(settings.frequent_documents, int(settings.frequent_share * documents))


def frequent_phrases(counts: pa.Table, documents: int, settings: Decontaminate) -> frozenset[int]:
    """Return the phrases that have too many contexts to be evidence."""
    is_frequent = pc.field("surroundings") > most_contexts(settings, documents)
    return frozenset(counts.filter(is_frequent).column("phrase").to_pylist())


def sets_table(
    sets: Sequence[PlannedSet], sources: Sequence[str], search: ItemSearch, frequent: Collection[int]
) -> pa.Table:
    """Return SETS: a row for each set, with the counts of its items and phrases in the search of some sources."""
    items, frequent_hashes = search.items, np.array(sorted(frequent), np.uint64)
    set_of_phrase = np.repeat(items.sets, np.diff(items.ends))
    rare = np.concatenate([[0], np.cumsum(~np.isin(items.phrases, frequent_hashes))])[items.ends]
    is_too_frequent = np.diff(rare) < np.minimum(LEAST_PHRASES, np.diff(items.ends))
    rows = list[dict[str, Any]]()
    for planned in sets:
        number, counts = items.names.index(planned.name), search.counts[planned.name]
        phrases = np.unique(items.phrases[set_of_phrase == number])
        rows.append(
            {
                "set": planned.name, "sources": sources, "files": [file.listed.url for file in planned.files],
                "sha256": [file.sha256 for file in planned.files], "items": counts.items,
                "too_short": counts.short, "unanswered": counts.unanswered,
                "too_frequent": int(is_too_frequent[items.sets == number].sum()), "phrases": len(phrases),
                "frequent": int(np.isin(phrases, frequent_hashes).sum()),
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, SETS)
