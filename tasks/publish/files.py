"""The stage that publishes a source: its published files, each of consecutive shards, and their counts.

`tasks.publish.corpus` makes the published folder of these files.
"""

from collections import Counter
from collections.abc import Sequence

from zyda_flows.tasks.accounts.components import (
    COUNTED_BY,
    ComponentCounts,
    added_up,
)
from zyda_flows.tasks.documents.deny import RowsAside
from zyda_flows.tasks.documents.planning import count_columns
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.publish.costs import PUBLISH, publish_cost
from zyda_flows.tasks.publish.file_groups import file_groups, input_file_of
from zyda_flows.tasks.publish.published_columns import (
    check_published_names,
    removed_schema,
)
from zyda_flows.tasks.publish.published_shards import VERSION, PublishedShards, ShardsToPublish
from zyda_flows.tasks.quality.ingested import IngestFacts, read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.document_components import COMPONENT
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import (
    ShardHistory,
    Trail,
    load_histories,
)
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Manifest,
    load_manifest,
    stage_key,
    total,
)
from zyda_flows.tasks.storage.facts import Facts


class PublishedSource(Facts):
    """The facts of the manifest: the tables of removed documents and of rows set aside.

    documents: the number of published documents of each input file with shards, as (number of the file, documents).
    counted_by: the documents of each component, licence and language, if the recipe has these categories.
    """

    removed: tuple[Artifact, ...] = ()
    set_aside: tuple[Artifact, ...] = ()
    documents: tuple[tuple[int, int], ...] = ()
    counted_by: dict[str, tuple[ComponentCounts, ...]] = {}


def key(recipe: Recipe, trail: Trail) -> str:
    component, named = recipe.source(trail.source).component, count_columns(recipe, trail.source)
    params = [bool(component and component.folders), named, recipe.published_mib]
    return stage_key(PUBLISH, VERSION, params, *trail.identities)


@stage(PUBLISH, key, extends_trail=False, cost=publish_cost)
def publish(recipe: Recipe, trail: Trail) -> Manifest:
    """Write the published files of a source."""
    folder, source = recipe.folder, trail.source
    facts = read_ingest_facts(folder, trail)
    later_manifests = [load_manifest(folder, receipt) for receipt in trail.receipts[1:]]
    check_published_names(source, facts.columns, later_manifests)
    removed_columns = removed_schema(later_manifests)
    component = recipe.source(source).component
    if component:
        removed_columns = removed_columns.append(COMPONENT)
    in_folders, named = bool(component and component.folders), count_columns(recipe, source)
    jobs = [
        ShardsToPublish(
            folder=folder,
            source=source,
            table_schema=facts.packed,
            removed_schema=removed_columns,
            histories=histories,
            in_folders=in_folders,
            named=tuple(named.items()),
        )
        for histories in histories_of_files(load_histories(folder, trail), recipe.published_mib)
    ]
    files = fan_out(ShardsToPublish.__call__, jobs, stage=PUBLISH, source=source)
    kept = tuple(sorted((file for shard in files for file in shard.files), key=lambda file: file.name))
    counted = [name for name in COUNTED_BY if name in named or (name == "components" and component)]
    counted_by = {name: added_up(shard.counted_by[name] for shard in files) for name in counted}
    for name, counts in counted_by.items():
        check_components(source, name, counts, trail)
    return Manifest(
        stage=PUBLISH,
        source=source,
        artifacts=kept,
        entering=trail.remaining,
        out=total(shard.counts for shard in kept),
        facts=PublishedSource(
            removed=tuple(file.removed for file in files if file.removed),
            set_aside=set_aside_of(facts, later_manifests),
            documents=documents_of_inputs(jobs, files),
            counted_by=counted_by,
        ).written(),
    )


def histories_of_files(
    histories: Sequence[ShardHistory], published_mib: float
) -> list[tuple[ShardHistory, ...]]:
    """Return the shards of each published file, ascending by their documents."""
    shards = [history.shard for history in histories]
    groups = file_groups(
        [shard.name for shard in shards],
        [shard.counts.bytes for shard in shards],
        [shard.counts.documents for shard in shards],
        published_mib * 2**20,
    )
    return [tuple(histories[i] for i in group) for group in groups]


def documents_of_inputs(
    jobs: Sequence[ShardsToPublish], files: Sequence[PublishedShards]
) -> tuple[tuple[int, int], ...]:
    """Return the number of published documents of each input file, ascending by the number of the file."""
    sums = Counter[int]()
    for job, published in zip(jobs, files, strict=True):
        for history, documents in zip(job.histories, published.documents, strict=True):
            sums[input_file_of(history.shard.name)] += documents
    return tuple(sorted(sums.items()))


def set_aside_of(facts: IngestFacts, later_manifests: Sequence[Manifest]) -> tuple[Artifact, ...]:
    """Return the tables of rows set aside, without the content that deny lists removed."""
    judged = [each.facts_as(RowsAside).set_aside for each in later_manifests if each.stage == "deny"]
    return next((tables for tables in judged if tables is not None), facts.set_aside)


def check_components(source: str, category: str, components: Sequence[ComponentCounts], trail: Trail) -> None:
    """Raise NotConserved if the counts by category do not sum to the ingested and the kept documents."""
    everything = total(entry.counts for entry in components)
    kept = total(entry.counts for entry in components if not entry.stage)
    if everything != trail.receipts[0].out or kept != trail.remaining:
        raise NotConserved(
            f"source {source}: its {category} have {everything.documents:,} documents, of which "
            f"{kept.documents:,} are kept; expected {trail.receipts[0].out.documents:,} and "
            f"{trail.remaining.documents:,}"
        )
