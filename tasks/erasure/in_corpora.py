"""Find documents of a corpus in other corpora: copies, corpora of the same files, and corpora made from it."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.published import TableFile
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.dependent_kinds import Dependent, Subject
from zyda_flows.tasks.erasure.holdings import INGESTED, identity, ids_below
from zyda_flows.tasks.erasure.in_shards import Spread
from zyda_flows.tasks.ids import Ids, first_id, split

OWN_IDS = "source_doc_id"  # the published name of a column `doc_id` of a source


def in_corpus(subject: Subject, corpus: PublishedCorpus, spread: Spread) -> Iterator[Dependent | Subject]:
    """Yield a corpus as a dependent if it has documents of the subject.

    If the corpus was made from the subject, it is also yielded as a subject. spread: calls a function on every
    item.
    """
    yield from in_round_against(subject, corpus, spread)
    yield from in_copy(subject, corpus, spread)
    made = ids_of_rows(subject, corpus)
    count, note = len(published_of(corpus, made)), ""
    is_other = corpus.manifest.corpus != subject.corpus.manifest.corpus
    if is_other and len(others := ids_by_column(subject, corpus, made, spread)):
        made, count = np.union1d(made, others), count + len(others)
        note = f"{len(others):,} of them by their {OWN_IDS} alone, perhaps from an earlier version of it"
    if len(made):
        yield Dependent(kind="made from", url=corpus.url, of=subject.corpus.label, documents=count, note=note)
        yield Subject(corpus, made)


def in_round_against(subject: Subject, corpus: PublishedCorpus, spread: Spread) -> Iterator[Dependent]:
    """Yield a corpus that was deduplicated against the subject and removed documents for some of its documents."""
    ours, others = subject.corpus, corpus.manifest.against
    names = {other.name for other in others if other.sha256 == ours.digest}
    earlier = {other.name for other in others if other.name.partition("@")[0] == ours.label}
    note = "" if names else "against an earlier version of it"
    if not (names or earlier):
        return
    matches = partial(documents_matched, corpus, sorted(names or earlier), subject.ids)
    if matched := sum(spread(matches, corpus.files("removed/"))):
        yield Dependent(kind="against", url=corpus.url, of=ours.label, documents=matched, note=note)


def documents_matched(corpus: PublishedCorpus, names: Sequence[str], ids: Ids, file: TableFile) -> int:
    """Count the documents in a file of `removed/` that a corpus removed for documents of another corpus.

    names: of the other corpus in `removed/`.
    """
    table = corpus.read(file, ["matched_corpus", "matched_doc_id"])
    if not table.num_columns:
        return 0
    is_other = pc.is_in(table.column("matched_corpus"), pa.array(names))
    matched = pc.is_in(table.column("matched_doc_id"), pa.array(ids))
    return pc.sum(pc.and_(is_other, matched)).as_py() or 0


def in_copy(subject: Subject, corpus: PublishedCorpus, spread: Spread) -> Iterator[Dependent]:
    """Yield a corpus of the same files with some of the documents, published or in its work folder."""
    ids = ids_by_files(subject, corpus)
    if not len(ids):
        return
    is_copy = corpus.label == subject.corpus.label
    published = published_of(corpus, ids)
    ingested = np.setdiff1d(ids_below(corpus.root, INGESTED, ids, spread), published)
    notes = ["another version of it"] if is_copy and corpus.digest != subject.corpus.digest else []
    notes += [f"{len(ingested):,} of them in its work folder alone"] if len(ingested) else []
    if count := len(published) + len(ingested):
        kind = "copy" if is_copy else "same sources"
        yield Dependent(
            kind=kind, url=corpus.url, of=subject.corpus.label, documents=count, note="; ".join(notes)
        )


def ids_by_files(subject: Subject, corpus: PublishedCorpus) -> Ids:
    """Return the ids in `corpus` of the subject's documents, by the files of their sources: (n,) uint64, ascending.

    Files of a copy are equal if source and name are equal; files of other corpora if name, version and size are.
    """
    is_copy = corpus.label == subject.corpus.label
    ours, theirs = (files_by_number(each, by_source=is_copy) for each in (subject.corpus, corpus))
    numbers = {named: number for number, named in theirs.items()}
    ids = list[int]()
    for doc_id in subject.ids.tolist():
        source, file, row = split(doc_id)
        if (number := numbers.get(ours.get((source, file), ()))) is not None:
            ids.append(first_id(*number) + row)
    return np.array(sorted(ids), np.uint64)


def files_by_number(corpus: PublishedCorpus, *, by_source: bool) -> dict[tuple[int, int], tuple[object, ...]]:
    """Return the identity of each source file of a corpus, by its numbers."""
    sources = corpus.source_names
    return {
        (row["source_number"], row["file_number"]): (
            (sources[row["source_number"]], row["file"])
            if by_source
            else identity(row["file"], row["version"], row["size"])
        )
        for row in corpus.source_files().to_pylist()
    }


def ids_of_rows(subject: Subject, corpus: PublishedCorpus) -> Ids:
    """Return the documents of a corpus that were read from rows of the subject: (n,) uint64, ascending.

    Its source files are matched by their names, which end with digits of a hash, and by their sizes.
    """
    parts = [np.empty(0, np.uint64)]
    sources = subject.corpus.source_names.values()
    files = [file for source in sources for file in subject.corpus.files(f"{source}/")]
    published = {(file.path.rpartition("/")[2], file.size): file for file in files}
    for row in corpus.source_files().to_pylist():
        if file := published.get((row["file"].rpartition("/")[2], row["size"])):
            rows = np.flatnonzero(np.isin(ids_in(subject.corpus, file), subject.ids)).astype(np.uint64)
            parts.append(rows + np.uint64(first_id(row["source_number"], row["file_number"])))
    return np.sort(np.concatenate(parts))


def ids_by_column(subject: Subject, corpus: PublishedCorpus, known: Ids, spread: Spread) -> Ids:
    """Return the documents of a corpus with an id of the subject in OWN_IDS, without `known`: (n,) uint64."""
    files = [file for source in corpus.source_names.values() for file in corpus.files(f"{source}/")]
    parts = spread(partial(ids_with_own_ids, corpus, subject.ids), files)
    return np.setdiff1d(np.concatenate([known[:0], *parts]), known)


def ids_with_own_ids(corpus: PublishedCorpus, ids: Ids, file: TableFile) -> Ids:
    """Return the documents of a file with an id of `ids` in OWN_IDS: (n,) uint64."""
    with corpus.open(file) as parquet:
        if OWN_IDS not in parquet.schema_arrow.names:
            return ids[:0]
        table = parquet.read(["doc_id", OWN_IDS])
    if table.column(OWN_IDS).type != pa.uint64():
        return ids[:0]
    return table.filter(pc.is_in(table.column(OWN_IDS), pa.array(ids))).column("doc_id").to_numpy()


def published_of(corpus: PublishedCorpus, ids: Ids) -> Ids:
    """Return the documents of `ids` that a corpus publishes: (n,) uint64."""
    corpus.expect_ids()
    parts = [np.empty(0, np.uint64)]
    for file, _ in corpus.files_with(ids.tolist()):
        published = ids_in(corpus, file)
        parts.append(published[np.isin(published, ids)])
    return np.concatenate(parts)


def ids_in(corpus: PublishedCorpus, file: TableFile) -> Ids:
    """Read the ids of a file's documents: (n,) uint64."""
    return corpus.read(file, ["doc_id"]).column("doc_id").to_numpy()
