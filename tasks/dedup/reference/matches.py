"""The stage `matches`: pairs of documents and reference documents that share a bucket, from published band keys.

Rows out: MATCHES, sorted by doc_id, then corpus, then the number of shared buckets, descending. Of a bucket of the
other corpus, only the first MOST_OF_BUCKET documents are compared. Of each corpus, the MOST_OF_CORPUS documents
with the most shared buckets are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.reference.corpora import content_of, corpora_of, index_of
from zyda_flows.tasks.ids import MAX_ROWS, first_id
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import KeyRange, key_ranges, numbers_in_name, read_range
from zyda_flows.tasks.signatures.lookup import collisions, first_and_last_keys, first_of_bucket, looked_up
from zyda_flows.tasks.signatures.merging import GROUP_SHARDS
from zyda_flows.tasks.signatures.minhash import keys_of_source
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import ShardHistory, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.tables import parquet_writer, rows_between, write_artifact, write_table

VERSION = 1
GROUP_ROWS = 1 << 16
MOST_OF_BUCKET = 256  # documents of a bucket of another corpus that are compared: those with the smallest ids
MOST_OF_CORPUS = 64  # documents of another corpus that are kept as matches of a document
COLLISIONS = pa.schema([("doc_id", pa.uint64()), ("matched_doc_id", pa.uint64())])
MATCHES = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("corpus", pa.uint8()),  # the place of the other corpus in the round's `against`
        ("matched_doc_id", pa.uint64()),  # of that corpus
        ("buckets", pa.uint16()),  # the number of shared buckets
    ]
)


@dataclass(frozen=True)
class CollisionsInFile(ArtifactJob):
    """The pairs that share a bucket in a file of another corpus's band keys: COLLISIONS, sorted by doc_id.

    artifacts: the band keys of this corpus, in `bands` bands. artifacts_digest: a hash of their digests.
    """

    stage, version = "matches", VERSION

    other: Annotated[PublishedCorpus, NotInKey("only `file` is read")]
    file: Artifact
    artifacts: Annotated[tuple[Artifact, ...], NotInKey("`artifacts_digest` is a hash of them")]
    artifacts_digest: str
    bands: int

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def also_in_key(self) -> int:
        return MOST_OF_BUCKET

    def make(self) -> Artifact:
        band = int(self.file.name.partition("-")[0])
        tables = [COLLISIONS.empty_table()]
        with self.other.reading():
            first, last = first_and_last_keys(self.other.folder, self.file)
        ours = sum(artifact.rows for artifact in self.artifacts) // self.bands
        for keys_at_once in key_ranges(ours):
            low, high = max(keys_at_once.low, int(first[0])), min(keys_at_once.high, int(last[-1]) + 1)
            if low < high:
                keys, doc_ids = read_range(self.folder, self.artifacts, band, KeyRange(low, high))
                with self.other.reading():
                    found_keys, found_ids = looked_up(self.other.folder, self.file, keys, MOST_OF_BUCKET)
                both = collisions(keys, doc_ids, found_keys, found_ids)
                tables.append(pa.table([pa.array(ids) for ids in both], schema=COLLISIONS))
        table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in COLLISIONS.names])
        return write_table(self.folder, self.path, self.name, table)


@dataclass(frozen=True)
class MatchesOfFiles(ArtifactJob):
    """The matches of the documents in a range of files of a source: MATCHES.

    met_in: for each corpus, the COLLISIONS of its files. of_met: a hash of their digests. first, last: the range of
    the ids of the documents.
    """

    stage, version = "matches", VERSION

    source: str
    met_in: Annotated[tuple[tuple[Artifact, ...], ...], NotInKey("`of_met` is a hash of them")]
    of_met: str
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"from-{self.first:020d}"

    @property
    def also_in_key(self) -> list[int]:
        return [MOST_OF_CORPUS, *(len(files) for files in self.met_in)]

    def make(self) -> Artifact:
        tables = [MATCHES.empty_table()]
        for corpus, files in enumerate(self.met_in):
            rows = (
                rows_between(self.folder, files, self.first, self.last) if files else COLLISIONS.empty_table()
            )
            pairs = rows.group_by(COLLISIONS.names).aggregate([([], "count_all")])
            columns = [
                pairs.column("doc_id"),
                pa.array(np.full(len(pairs), corpus, np.uint8)),
                pairs.column("matched_doc_id"),
                pairs.column("count_all").cast(pa.uint16()),
            ]
            tables.append(pa.table(columns, schema=MATCHES))
        order = [("doc_id", "ascending"), ("corpus", "ascending"), ("buckets", "descending")]
        table = pa.concat_tables(tables).sort_by([*order, ("matched_doc_id", "ascending")])
        table = table.take(pa.array(first_of_each_corpus(table)))

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, MATCHES) as writer:
                writer.write_table(table, row_group_size=GROUP_ROWS)

        return write_artifact(self.folder, self.path, self.name, fill)


@task(task_run_name="other corpora", **ONCE_A_BUILD)
def load_references(recipe: Recipe) -> dict[str, PublishedCorpus]:
    """Open the reference corpora, once in a build: the build uses their current versions."""
    return corpora_of(recipe)


def first_of_each_corpus(matches: pa.Table) -> NDArray[np.int64]:
    """Return the places of the first MOST_OF_CORPUS rows of each document and corpus.

    matches: sorted by document and corpus.
    """
    ids, corpora = (matches.column(name).to_numpy() for name in ("doc_id", "corpus"))
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = (ids[1:] != ids[:-1]) | (corpora[1:] != corpora[:-1])
    return first_of_bucket(is_first, MOST_OF_CORPUS)


def key(
    dedup_round: Round,
    trails: list[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> str:
    identities = [identity for trail in trails for identity in trail.identities]
    corpora = [content_of(index_of(other, dedup_round.dedup)) for other in references]
    taking_part = [trail.source for trail in trails if dedup_round.recipe.is_removable(trail.source)]
    params = [dedup_round.dedup.key_parameters, MOST_OF_BUCKET, MOST_OF_CORPUS, corpora, taking_part]
    return stage_key("matches", VERSION, params, *identities)


def has_references(dedup_round: Round, _: str) -> bool:
    return bool(dedup_round.dedup.against) and dedup_round.dedup.has_keys


@stage("matches", key, scope="corpus", inputs=("trails", "sources", "references"), enabled=has_references)
def matches(
    dedup_round: Round,
    trails: list[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> Manifest:
    """Find the remaining documents that share a bucket with a document of another corpus."""
    folder, dedup = dedup_round.folder, dedup_round.dedup
    taking_part = [trail for trail in trails if dedup_round.recipe.is_removable(trail.source)]
    history = {trail.source: load_histories(folder, trail) for trail in taking_part}
    source_keys = [
        keys_of_source(dedup_round, source, shards, "own keys") for source, shards in history.items()
    ]
    artifacts = tuple(file for keys in source_keys for file in keys.files)
    artifacts_digest = stage_key("matches", VERSION, None, *(artifact.digest for artifact in artifacts))
    looking = [
        [
            CollisionsInFile(
                folder=folder,
                source=None,
                other=other,
                file=file,
                artifacts=artifacts,
                artifacts_digest=artifacts_digest,
                bands=dedup.key_bands,
            )
            for file in index_of(other, dedup)
        ]
        for other in references
    ]
    collision_files = iter(
        fan_out(
            ArtifactJob.__call__, [job for jobs in looking for job in jobs],
            stage=dedup_round.name_of("matches"), source=None,
        )
    )  # fmt: skip
    met_in = tuple(tuple(next(collision_files) for _ in jobs) for jobs in looking)
    met_digest = stage_key(
        "matches", VERSION, None, *(artifact.digest for files in met_in for artifact in files)
    )
    numbers = {source.source: source.number for source in sources}
    gathering = [
        MatchesOfFiles(folder, source, met_in, met_digest, first, last)
        for source, shards in history.items()
        for first, last in ranges_of_files(numbers[source], shards)
    ]
    gathered = fan_out(ArtifactJob.__call__, gathering, stage=dedup_round.name_of("matches"), source=None)
    return Manifest(
        stage="matches",
        artifacts=tuple(gathered),
        intermediate=(
            *(path for keys in source_keys for path in keys.intermediate),
            *(artifact.path for files in (artifacts, *met_in) for artifact in files),
        ),
    )


def ranges_of_files(number: int, history: Sequence[ShardHistory]) -> Iterator[tuple[int, int]]:
    """Yield ranges of doc_ids, first and last, of about GROUP_SHARDS shards of a source; a file is not split."""
    shards_of_files = dict[int, int]()
    for shard in history:
        file = numbers_in_name(shard.shard)[0]
        shards_of_files[file] = shards_of_files.get(file, 0) + 1
    starts, count = list[int](), GROUP_SHARDS
    for file in sorted(shards_of_files):
        if count >= GROUP_SHARDS:
            starts.append(file)
            count = 0
        count += shards_of_files[file]
    if starts:
        for start, end in pairwise([*starts, max(shards_of_files) + 1]):
            yield first_id(number, start), first_id(number, end - 1) + MAX_ROWS - 1
