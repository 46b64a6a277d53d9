"""Which documents that may be held out share a bucket with one of another corpus, by the band keys of both.

Such a document is trained on, for its near-duplicate may be. How many near-duplicates share a bucket is a matter of
the bands that the corpora were deduplicated with: of those with a likeness s, 1 - (1 - s^r)^b.
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
    """Say of documents, by what they drew, whether their hash is below a bound: (n,)."""
    return np.asarray(hash_ids(draw) < np.uint64(held_out))


def draws_of(ids: Ids, salt: int) -> Ids:
    """Return what documents draw: (n,) uint64. salt: of the seed and the corpus."""
    return hash_ids(ids ^ np.uint64(salt))


@dataclass(frozen=True)
class NeighboursOfFile(FileJob):
    """The documents of a file of band keys that may be held out and share a bucket of another corpus: DOCUMENTS."""

    stage, version = "neighbours", VERSION

    others: Annotated[
        tuple[tuple[PublishedCorpus, tuple[Artifact, ...]], ...], NotInKey("the digests of their files count")
    ]
    held_out: int
    salt: int

    @property
    def also_in_key(self) -> list[str]:
        return [file.digest for _, files in self.others for file in files]

    def make(self) -> Artifact:
        keys, ids = self.candidates()
        found = [np.empty(0, np.uint64)]
        for other, files in self.others if len(ids) else ():
            with other.reading():
                for file in files:
                    theirs, their_ids = looked_up(other.folder, file, keys, 1)
                    found.append(collisions(keys, ids, theirs, their_ids)[0])
        table = pa.table([pa.array(np.unique(np.concatenate(found)))], schema=DOCUMENTS)
        return write_table(self.folder, self.path, self.name, table)

    def candidates(self) -> tuple[Any, Ids]:
        """Read the keys of documents that may be held out, (n,) or (n, 2), and whose they are."""
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
class Neighbours(ArtifactJob):
    """All such documents of a corpus, in their order: DOCUMENTS."""

    stage, version = "neighbours", VERSION

    corpus: Annotated[PublishedCorpus, NotInKey("`found` is all that is read")]
    found: tuple[Artifact, ...]

    @property
    def name(self) -> str:
        return self.corpus.label

    def make(self) -> Artifact:
        ids = [read_table(self.folder, one).column("doc_id").to_numpy() for one in self.found]
        table = pa.table(
            [pa.array(np.unique(np.concatenate([np.empty(0, np.uint64), *ids])))], schema=DOCUMENTS
        )
        return write_table(self.folder, self.path, self.name, table, 1 << 16)


def comparable_rounds(first: PublishedCorpus, second: PublishedCorpus) -> list[tuple[str, str]]:
    """Return the folders of band keys of two corpora that were made alike: pairs of names."""
    return [
        (own, their)
        for own, keys in first.manifest.bands.items()
        for their, others in second.manifest.bands.items()
        if keys.parameters == others.parameters
    ]


def incomparable(inputs: Inputs) -> list[tuple[str, str]]:
    """Return the pairs of corpora of which nobody can tell whether they share near-duplicates."""
    return [(a.label, b.label) for a, b in combinations(inputs.corpora, 2) if not comparable_rounds(a, b)]


def recall_at(inputs: Inputs, likeness: float) -> float | None:
    """Return which part of near-duplicates of a likeness shares a bucket of the corpora's bands, at the least.

    None where there is nothing to compare, or the rounds are not by bands of signatures.
    """
    recalls = (
        recall_of(a, own, likeness)
        for a, b in combinations(inputs.corpora, 2)
        for own, _ in comparable_rounds(a, b)
    )
    return min((one for one in recalls if one is not None), default=None)


def recall_within(inputs: Inputs, likeness: float) -> dict[str, float | None]:
    """Return which part of a corpus's own near-duplicates of a likeness shares a bucket in one of its rounds.

    By the label of the corpus; None where it publishes no band keys of signatures.
    """
    recalls = {
        corpus.label: [recall_of(corpus, own, likeness) for own in corpus.manifest.bands]
        for corpus in inputs.corpora
    }
    return {
        label: max((one for one in of_rounds if one is not None), default=None)
        for label, of_rounds in recalls.items()
    }


def recall_of(corpus: PublishedCorpus, keys: str, likeness: float) -> float | None:
    """Return which part of near-duplicates shares a bucket of a round; None where it has no bands of signatures."""
    parameters = corpus.manifest.bands[keys].parameters
    bands, values = (int(parameters.get(name) or 0) for name in ("bands", "values"))
    return 1 - (1 - likeness ** (values // bands)) ** bands if bands and values else None


def neighbour_jobs(inputs: Inputs, folder: Any, held_out: int) -> dict[int, list[NeighboursOfFile]]:
    """Return the jobs that find such documents, by the number of their corpus."""
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
                others=tuple((o, tuple(f)) for o, f in of_bands[band]),
                held_out=held_out,
                salt=salt,
            )
            for own, of_bands in rounds.items()
            for band, files in files_by_band(corpus.artifacts(f"{own}/")).items()
            if band in of_bands
            for file in files
        ]
    return jobs
