"""Groups of neighbouring shards: a task holds the vectors of a group's documents in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.contested import first_and_last
from zyda_flows.tasks.dedup.reference.corpora import texts_of
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import MAX_SOURCES, SOURCE_SHIFT, Ids, sources_of
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import tables_of

GROUP_DOCUMENTS, GROUP_BYTES = 1 << 18, 256 << 20  # ingested documents, and their text


@dataclass(frozen=True)
class TextShard:
    """A file of documents: of this corpus, or of another corpus with other numbers of its sources.

    folder: where the file is. name: with numbers that ascend with the documents. other: the other corpus.
    renumbered: the numbers of its sources there and here.
    """

    folder: Annotated[Folder, NotInKey("where it is")]
    artifact: Artifact
    name: str
    other: Annotated[PublishedCorpus | None, NotInKey("only the file is read")] = None
    renumbered: tuple[tuple[int, int], ...] = ()

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield `doc_id` and other columns of the documents, with their ids here, some MiB at a time."""
        with self.other.reading() if self.other else nullcontext():
            for table in tables_of(self.folder, self.artifact, ["doc_id", *columns]):
                ids = self.ids_here(table.column("doc_id").to_numpy())
                yield table.set_column(0, "doc_id", pa.array(ids)) if self.other else table

    def first_and_last(self) -> tuple[int, int]:
        """Return the smallest and the largest id."""
        with self.other.reading() if self.other else nullcontext():
            ends = np.array(first_and_last(self.folder, self.artifact), np.uint64)
        first, last = self.ids_here(ends).tolist()
        return first, last

    def ids_here(self, ids: Ids) -> Ids:
        """Return the ids of documents with the numbers that their sources have here: (n,) to (n,)."""
        if not self.renumbered:
            return ids
        numbers = np.arange(MAX_SOURCES, dtype=np.uint64)
        for there, here in self.renumbered:
            numbers[there] = here
        return numbers[sources_of(ids)] << np.uint64(SOURCE_SHIFT) | ids & np.uint64((1 << SOURCE_SHIFT) - 1)


@dataclass(frozen=True)
class ShardOfSource:
    """A shard with documents. source: of this corpus, None for another corpus."""

    source: str | None
    history: ShardHistory
    texts: TextShard


@dataclass(frozen=True)
class ShardGroups:
    """Groups of neighbouring shards. starts: (g,), the first document of each group, ascending.

    own: the number of groups of this corpus; the groups of other corpora follow. first_reference: the smallest id
    that a document of another corpus may have, None without other corpora.
    """

    members: tuple[tuple[ShardOfSource, ...], ...]
    starts: Ids
    own: int
    first_reference: int | None = None

    def __len__(self) -> int:
        return len(self.members)

    @property
    def shards(self) -> list[ShardOfSource]:
        return [shard for group in self.members for shard in group]


def group_of(starts: Ids, doc_ids: Ids) -> NDArray[np.uint32]:
    """Return the group of each document: (n,) to (n,)."""
    return (np.searchsorted(starts, doc_ids, side="right") - 1).astype(np.uint32)


def groups_of(
    dedup_round: Round,
    trails: Sequence[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus] = (),
) -> ShardGroups:
    """Divide the shards of the sources that take part, in the order of their documents, and of other corpora."""
    numbers: Mapping[str, int] = {source.source: source.number for source in sources}
    taking_part = [trail for trail in trails if not dedup_round.recipe.source(trail.source).exempt]
    in_order = sorted(taking_part, key=lambda trail: numbers[trail.source])
    own = in_groups([shard for trail in in_order for shard in shards_of(dedup_round.folder, trail)])
    renumbered = numbers_here(references, max(numbers.values(), default=-1))
    others = in_groups(
        [
            shard
            for number, other in reversed([*enumerate(references)])
            for shard in shards_of_corpus(other, renumbered[number])
        ]
    )
    firsts = [group[0].texts.first_and_last()[0] for group in (*own, *others)]
    lowest = min((here for pairs in renumbered for _, here in pairs), default=None)
    first_reference = None if lowest is None else lowest << SOURCE_SHIFT
    return ShardGroups((*own, *others), np.array(firsts, np.uint64), len(own), first_reference)


def shards_of(folder: Folder, trail: Trail) -> Iterator[ShardOfSource]:
    """Yield the shards of a source, by their documents."""
    for history in sorted(load_histories(folder, trail), key=lambda history: numbers_in_name(history.shard)):
        yield ShardOfSource(trail.source, history, TextShard(folder, history.shard, history.shard.name))


def shards_of_corpus(other: PublishedCorpus, renumbered: tuple[tuple[int, int], ...]) -> list[ShardOfSource]:
    """Return the files of the documents of another corpus, by their ids here."""
    files = [TextShard(other.folder, file, "", other, renumbered) for file in texts_of(other) if file.rows]
    files.sort(key=TextShard.first_and_last)
    return [
        ShardOfSource(
            None,
            ShardHistory(file.artifact),
            replace(file, name=f"{renumbered[0][1]:04d}-{number:08d}"),
        )
        for number, file in enumerate(files)
    ]


def numbers_here(references: Sequence[PublishedCorpus], highest: int) -> list[tuple[tuple[int, int], ...]]:
    """Return the numbers of the sources of other corpora, there and here: from the largest downwards.

    highest: the largest number of a source of this corpus. Raises Denied if there are too many sources.
    """
    free, renumbered = MAX_SOURCES - 1, list[tuple[tuple[int, int], ...]]()
    for other in references:
        there = sorted(other.expect_ids().source_names, reverse=True)
        renumbered.append(tuple((number, free - place) for place, number in enumerate(there)))
        free -= len(there)
        if free <= highest:
            raise Denied(
                f"{other.url}: this corpus and those of `against` have more than {MAX_SOURCES} sources"
            )
    return renumbered


def in_groups(shards: Sequence[ShardOfSource]) -> list[tuple[ShardOfSource, ...]]:
    """Group neighbouring shards with documents up to GROUP_DOCUMENTS and GROUP_BYTES, at least one."""
    members, documents, size = list[list[ShardOfSource]](), 0, 0
    for shard in shards:
        file = shard.texts.artifact
        if not file.rows:
            continue
        documents, size = documents + file.rows, size + file.counts.bytes
        if not members or documents > GROUP_DOCUMENTS or size > GROUP_BYTES:
            members.append([])
            documents, size = file.rows, file.counts.bytes
        members[-1].append(shard)
    return [tuple(group) for group in members]
