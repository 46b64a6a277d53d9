"""Tables of consecutive shards in one published file: which shards share a file, and a job that joins their tables.

The shards of a file of documents also share the files of their vectors and passages. Rows that are set aside have
no shard, and share files by their own sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zyda_flows.tasks.stage.cost import SourceSize
from zyda_flows.tasks.stage.file_groups import file_groups
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.verdicts import ShardHistory
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.counts import total
from zyda_flows.tasks.storage.documents import ROW_GROUP_BYTES, row_groups
from zyda_flows.tasks.storage.tables import footer_of, parquet_writer, tables_of, write_artifact


@dataclass(frozen=True)
class JoinedTables(ArtifactJob):
    """The rows of some tables of one schema, in their order. `name` is that of the first table.

    Its last part is in the path, because a name can begin with the folder of the published file.
    """

    artifacts: tuple[Artifact, ...]

    @property
    def name(self) -> str:
        return self.artifacts[0].name

    @property
    def path(self) -> str:
        return artifact_path(self.stage, self.source, self.name.rpartition("/")[2], self.key)

    def make(self) -> Artifact:
        counts = total(artifact.counts for artifact in self.artifacts)
        return write_artifact(self.folder, self.path, self.name, self.fill, counts=counts)

    def fill(self, scratch: Path) -> None:
        """Write the rows in row groups of some MiB; some tables are in memory at a time."""
        tables = (table for artifact in self.artifacts for table in tables_of(self.folder, artifact))
        schema = footer_of(self.folder, self.artifacts[0]).schema.to_arrow_schema()
        with parquet_writer(scratch, schema) as writer:
            for group in row_groups(tables, ROW_GROUP_BYTES):
                writer.write_table(group)


def joined_by_group(
    artifacts: Sequence[Artifact],
    groups: Sequence[Sequence[int]],
    job: Callable[[tuple[Artifact, ...]], JoinedTables],
    run_jobs: Callable[[Sequence[Any]], list[Artifact]],
) -> list[Artifact]:
    """Join the tables of each group. A table that is alone in its group is returned as it is.

    groups: indices of artifacts. job: makes the job that joins some artifacts.
    """
    members = [tuple(artifacts[i] for i in group) for group in groups]
    made = iter(run_jobs([job(some) for some in members if len(some) > 1]))
    return [next(made) if len(some) > 1 else some[0] for some in members]


def groups_of_shards(shards: Sequence[Artifact], published_mib: float | None) -> list[list[int]]:
    """Return the shards of each published file of documents of a source, as indices, ascending by their places."""
    groups = file_groups(
        [shard.name for shard in shards],
        [shard.counts.bytes for shard in shards],
        [shard.counts.documents for shard in shards],
        published_mib,
    )
    return [group.tolist() for group in groups]


def histories_of_files(
    histories: Sequence[ShardHistory], published_mib: float | None
) -> list[tuple[ShardHistory, ...]]:
    """Return the shards of each published file, ascending by their documents."""
    groups = groups_of_shards([history.shard for history in histories], published_mib)
    return [tuple(histories[i] for i in group) for group in groups]


def groups_of_pieces(tables: Sequence[Artifact], published_mib: float | None) -> list[list[int]]:
    """Return the tables of pieces that share a published file, as indices; by their bytes and rows."""
    names = [f"{table.name}-000" for table in tables]
    groups = file_groups(
        names, [table.size for table in tables], [table.rows for table in tables], published_mib
    )
    return [group.tolist() for group in groups]


def planned_groups(source: SourceSize, published_mib: float | None) -> list[int]:
    """Return the number of shards in each published file of a source, if its shards are equally large."""
    shards = max(1, len(source.shards))
    texts, documents = ([size / shards] * shards for size in (source.text, source.documents))
    return [len(group) for group in file_groups(source.shards, texts, documents, published_mib)]
