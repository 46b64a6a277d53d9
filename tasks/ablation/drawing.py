"""Draw the documents of an experiment by the hashes of their texts: the same in any order of files and rows.

Of each part, the documents with the smallest hashes are drawn for trainings, until they have enough tokens for
different documents in each run. Of each source, the documents with the largest hashes are candidates to hold out.
Two variants that publish the same document draw it with the same hash. Only drawn documents are in memory, as token
ids.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import DRAWN, Encoder
from zyda_flows.tasks.ablation.vector_cells import VectorCells
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.mixing.mixture import Part
from zyda_flows.tasks.quality.keep import columns_of, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.sources.columns import as_one_array

NO_PART = -1


@dataclass
class Reservoir:
    """The documents with the smallest ranks, until they have `need` tokens; or `need` documents.

    is_largest: whether the largest hashes have the smallest ranks.
    """

    need: int
    by_tokens: bool = True
    is_largest: bool = False
    limit: int = np.iinfo(np.uint64).max  # the largest rank that can still be drawn
    tables: list[pa.Table] = field(default_factory=list)
    size: int = 0

    def may_draw(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which documents can be among the drawn documents."""
        return (self.ranks(hashes) <= self.limit) if self.need else np.zeros(len(hashes), np.bool_)

    def ranks(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return ~hashes if self.is_largest else hashes

    def add(self, documents: pa.Table) -> None:
        self.tables.append(documents)
        self.size += pc.sum(documents.column("n_tokens")).as_py() or 0 if self.by_tokens else len(documents)
        if self.size > 2 * self.need:
            self.drawn()

    def drawn(self) -> pa.Table:
        """Return the drawn documents by rank, and forget all others."""
        table = pa.concat_tables([DRAWN.empty_table(), *self.tables])
        table = table.sort_by([("hash", "descending" if self.is_largest else "ascending")])
        taken = prefix(table, self.need) if self.by_tokens else table[: self.need]
        if len(taken) < len(table) and len(taken):
            self.limit = int(self.ranks(taken.column("hash").to_numpy()[-1:])[0])
        taken = taken.combine_chunks()
        self.tables = [taken]
        self.size = int(taken.column("n_tokens").to_numpy().sum()) if self.by_tokens else len(taken)
        return taken


def prefix(documents: pa.Table, tokens: int) -> pa.Table:
    """Return the first documents that have at least a number of tokens together; all if they have fewer."""
    ends = np.cumsum(documents.column("n_tokens").to_numpy(), dtype=np.int64)
    return documents[: int(np.searchsorted(ends, tokens)) + 1] if tokens > 0 else documents[:0]


def disjoint_samples(documents: pa.Table, tokens: int, most: int) -> Iterator[pa.Table]:
    """Divide documents into at most `most` samples with at least `tokens` each; none if they have too few.

    A document is in the sample of its hash modulo the number of samples, so that variants with the same number of
    samples have it in the same sample.
    """
    hashes = documents.column("hash").to_numpy()
    counts = documents.column("n_tokens").to_numpy().astype(np.float64)
    for number in range(most, 0, -1):
        places = (hashes % np.uint64(number)).astype(np.int64)
        if np.bincount(places, counts, minlength=number).min() >= tokens:
            yield from (documents.filter(pa.array(places == place)) for place in range(number))
            return


@dataclass(frozen=True)
class Drawn:
    """Drawn documents by the number of their part, and candidates to hold out by source: DRAWN, sorted by rank.

    kept: documents of the held-out set of earlier runs, by source.
    """

    parts: Mapping[int, pa.Table]
    candidates: Mapping[str, pa.Table]
    kept: Mapping[str, pa.Table]


def draw(
    corpora: Sequence[PublishedCorpus],
    parts: Sequence[Part],
    needs: Sequence[int],
    encoder: Encoder,
    held_out: int,
    kept: Iterable[int] = (),
    judge: str = "",
) -> Drawn:
    """Draw documents of published corpora. All texts are read once.

    Args:
        parts: a document belongs to the first part that it matches.
        needs: the tokens that are needed of each part.
        held_out: candidates to hold out, of each source.
        kept: hashes of the held-out set of earlier runs.
        judge: whose published vectors have the cells of documents; MinHash values if it is "".
    """
    drawn = [Reservoir(need) for need in needs]
    candidates, kept_documents = dict[str, Reservoir](), dict[str, list[pa.Table]]()
    wanted = np.array(sorted(kept), np.uint64)
    for corpus, source in sources_of(corpora):
        numbers = parts_of(corpus, source, parts)
        if not any(needs[number] for number in numbers):
            continue
        candidate = candidates.setdefault(source, Reservoir(held_out, by_tokens=False, is_largest=True))
        vectors = VectorCells(corpus, judge, source) if judge else None
        for table in corpus.row_groups(source, ["doc_id", "text", *columns_in(numbers, parts)]):
            cells = vectors.of(table.column("doc_id").to_numpy()) if vectors is not None else None
            texts = as_one_array(table.column("text").cast(pa.large_string()))
            hashes, has_text = text_hashes(texts)
            part = part_of_rows(table, numbers, parts, corpus.url)
            may = np.zeros(len(texts), np.bool_)
            for number in numbers:
                may |= (part == number) & drawn[number].may_draw(hashes)
            is_kept = np.isin(hashes, wanted)
            may = (may | candidate.may_draw(hashes) | is_kept) & has_text & (part != NO_PART)
            if not may.any():
                continue
            documents = encoder.documents(
                texts.filter(pa.array(may)), hashes[may], None if cells is None else cells[may]
            )
            for number in numbers:
                drawn[number].add(
                    documents.filter(pa.array((part[may] == number) & drawn[number].may_draw(hashes[may])))
                )
            candidate.add(documents.filter(pa.array(candidate.may_draw(hashes[may]))))
            kept_documents.setdefault(source, []).append(documents.filter(pa.array(is_kept[may])))
    return Drawn(
        {number: reservoir.drawn() for number, reservoir in enumerate(drawn)},
        {source: reservoir.drawn() for source, reservoir in candidates.items()},
        {source: pa.concat_tables(tables) for source, tables in kept_documents.items()},
    )


def available_tokens(corpora: Sequence[PublishedCorpus], parts: Sequence[Part]) -> list[int]:
    """Return the published tokens of each part, counted by the tokenizer of its corpus."""
    totals = [0] * len(parts)
    for corpus, source in sources_of(corpora):
        if numbers := parts_of(corpus, source, parts):
            for table in corpus.row_groups(source, ["n_tokens", *columns_in(numbers, parts)]):
                part = part_of_rows(table, numbers, parts, corpus.url)
                counts = table.column("n_tokens").to_numpy()
                for number in numbers:
                    totals[number] += int(counts[part == number].sum())
    return totals


def sources_of(corpora: Sequence[PublishedCorpus]) -> Iterable[tuple[PublishedCorpus, str]]:
    return ((corpus, source) for corpus in corpora for source in corpus.manifest.ledger.sources)


def parts_of(corpus: PublishedCorpus, source: str, parts: Sequence[Part]) -> list[int]:
    """Return the numbers of the parts that can contain documents of a source."""
    return [
        number
        for number, part in enumerate(parts)
        if (not part.corpora or corpus.label in part.corpora) and (not part.sources or source in part.sources)
    ]


def columns_in(numbers: Iterable[int], parts: Sequence[Part]) -> list[str]:
    """Return the columns that the conditions of parts read. Raises BadInput for a condition that is not valid."""
    names = set[str]()
    for number in numbers:
        if where := parts[number].where:
            try:
                names |= {*columns_of(where)}
            except BadKeep as error:
                raise BadInput(f"where: {error}") from error
    return sorted(names)


def part_of_rows(
    table: pa.Table, numbers: Sequence[int], parts: Sequence[Part], url: str
) -> NDArray[np.int64]:
    """Return the number of the first part that each row matches, or NO_PART. Raises BadInput."""
    part = np.full(len(table), NO_PART)
    for number in reversed(numbers):
        where = parts[number].where
        if where and (missing := {*columns_of(where)} - {*table.column_names}):
            raise BadInput(f"{url}: where: no column {min(missing)} is published")
        try:
            part[slice(None) if where is None else keep_mask(where, table)] = number
        except BadKeep as error:
            raise BadInput(f"{url}: where: {error}") from error
    return part
