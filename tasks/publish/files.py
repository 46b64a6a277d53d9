"""The stage that publishes a source: the published files of all its shards, and their counts.

`tasks.publish.corpus` makes the published folder of these files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.components import (
    CATEGORY,
    COUNTED,
    COUNTED_BY,
    added_up,
    check_names,
    of_category,
    total_of,
    with_others,
)
from zyda_flows.tasks.documents.deny import RowsAside
from zyda_flows.tasks.documents.planning import count_columns
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.publish.published_columns import (
    check_published_names,
    removed_schema,
)
from zyda_flows.tasks.publish.published_shards import VERSION, ShardToPublish
from zyda_flows.tasks.quality.ingested import IngestFacts, read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.document_components import COMPONENT
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.trees import merge_in_tree
from zyda_flows.tasks.stage.verdicts import (
    Trail,
    load_histories,
)
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, load_manifest, stage_key
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.tables import read_table, write_table


class PublishedSource(Facts):
    """The facts of the manifest: the tables of removed documents and of rows set aside.

    counted: the documents of each component, licence and language, COUNTED, if the recipe has these categories.
    """

    removed: tuple[Artifact, ...] = ()
    set_aside: tuple[Artifact, ...] = ()
    counted: Artifact | None = None


class FilesOfShard(NamedTuple):
    """The artifacts of a published shard; a process holds those of all shards of a source."""

    kept: tuple[Artifact, ...]
    removed: Artifact | None
    counted: Artifact | None

    @property
    def documents_read(self) -> Counts:
        return total(file.counts for file in self.kept)


def publish_files(job: ShardToPublish) -> FilesOfShard:
    """Publish a shard, and return its artifacts."""
    shard = job()
    return FilesOfShard(shard.files, shard.removed, shard.counted)


@dataclass(frozen=True)
class SumOfCounts(ArtifactJob):
    """Add up the counts of some shards, or sums of them: COUNTED. place: in the tree."""

    stage, version = "counts", VERSION

    source: str
    place: Annotated[str, NotInKey("part of the path")]
    tables: tuple[Artifact, ...]

    @property
    def name(self) -> str:
        return self.place

    def make(self) -> Artifact:
        counted = added_up((read_table(self.folder, table) for table in self.tables), COUNTED)
        check_names(self.source, counted)
        return write_table(self.folder, self.path, self.name, with_others(counted, limits().component_names))


def key(recipe: Recipe, trail: Trail) -> str:
    component, named = recipe.source(trail.source).component, count_columns(recipe, trail.source)
    params = [bool(component and component.folders), named]
    return stage_key("publish", VERSION, params, *trail.identities)


@stage("publish", key, extends_trail=False)
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
        ShardToPublish(
            folder=folder,
            source=source,
            table_schema=facts.packed,
            removed_schema=removed_columns,
            history=history,
            in_folders=in_folders,
            named=tuple(named.items()),
        )
        for history in load_histories(folder, trail)
    ]
    files = fan_out(publish_files, jobs, stage="publish", source=source)
    kept = tuple(sorted((file for shard in files for file in shard.kept), key=lambda file: file.name))
    counts = [shard.counted for shard in files if shard.counted]
    counted, sums = None, list[str]()
    if counts:
        counted, sums = merge_in_tree(
            counts, partial(SumOfCounts, folder, source), stage="publish", source=source
        )
        check_components(read_table(folder, counted), trail)
    return Manifest(
        stage="publish",
        source=source,
        artifacts=kept,
        entering=trail.remaining,
        out=total(shard.counts for shard in kept),
        facts=PublishedSource(
            removed=tuple(file.removed for file in files if file.removed),
            set_aside=set_aside_of(facts, later_manifests),
            counted=counted,
        ).written(),
        intermediate=tuple(sums),
    )


def set_aside_of(facts: IngestFacts, later_manifests: Sequence[Manifest]) -> tuple[Artifact, ...]:
    """Return the tables of rows set aside, without the content that deny lists removed."""
    judged = [each.facts_as(RowsAside).set_aside for each in later_manifests if each.stage == "deny"]
    return next((tables for tables in judged if tables is not None), facts.set_aside)


def check_components(counted: pa.Table, trail: Trail) -> None:
    """Raise NotConserved if the counts by category do not sum to the ingested and the kept documents."""
    for category in filter(counted.column(CATEGORY.name).unique().to_pylist().__contains__, COUNTED_BY):
        ends = of_category(counted, category)
        everything, kept = total_of(ends), total_of(ends.filter(pc.field("stage").is_null()))
        if everything != trail.receipts[0].out or kept != trail.remaining:
            raise NotConserved(
                f"source {trail.source}: its {category} have {everything.documents:,} documents, of which "
                f"{kept.documents:,} are kept; expected {trail.receipts[0].out.documents:,} and "
                f"{trail.remaining.documents:,}"
            )
