"""Find held-out candidates that share a bucket with a document of another corpus, by the band keys of both.

Such a document is not held out, because its near-duplicate can be training data. The share of near-duplicates with
similarity s that share a bucket is 1 - (1 - s^r)^b for b bands of r rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.mixing.file_jobs import FileJob
from zyda_flows.tasks.mixing.planning import Inputs
from zyda_flows.tasks.signatures.lookup import collisions, files_by_band, looked_up
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import open_table, read_table, write_table

VERSION = 1
DOCUMENTS = pa.schema([("doc_id", pa.uint64())])


def may_be_held_out(draw: Ids, held_out: int) -> NDArray[np.bool_]:
    """Return whether documents can be held out: whether the hash of their draw is below the bound, (n,)."""
    return np.asarray(hash_ids(draw) < np.uint64(held_out))


def draws_of(ids: Ids, salt: int) -> Ids:
    """Return the draws of documents: (n,) uint64. salt: hash of the seed and the corpus."""
    return hash_ids(ids ^ np.uint64(salt))


@dataclass(frozen=True)
class NeighboursOfFile(FileJob):
    """Find the candidates in a file of band keys that share a bucket with another corpus: DOCUMENTS."""

    stage, version = "neighbours", VERSION

    others: Annotated[
        tuple[tuple[PublishedCorpus, tuple[Artifact, ...]], ...],
        NotInKey("the digests of their files are in the key"),
    ]
    held_out: int
    salt: int

    @property
    def also_in_key(self) -> list[str]:
        return [file.digest for _, files in self.others for file in files]

    def make(self) -> Artifact:
        keys, ids = self.candidates()
        matches = [np.empty(0, np.uint64)]
        for other, files in self.others if len(ids) else ():
            with other.reading():
                for file in files:
                    theirs, their_ids = looked_up(other.folder, file, keys, 1)
                    matches.append(collisions(keys, ids, theirs, their_ids)[0])
        table = pa.table([pa.array(np.unique(np.concatenate(matches)))], schema=DOCUMENTS)
        return write_table(self.folder, self.path, self.name, table)

    def candidates(self) -> tuple[Any, Ids]:
        """Return the band keys of candidates, (n,) or (n, 2), and their doc_ids, (n,)."""
        with self.corpus.reading(), open_table(self.corpus.folder, self.artifact) as parquet:
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
class CorpusNeighbours(ArtifactJob):
    """Merge the candidates of all files of a corpus, sorted: DOCUMENTS."""

    stage, version = "neighbours", VERSION

    corpus: Annotated[PublishedCorpus, NotInKey("only `files` are read")]
    files: tuple[Artifact, ...]

    @property
    def name(self) -> str:
        return self.corpus.label

    def make(self) -> Artifact:
        ids = [read_table(self.folder, file).column("doc_id").to_numpy() for file in self.files]
        table = pa.table(
            [pa.array(np.unique(np.concatenate([np.empty(0, np.uint64), *ids])))], schema=DOCUMENTS
        )
        return write_table(self.folder, self.path, self.name, table, 1 << 16)


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


def neighbour_jobs(inputs: Inputs, folder: Any, held_out: int) -> dict[int, list[NeighboursOfFile]]:
    """Return the jobs that find candidates with neighbours, by the number of their corpus."""
    jobs = dict[int, list[NeighboursOfFile]]()
    for number, corpus in enumerate(inputs.corpora):
        others = [other for other in inputs.corpora if other is not corpus]
        rounds = dict[str, dict[int, list[tuple[PublishedCorpus, Sequence[Artifact]]]]]()
        for other in others:
            for own, their in comparable_rounds(corpus, other):
                for band, files in files_by_band(other.artifacts(f"{their}/")).items():
                    rounds.setdefault(own, {}).setdefault(band, []).append((other, files))
        salt = inputs.draw_salt(number)
        jobs[number] = [
            NeighboursOfFile(
                folder=folder,
                source=corpus.label,
                corpus=corpus,
                artifact=file,
                others=tuple((other, tuple(files)) for other, files in by_band[band]),
                held_out=held_out,
                salt=salt,
            )
            for own, by_band in rounds.items()
            for band, files in files_by_band(corpus.artifacts(f"{own}/")).items()
            if band in by_band
            for file in files
        ]
    return jobs
