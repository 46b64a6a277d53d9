"""Find held-out candidates that share a bucket with a document of another corpus, by the band keys of both.

Such a document is not held out, because its near-duplicate can be training data. The share of near-duplicates with
similarity s that share a bucket is 1 - (1 - s^r)^b for b bands of r rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import (
    Files,
    PartJob,
    RowsByPart,
    RunOnWorkers,
    exchange_parts,
    list_files,
)
from zyda_flows.tasks.dedup.part_tables import PART, table_of
from zyda_flows.tasks.ids import Ids, first_id, hash_ids
from zyda_flows.tasks.mixing.planning import Inputs
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.signatures.lookup import collisions, files_by_band, looked_up
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import open_table, write_table

VERSION = 1
GROUP_ROWS = 1 << 16
RANGE_ROWS = 6 << 20  # candidates in a range of documents, about
DOCUMENTS = pa.schema([("doc_id", pa.uint64())])
BY_RANGE = pa.schema([PART, *DOCUMENTS])


def may_be_held_out(draw: Ids, held_out: int) -> NDArray[np.bool_]:
    """Return whether documents can be held out: whether the hash of their draw is below the bound, (n,)."""
    return np.asarray(hash_ids(draw) < np.uint64(held_out))


def draws_of(ids: Ids, salt: int) -> Ids:
    """Return the draws of documents: (n,) uint64. salt: hash of the seed and the corpus."""
    return hash_ids(ids ^ np.uint64(salt))


@dataclass(frozen=True)
class NeighboursOfFile(RowsByPart):
    """Find the candidates in a file of band keys that share a bucket with another corpus: BY_RANGE.

    others: the files of other corpora that can have the same keys. cuts: the first doc_id of each range except the
    first.
    """

    stage, version = "neighbours", VERSION

    corpus: Annotated[PublishedCorpus, NotInKey("only `keys` is read from it")] = field(kw_only=True)
    keys: Artifact = field(kw_only=True)
    others: Annotated[
        tuple[tuple[PublishedCorpus, tuple[Artifact, ...]], ...],
        NotInKey("the digests of their files are in the key"),
    ] = field(kw_only=True)
    held_out: int = field(kw_only=True)
    salt: int = field(kw_only=True)
    cuts: tuple[int, ...] = field(kw_only=True)

    @property
    def also_in_key(self) -> list[str]:
        return [file.digest for _, files in self.others for file in files]

    def rows(self) -> pa.Table:
        keys, ids = self.candidates()
        matches = [np.empty(0, np.uint64)]
        for other, files in self.others if len(ids) else ():
            with other.reading():
                for file in files:
                    theirs, their_ids = looked_up(other.folder, file, keys, 1)
                    matches.append(collisions(keys, ids, theirs, their_ids)[0])
        matching = np.unique(np.concatenate(matches))
        ranges = np.searchsorted(np.array(self.cuts, np.uint64), matching, side="right")
        return table_of(BY_RANGE, ranges.astype(np.uint32), matching)

    def candidates(self) -> tuple[Any, Ids]:
        """Return the band keys of candidates, (n,) or (n, 2), and their doc_ids, (n,)."""
        with self.corpus.reading(), open_table(self.corpus.folder, self.keys) as parquet:
            names = [name for name in ("key", "low", "doc_id") if name in parquet.schema_arrow.names]
            tables = [parquet.schema_arrow.empty_table().select(names)]
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group, names)
                draw = draws_of(table.column("doc_id").to_numpy(), self.salt)
                tables.append(table.filter(pa.array(may_be_held_out(draw, self.held_out))))
        whole = pa.concat_tables(tables)
        keys = [whole.column(name).to_numpy() for name in names[:-1]]
        return keys[0] if len(keys) == 1 else np.stack(keys, axis=1), whole.column("doc_id").to_numpy()


@dataclass(frozen=True)
class NeighboursInRange(PartJob[Artifact], ArtifactJob):
    """Merge the candidates of all files in a range of doc_ids, sorted: DOCUMENTS. shared_files: all candidates."""

    stage, version = "neighbours", VERSION

    def make(self) -> Artifact:
        (ids,), _ = self.part_columns(BY_RANGE)
        table = pa.table([pa.array(np.unique(ids))], schema=DOCUMENTS)
        return write_table(self.folder, self.path, self.name, table, GROUP_ROWS)


def cuts_of(corpus: PublishedCorpus, files: Sequence[Artifact], share: float) -> tuple[int, ...]:
    """Divide the doc_ids of a corpus into ranges with about RANGE_ROWS candidates; a source's file is not divided.

    share: of the documents that are candidates. Return the first doc_id of each range except the first.
    """
    numbers = {source: number for number, source in corpus.source_names.items()}
    documents = Counter[int]()
    for file in files:
        source, number = file.path.partition("/")[0], numbers_in_name(file)[0]
        documents[first_id(numbers[source], number)] += file.rows
    cuts, size = list[int](), 0.0
    for first, count in sorted(documents.items()):
        if size and size + share * count > RANGE_ROWS:
            cuts.append(first)
            size = 0
        size += share * count
    return tuple(cuts)


def comparable_rounds(first: PublishedCorpus, second: PublishedCorpus) -> list[tuple[str, str]]:
    """Return pairs of folders of band keys of two corpora that have the same parameters."""
    return [
        (own, their)
        for own, keys in first.manifest.bands.items()
        for their, others in second.manifest.bands.items()
        if keys.parameters == others.parameters
    ]


def incomparable(inputs: Inputs) -> list[tuple[str, str]]:
    """Return the pairs of corpora without comparable band keys."""
    return [(a.label, b.label) for a, b in combinations(inputs.corpora, 2) if not comparable_rounds(a, b)]


def recall_at(inputs: Inputs, similarity: float) -> float | None:
    """Return the smallest share of near-duplicates with a similarity that share a bucket, over pairs of corpora.

    None if no corpora can be compared, or if the rounds have no bands of signatures.
    """
    recalls = (
        recall_of(a, own, similarity)
        for a, b in combinations(inputs.corpora, 2)
        for own, _ in comparable_rounds(a, b)
    )
    return min((recall for recall in recalls if recall is not None), default=None)


def recall_within(inputs: Inputs, similarity: float) -> dict[str, float | None]:
    """Return the share of near-duplicates within each corpus that share a bucket in a round, by label.

    None for a corpus that publishes no band keys of signatures.
    """
    recalls = {
        corpus.label: [recall_of(corpus, own, similarity) for own in corpus.manifest.bands]
        for corpus in inputs.corpora
    }
    return {
        label: max((recall for recall in corpus_recalls if recall is not None), default=None)
        for label, corpus_recalls in recalls.items()
    }


def recall_of(corpus: PublishedCorpus, keys: str, similarity: float) -> float | None:
    """Return the share of near-duplicates that share a bucket of a round, or None without bands of signatures."""
    parameters = corpus.manifest.bands[keys].parameters
    bands, values = (int(parameters.get(name) or 0) for name in ("bands", "values"))
    return 1 - (1 - similarity ** (values // bands)) ** bands if bands and values else None


def neighbours_in(inputs: Inputs, number: int, share: float, held_out: int, run_jobs: RunOnWorkers) -> Files:
    """Find the candidates of a corpus, by its number, with neighbours in other corpora: DOCUMENTS, by ranges.

    share: of the documents that are candidates.
    """
    folder, corpus = inputs.folder, inputs.corpora[number]
    published = [file.artifact for file in inputs.files if file.corpus == number and file.is_first]
    cuts, ranges = cuts_of(corpus, published, share), Naming(0, 0)
    jobs = [
        NeighboursOfFile(
            folder, corpus.label, ranges, place, corpus=corpus, keys=file, others=others, held_out=held_out,
            salt=inputs.draw_salt(number), cuts=cuts,
        )
        for place, (file, others) in enumerate(compared_files(inputs, corpus))
    ]  # fmt: skip
    found = exchange_parts(jobs, len(cuts) + 1, run_jobs) if jobs else None
    merging = [
        NeighboursInRange(folder, corpus.label, ranges, i, (), found.files(i) if found else None)
        for i in range(len(cuts) + 1)
    ]
    return list_files(folder, run_jobs(merging))


def compared_files(
    inputs: Inputs, corpus: PublishedCorpus
) -> Iterator[tuple[Artifact, tuple[tuple[PublishedCorpus, tuple[Artifact, ...]], ...]]]:
    """Yield each file of a corpus's band keys, with the files of other corpora that can have the same keys."""
    rounds = dict[str, dict[int, list[tuple[PublishedCorpus, list[Artifact]]]]]()
    for other in inputs.corpora:
        for own, their in comparable_rounds(corpus, other) if other is not corpus else ():
            for band, files in files_by_band(other.artifacts(f"{their}/")).items():
                rounds.setdefault(own, {}).setdefault(band, []).append((other, files))
    for own, by_band in rounds.items():
        for band, files in files_by_band(corpus.artifacts(f"{own}/")).items():
            for place, file in enumerate(files):
                yield (
                    file,
                    tuple(
                        (other, tuple(with_keys_of(place, len(files), other_files)))
                        for other, other_files in by_band.get(band, ())
                    ),
                )


def with_keys_of(place: int, count: int, others: Sequence[Artifact]) -> Sequence[Artifact]:
    """Return the files of a band that can have keys of one of `count` files of another corpus's band.

    The files of a band divide its keys into ranges of equal width. place: of the one file, from 0.
    """
    return others[place * len(others) // count : -(-(place + 1) * len(others) // count)]
