"""The stage that publishes a source: its published files, each of consecutive shards, and their counts.

`tasks.publish.corpus` makes the published folder of these files.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.bucketed import BucketFacts, ScorePercentiles
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
from zyda_flows.tasks.accounts.joined import JoinAccount, JoinFacts
from zyda_flows.tasks.documents.deny import RowsAside
from zyda_flows.tasks.documents.planning import count_columns
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.publish.costs import PUBLISH, publish_cost
from zyda_flows.tasks.publish.published_columns import (
    added_to_removed,
    check_published_names,
    removed_schema,
)
from zyda_flows.tasks.publish.published_shards import COUNTS, VERSION, ShardsToPublish
from zyda_flows.tasks.quality.ingested import IngestFacts, read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.document_components import COMPONENT
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.file_groups import input_file_of
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.shared_files import (
    JoinedTables,
    groups_of_pieces,
    histories_of_files,
    joined_by_group,
)
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

ASIDE = "set_aside"


class PublishedSource(Facts):
    """The facts of the manifest: the tables of removed documents and of rows set aside.

    documents: the number of published documents of each input file with shards, as (number of the file, documents).
    counted: the documents of each component, licence and language, COUNTED, if the recipe has these categories.
    joins: the accounts of the joins. percentiles: of the scores by which documents are in buckets.
    """

    removed: tuple[Artifact, ...] = ()
    set_aside: tuple[Artifact, ...] = ()
    documents: tuple[tuple[int, int], ...] = ()
    counted: Artifact | None = None
    joins: tuple[JoinAccount, ...] = ()
    percentiles: tuple[ScorePercentiles, ...] = ()


class FilesOfShards(NamedTuple):
    """The artifacts of shards that share a published file; a process holds those of all shards of a source.

    documents: the number of kept documents of each shard.
    """

    kept: tuple[Artifact, ...]
    removed: Artifact | None
    documents: tuple[int, ...]
    counted: Artifact | None

    @property
    def documents_read(self) -> Counts:
        return total(file.counts for file in self.kept)


def publish_files(job: ShardsToPublish) -> FilesOfShards:
    """Publish consecutive shards, and return their artifacts."""
    shards = job()
    return FilesOfShards(shards.files, shards.removed, shards.documents, shards.counted)


@dataclass(frozen=True)
class SumOfCounts(ArtifactJob):
    """Add up the counts of some published files, or sums of them: COUNTED. place: in the tree."""

    stage, version = COUNTS, VERSION

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


class RowsAsideOfFile(JoinedTables):
    """The rows set aside of consecutive pieces of a source."""

    stage, version = ASIDE, VERSION


def key(recipe: Recipe, trail: Trail) -> str:
    named = count_columns(recipe, trail.source)
    params = [has_folders(recipe, trail.source), named, recipe.published_mib]
    return stage_key(PUBLISH, VERSION, params, *trail.identities)


def has_folders(recipe: Recipe, source: str) -> bool:
    """Return whether each component, or each bucket, of a source has a folder."""
    component, bucket = recipe.source(source).component, recipe.bucket
    return bool(component and component.folders) or bool(bucket and bucket.folders)


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
    in_folders, named = has_folders(recipe, source), count_columns(recipe, source)
    jobs = [
        ShardsToPublish(
            folder=folder,
            source=source,
            table_schema=facts.packed,
            removed_schema=removed_columns,
            added_to_removed=tuple(field.name for field in added_to_removed(later_manifests)),
            histories=histories,
            in_folders=in_folders,
            named=tuple(named.items()),
            bucket=recipe.bucket.name if recipe.bucket else "",
        )
        for histories in histories_of_files(load_histories(folder, trail), recipe.published_mib)
    ]
    files = fan_out(publish_files, jobs, stage=PUBLISH, source=source)
    kept = tuple(sorted((file for shards in files for file in shards.kept), key=lambda file: file.name))
    counts = [shards.counted for shards in files if shards.counted]
    counted, sums = None, list[str]()
    if counts:
        add_up = partial(fan_out, ArtifactJob.__call__, stage=COUNTS, source=source)
        counted, sums = merge_in_tree(counts, partial(SumOfCounts, folder, source), add_up)
        check_components(read_table(folder, counted), trail)
    return Manifest(
        stage=PUBLISH,
        source=source,
        artifacts=kept,
        entering=trail.remaining,
        out=total(shard.counts for shard in kept),
        facts=PublishedSource(
            removed=tuple(file.removed for file in files if file.removed),
            set_aside=shared_rows_aside(recipe, source, set_aside_of(facts, later_manifests)),
            documents=documents_of_inputs(jobs, files),
            counted=counted,
            joins=join_accounts(later_manifests),
            percentiles=score_percentiles(later_manifests),
        ).written(),
        intermediate=tuple(sums),
    )


def join_accounts(manifests: Sequence[Manifest]) -> tuple[JoinAccount, ...]:
    return tuple(
        account
        for manifest in manifests
        if manifest.stage == "join"
        for account in manifest.facts_as(JoinFacts).accounts
    )


def score_percentiles(manifests: Sequence[Manifest]) -> tuple[ScorePercentiles, ...]:
    found = (manifest.facts_as(BucketFacts) for manifest in manifests if manifest.stage == "bucket")
    return tuple(each for facts in found for each in facts.percentiles)


def documents_of_inputs(
    jobs: Sequence[ShardsToPublish], files: Sequence[FilesOfShards]
) -> tuple[tuple[int, int], ...]:
    """Return the number of published documents of each input file, ascending by the number of the file."""
    sums = Counter[int]()
    for job, published in zip(jobs, files, strict=True):
        for history, documents in zip(job.histories, published.documents, strict=True):
            sums[input_file_of(history.shard.name)] += documents
    return tuple(sorted(sums.items()))


def shared_rows_aside(recipe: Recipe, source: str, tables: Sequence[Artifact]) -> tuple[Artifact, ...]:
    """Return the files of rows set aside of a source. The tables of many pieces share a file."""
    run_jobs = partial(fan_out, ArtifactJob.__call__, stage=ASIDE, source=source)
    groups = groups_of_pieces(tables, recipe.published_mib)
    return tuple(joined_by_group(tables, groups, partial(RowsAsideOfFile, recipe.folder, source), run_jobs))


def set_aside_of(facts: IngestFacts, later_manifests: Sequence[Manifest]) -> tuple[Artifact, ...]:
    """Return the tables of rows set aside, without the content that deny lists removed."""
    judged = [each.facts_as(RowsAside).set_aside for each in later_manifests if each.stage == "deny"]
    return next((tables for tables in judged if tables is not None), facts.set_aside)


def check_components(counted: pa.Table, trail: Trail) -> None:
    """Raise NotConserved if the counts by category do not sum to the ingested and the kept documents.

    Buckets have the documents that the filters kept.
    """
    cut = total(receipt.cut for receipt in trail.receipts)
    bucketed = [receipt.out for receipt in trail.receipts if receipt.stage == "bucket"]
    for category in filter(counted.column(CATEGORY.name).unique().to_pylist().__contains__, COUNTED_BY):
        ends = of_category(counted, category)
        everything, kept = total_of(ends), total_of(ends.filter(pc.field("stage").is_null()))
        entered = bucketed[0] if category == "buckets" else trail.receipts[0].out
        if everything + cut != entered or kept != trail.remaining:
            raise NotConserved(
                f"source {trail.source}: its {category} have {everything.documents:,} documents, of which "
                f"{kept.documents:,} are kept; expected {entered.documents:,} and {trail.remaining.documents:,}"
            )
