"""Groups of neighbouring shards: a task holds the vectors, or the texts, of a group's documents in memory."""

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
from zyda_flows.tasks.storage.tables import (
    WHOLE,
    Section,
    footer_of,
    groups_of_section,
    sections_of,
    tables_of,
)

GROUP_BYTES = 256 << 20  # of a group's vectors and pairs, or of its texts in pairs and their vectors
PAIR_BYTES = 256  # of the pairs of a document: 16 of 16 bytes
SECTION_BYTES = 256 << 20  # of text in a section of a published file


@dataclass(frozen=True)
class TextShard:
    """A file of documents of this corpus, or a section of one of another corpus, whose sources have other numbers.

    folder: where the file is. name: with numbers that ascend with the documents. other: the other corpus.
    renumbered: the numbers of its sources there and here.
    """

    folder: Annotated[Folder, NotInKey("where it is")]
    artifact: Artifact
    name: str
    other: Annotated[PublishedCorpus | None, NotInKey("only the file is read")] = None
    renumbered: tuple[tuple[int, int], ...] = ()
    section: Section = WHOLE

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield `doc_id` and other columns of the documents, with their ids here, some MiB at a time."""
        with self.other.reading() if self.other else nullcontext():
            for table in tables_of(self.folder, self.artifact, ["doc_id", *columns], self.section):
                ids = self.ids_here(table.column("doc_id").to_numpy())
                yield table.set_column(0, "doc_id", pa.array(ids)) if self.other else table

    def first_and_last(self) -> tuple[int, int]:
        """Return the smallest and the largest id."""
        with self.other.reading() if self.other else nullcontext():
            ends = np.array(first_and_last(self.folder, self.artifact, self.section), np.uint64)
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
    """A shard with documents. source: of this corpus, None for another corpus. rows: documents."""

    source: str | None
    history: ShardHistory
    texts: TextShard
    rows: int


@dataclass(frozen=True)
class ComparedShards:
    """The shards whose documents are compared, by their documents: of this corpus, then of other corpora.

    own: the number of shards of this corpus. first_reference: the smallest id that a document of another corpus may
    have, None without other corpora.
    """

    shards: tuple[ShardOfSource, ...]
    own: int
    first_reference: int | None = None

    def in_groups(self, sizes: Sequence[int]) -> "ShardGroups":
        """Group neighbouring shards of the same side up to GROUP_BYTES, at least one. sizes: of each shard."""
        members, size = list[list[ShardOfSource]](), 0
        for number, (shard, own_size) in enumerate(zip(self.shards, sizes, strict=True)):
            size += own_size
            if not members or size > GROUP_BYTES or number == self.own:
                members.append([])
                size = own_size
            members[-1].append(shard)
        firsts = [group[0].texts.first_and_last()[0] for group in members]
        return ShardGroups(tuple(map(tuple, members)), np.array(firsts, np.uint64))

    def by_vectors(self, dims: int) -> "ShardGroups":
        """Group the shards by their vectors of `dims` bytes, and their pairs."""
        return self.in_groups([shard.rows * (dims + PAIR_BYTES) for shard in self.shards])


@dataclass(frozen=True)
class ShardGroups:
    """Groups of neighbouring shards. starts: (g,), the first document of each group, ascending."""

    members: tuple[tuple[ShardOfSource, ...], ...]
    starts: Ids

    def __len__(self) -> int:
        return len(self.members)


def group_of(starts: Ids, doc_ids: Ids) -> NDArray[np.uint32]:
    """Return the group of each document: (n,) to (n,)."""
    return (np.searchsorted(starts, doc_ids, side="right") - 1).astype(np.uint32)


def compared_shards(
    dedup_round: Round,
    trails: Sequence[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus] = (),
) -> ComparedShards:
    """Return the shards of the sources that take part, in the order of their documents, and of other corpora."""
    numbers: Mapping[str, int] = {source.source: source.number for source in sources}
    taking_part = [trail for trail in trails if not dedup_round.recipe.source(trail.source).exempt]
    in_order = sorted(taking_part, key=lambda trail: numbers[trail.source])
    own = [shard for trail in in_order for shard in shards_of(dedup_round.folder, trail)]
    renumbered = numbers_here(references, max(numbers.values(), default=-1))
    others = [
        shard
        for number, other in reversed([*enumerate(references)])
        for shard in shards_of_corpus(other, renumbered[number])
    ]
    lowest = min((here for pairs in renumbered for _, here in pairs), default=None)
    first_reference = None if lowest is None else lowest << SOURCE_SHIFT
    return ComparedShards((*own, *others), len(own), first_reference)


def shards_of(folder: Folder, trail: Trail) -> Iterator[ShardOfSource]:
    """Yield the shards of a source with documents, by their documents."""
    for history in sorted(load_histories(folder, trail), key=lambda history: numbers_in_name(history.shard)):
        if history.shard.rows:
            texts = TextShard(folder, history.shard, history.shard.name)
            yield ShardOfSource(trail.source, history, texts, history.shard.rows)


def shards_of_corpus(other: PublishedCorpus, renumbered: tuple[tuple[int, int], ...]) -> list[ShardOfSource]:
    """Return the sections of the files of another corpus, by their ids here."""
    found = list[tuple[TextShard, int]]()
    for file in texts_of(other):
        with other.reading():
            footer = footer_of(other.folder, file)
        for section in sections_of(file, SECTION_BYTES):
            if groups := groups_of_section(footer, section):
                shard = TextShard(other.folder, file, "", other, renumbered, section)
                found.append((shard, sum(footer.row_group(number).num_rows for number in groups)))
    found.sort(key=lambda each: each[0].first_and_last())
    return [
        ShardOfSource(
            None,
            ShardHistory(shard.artifact),
            replace(shard, name=f"{renumbered[0][1]:04d}-{number:08d}"),
            rows,
        )
        for number, (shard, rows) in enumerate(found)
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
