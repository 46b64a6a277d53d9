"""Dependents: what else has documents that are to be removed, in folders that are searched.

A corpus of the same name is a copy or another version of it. One that was built `against` it dropped documents for
ours. One whose sources are files that ours has published was made from it, and what was made of that is looked for
in turn. A mixture has documents at positions, and their token ids in its work folder. Exports and copies of sources
(`zyda fetch`) are known by their tables.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from tasks.accounts.published import MANIFEST, File
from tasks.accounts.published_files import PublishedFiles
from tasks.dedup.reference.corpora import ReferenceCorpus, corpus_at
from tasks.erasure.holdings import (
    INGESTED,
    copied_files,
    exported_ids,
    identity,
    ids_below,
    ids_in_mixture_work,
    is_export_of,
    root_of,
    work_places,
)
from tasks.errors import Denied, ZydaError, first_line
from tasks.ids import BITS, first_id, split
from tasks.mixing.leftovers import unfinished_versions
from tasks.mixing.mixing import MIXTURE
from tasks.mixing.tracing import Trace, documents_in
from tasks.publish.export_places import TABLE
from tasks.sources.copies import FETCHED
from tasks.storage.folder import Folder
from tasks.storage.records import Record
from tasks.storage.tables import open_table

OWN_IDS = "source_doc_id"  # what `doc_id` is called that a source has
MOST_NAMED = 4  # files, in a note
MOST_POSITIONS = 1000  # of a mixture that are listed
MIX_AGAIN = "when its corpora have forgotten them: zyda mix MIXTURE --forget"
TODO = {  # what the user does about each kind
    "copy": "delete it, or ask it to forget the same with its own recipe: zyda forget",
    "same sources": "ask it to forget the same with its own recipe: zyda forget",
    "against": "ask it to forget the same: it would publish the documents that it has dropped for these",
    "made from": "ask it to forget the same, then build it again: zyda forget with its own recipe",
    "mixture": MIX_AGAIN,
    "token ids": MIX_AGAIN,
    "unfinished mix": f"zyda clean MIXTURE, or {MIX_AGAIN}",
    "export": "write it again to the same folder, which removes its old files: zyda export; or delete it",
    "copied sources": "delete these copies, or remove the rows from the source, then zyda fetch",
}

Ids = NDArray[np.uint64]


class Position(Record):
    """Where a piece of a document is in a file of a mixture: its first token and how many; see `zyda trace`."""

    output: str
    start: int
    tokens: int
    doc_id: int


class Dependent(Record):
    """Something that has documents that are to be removed, or that dropped others for them.

    kind: of TODO. of: the corpus whose documents they are. documents: how many. positions: of a mixture, the first
    MOST_POSITIONS of `pieces`. note: what else is known of it. todo: what the user does about it.
    """

    kind: str
    url: str
    of: str
    documents: int
    pieces: int = 0
    positions: tuple[Position, ...] = ()
    note: str = ""
    todo: str = ""


@dataclass(frozen=True)
class Subject:
    """A corpus with documents that are to be removed: ids, ascending, (n,)."""

    corpus: ReferenceCorpus
    ids: Ids


@dataclass
class Search:
    """Folders that were searched, and what was found there. not_searched: what could not be read, and why."""

    searched: list[str] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)
    corpora: list[ReferenceCorpus] = field(default_factory=list)
    mixtures: list[Trace] = field(default_factory=list)
    works: list[Folder] = field(default_factory=list)  # folders of mixtures, finished or not
    exports: list[Folder] = field(default_factory=list)
    copies: list[Folder] = field(default_factory=list)
    dependents: list[Dependent] = field(default_factory=list)

    def look_into(self, url: str) -> None:
        """Find the corpora, mixtures, exports and copies of sources below a folder."""
        try:
            folder = Folder(url)
            paths = folder.files("")
            if not paths:
                raise Denied("there is nothing")
        except (ZydaError, ValueError, ImportError) as error:
            self.not_searched.append(f"{url}: {first_line(error)}")
            return
        self.searched.append(url)
        for path in paths:
            place, _, name = path.rpartition("/")
            at = f"{folder.url}/{place}".rstrip("/")
            try:
                self.keep_place(name, at)
            except (ZydaError, ValidationError) as error:
                self.not_searched.append(f"{at}/{name}: {first_line(error)}")
        mixtures, corpora = work_places(paths)
        self.works += [Folder(f"{folder.url}/{place}".rstrip("/")) for place in sorted(mixtures)]
        for place in sorted(corpora):
            if f"{place}/published/{MANIFEST}".lstrip("/") not in paths:
                at = f"{folder.url}/{place}".rstrip("/")
                self.not_searched.append(f"{at}/{INGESTED}: texts of a corpus that is not published")

    def keep_place(self, name: str, at: str) -> None:
        """Keep what a file of this name says there is in its folder."""
        if name == MANIFEST:
            self.corpora.append(corpus_at(at))
        elif name == MIXTURE:
            trace = Trace.at(at)
            if trace.folder not in [one.folder for one in self.mixtures]:
                self.mixtures.append(trace)
        elif name == TABLE:
            self.exports.append(Folder(at))
        elif name == FETCHED:
            self.copies.append(Folder(at))

    def follow(self, subject: Subject) -> None:
        """Find what has documents of a corpus, then what has those of corpora that were made from it."""
        todo, known = [subject], {subject.corpus.url}
        while todo:
            one = todo.pop(0)
            for corpus in self.corpora:
                if corpus.url not in known:
                    todo += self.kept(corpus.url, self.in_corpus(one, corpus))
            known |= {of.corpus.url for of in todo}
            for mixture in self.mixtures:
                self.kept(mixture.folder.url, self.in_mixture(one, mixture))
            for found_in, folders in (
                (in_work, self.works), (in_export, self.exports), (in_copies, self.copies),
            ):  # fmt: skip
                for folder in folders:
                    self.kept(folder.url, found_in(one, folder))

    def kept(self, url: str, found: Iterable[Dependent | Subject]) -> list[Subject]:
        """Keep what was found at a URL, and return the corpora to follow in turn."""
        subjects = list[Subject]()
        try:
            for one in found:
                if isinstance(one, Subject):
                    subjects.append(one)
                else:
                    self.dependents.append(one.model_copy(update={"todo": TODO[one.kind]}))
        except (ZydaError, pa.ArrowException, OSError, KeyError, ValueError) as error:
            self.not_searched.append(f"{url}: {first_line(error)}")
        return subjects

    def in_corpus(self, subject: Subject, corpus: ReferenceCorpus) -> Iterator[Dependent | Subject]:
        ours, theirs = subject.corpus, corpus.manifest
        names = {other.name for other in theirs.against if other.sha256 == ours.digest}
        earlier = {other.name for other in theirs.against if other.name.partition("@")[0] == ours.label}
        if names or earlier:
            note = "" if names else "against an earlier version of it"
            if matched := documents_matched(corpus, names or earlier, subject.ids):
                yield Dependent(kind="against", url=corpus.url, of=ours.label, documents=matched, note=note)
        yield from in_copy(subject, corpus)
        made = ids_of_rows(subject, corpus)
        count, note = len(published_of(corpus, made)), ""
        if theirs.corpus != ours.manifest.corpus and len(others := ids_by_column(subject, corpus, made)):
            made, count = np.union1d(made, others), count + len(others)
            note = f"{len(others):,} of them by their {OWN_IDS} alone: was it made of an earlier version?"
        if len(made):
            yield Dependent(kind="made from", url=corpus.url, of=ours.label, documents=count, note=note)
            yield Subject(corpus, made)

    def in_mixture(self, subject: Subject, trace: Trace) -> Iterator[Dependent]:
        corpora = trace.mixed.corpora
        is_it = [
            one.digest == subject.corpus.digest
            or one.url == subject.corpus.url
            or one.label.partition("@")[0] == subject.corpus.label
            for one in corpora
        ]
        if not any(is_it):
            return
        earlier = all(one.digest != subject.corpus.digest for one in corpora)
        note = "of another version of the corpus" if earlier else ""
        pieces = list(pieces_of(trace, np.flatnonzero(is_it), subject.ids)) if trace.mixed.outputs else []
        labels = [one.label for one, is_one in zip(corpora, is_it, strict=True) if is_one]
        if len(ids := documents_in(trace, labels, subject.ids)):
            yield Dependent(
                kind="mixture", url=trace.folder.url, of=subject.corpus.label, pieces=len(pieces), note=note,
                documents=len(ids), positions=tuple(pieces[:MOST_POSITIONS]),
            )  # fmt: skip


def in_work(subject: Subject, root: Folder) -> Iterator[Dependent]:
    """Yield what a mixture's work folder has of the documents, and mixes that did not end."""
    label = subject.corpus.label
    if count := len(ids_in_mixture_work(root, label, subject.ids)):
        yield Dependent(kind="token ids", url=f"{root.url}/work", of=label, documents=count)
    for place in unfinished_versions(root.files("")):
        note = "which documents it has is not known"
        yield Dependent(kind="unfinished mix", url=f"{root.url}/{place}", of=label, documents=0, note=note)


def in_export(subject: Subject, folder: Folder) -> Iterator[Dependent]:
    """Yield an export of a corpus that has some of the documents, or of which nobody can say it."""
    corpus = subject.corpus
    if is_export_of(folder, corpus):
        count, unknown = exported_ids(folder, corpus, subject.ids)
        note = f"no doc_ids of {', '.join(unknown)}, so it may have more" if unknown else ""
        if count or unknown:
            yield Dependent(kind="export", url=folder.url, of=corpus.label, documents=count, note=note)


def in_copies(subject: Subject, folder: Folder) -> Iterator[Dependent]:
    """Yield copies of source files that have some of the documents."""
    count, files = copied_files(folder, subject.corpus, subject.ids)
    if count:
        named = ", ".join(file.path for file in files[:MOST_NAMED]) + ", ..." * (len(files) > MOST_NAMED)
        yield Dependent(
            kind="copied sources", url=folder.url, of=subject.corpus.label, documents=count, note=named
        )


def pieces_of(trace: Trace, corpora: NDArray[np.int64], ids: Ids) -> Iterator[Position]:
    """Yield where documents of some corpora of a mixture, by their numbers, are in its files."""
    for output in trace.outputs:
        for group in range(len(trace.groups(output))):
            table = trace.group(output, group)
            is_wanted = np.isin(table.column("doc_id").to_numpy(), ids)
            is_wanted &= np.isin(table.column("corpus").to_numpy(), corpora)
            for row in table.filter(pa.array(is_wanted)).select(["start", "tokens", "doc_id"]).to_pylist():
                yield Position(output=output.name, **row)


def documents_matched(corpus: ReferenceCorpus, names: Iterable[str], ids: Ids) -> int:
    """Count the documents that a corpus let go for some of another, by what it calls that."""
    count = 0
    for file in PublishedFiles(corpus.folder, corpus.manifest, "").below("removed/"):
        with opened(corpus, file) as parquet:
            if "matched_doc_id" in parquet.schema_arrow.names:
                table = parquet.read(["matched_corpus", "matched_doc_id"])
                is_of_it = pc.is_in(table.column("matched_corpus"), pa.array(sorted(names)))
                matched = pc.is_in(table.column("matched_doc_id"), pa.array(ids))
                count += pc.sum(pc.and_(is_of_it, matched)).as_py() or 0
    return count


def in_copy(subject: Subject, corpus: ReferenceCorpus) -> Iterator[Dependent]:
    """Yield a corpus of the same files that has some of the documents, published or in its work folder."""
    here = ids_by_files(subject, corpus)
    if not len(here):
        return
    is_copy = corpus.label == subject.corpus.label
    published = published_of(corpus, here)
    ingested = np.setdiff1d(ids_below(root_of(corpus), INGESTED, here), published)
    notes = ["another version of it"] if is_copy and corpus.digest != subject.corpus.digest else []
    notes += [f"{len(ingested):,} of them in its work folder alone"] if len(ingested) else []
    if count := len(published) + len(ingested):
        kind = "copy" if is_copy else "same sources"
        yield Dependent(
            kind=kind, url=corpus.url, of=subject.corpus.label, documents=count, note="; ".join(notes)
        )


def ids_by_files(subject: Subject, corpus: ReferenceCorpus) -> Ids:
    """Return the ids in another corpus of documents of ours, by the files of their sources: (n,) uint64, ascending.

    Files of a copy are known by source and name, those of other corpora by name, version and size.
    """
    is_copy = corpus.label == subject.corpus.label
    ours, theirs = (files_by_number(one, by_source=is_copy) for one in (subject.corpus, corpus))
    numbers = {named: number for number, named in theirs.items()}
    here = list[int]()
    for doc_id in subject.ids.tolist():
        source, file, row = split(doc_id)
        if (number := numbers.get(ours.get((source, file), ()))) is not None:
            here.append(first_id(*number) + row)
    return np.array(sorted(here), np.uint64)


def files_by_number(corpus: ReferenceCorpus, *, by_source: bool) -> dict[tuple[int, int], tuple[object, ...]]:
    """Return by what each file of a corpus is known, by its numbers."""
    sources = {origin.number: origin.source for origin in corpus.manifest.made_of}
    return {
        (row["source_number"], row["file_number"]): (
            (sources[row["source_number"]], row["file"])
            if by_source
            else identity(row["file"], row["version"], row["size"])
        )
        for row in PublishedFiles(corpus.folder, corpus.manifest, "").sources().to_pylist()
    }


def ids_of_rows(subject: Subject, corpus: ReferenceCorpus) -> Ids:
    """Return which documents of a corpus are rows of ours that are to go: (n,) uint64, ascending.

    Its sources are known by the names of their files, which end with digits of a hash, and by their sizes.
    """
    found = [np.empty(0, np.uint64)]
    ours = PublishedFiles(subject.corpus.folder, subject.corpus.manifest, "")
    files = [file for origin in subject.corpus.manifest.made_of for file in ours.below(f"{origin.source}/")]
    published = {(file.path.rpartition("/")[2], file.size): file for file in files}
    for row in PublishedFiles(corpus.folder, corpus.manifest, "").sources().to_pylist():
        if file := published.get((row["file"].rpartition("/")[2], row["size"])):
            rows = np.flatnonzero(np.isin(ids_in(subject.corpus, file), subject.ids)).astype(np.uint64)
            found.append(rows + np.uint64(first_id(row["source_number"], row["file_number"])))
    return np.sort(np.concatenate(found))


def ids_by_column(subject: Subject, corpus: ReferenceCorpus, known: Ids) -> Ids:
    """Return other documents of a corpus that carry the ids of ours: (n,) uint64, ascending."""
    found = [np.empty(0, np.uint64)]
    for origin in corpus.manifest.made_of:
        for file in PublishedFiles(corpus.folder, corpus.manifest, "").below(f"{origin.source}/"):
            with opened(corpus, file) as parquet:
                if OWN_IDS not in parquet.schema_arrow.names:
                    continue
                table = parquet.read(["doc_id", OWN_IDS])
            if table.column(OWN_IDS).type == pa.uint64():
                is_ours = pc.is_in(table.column(OWN_IDS), pa.array(subject.ids))
                found.append(table.filter(is_ours).column("doc_id").to_numpy())
    return np.setdiff1d(np.concatenate(found), known)


def published_of(corpus: ReferenceCorpus, ids: Ids) -> Ids:
    """Return which documents a corpus publishes, of some: (n,) uint64."""
    if corpus.manifest.id_bits != BITS:
        raise Denied(f"{corpus.url}: its doc_ids are of another version of this software")
    sources = {origin.number: origin.source for origin in corpus.manifest.made_of}
    files, found = PublishedFiles(corpus.folder, corpus.manifest, ""), [np.empty(0, np.uint64)]
    for source, number in sorted({split(doc_id)[:2] for doc_id in ids.tolist()}):
        for file in files.of_file(sources[source], number):
            published = ids_in(corpus, file)
            found.append(published[np.isin(published, ids)])
    return np.concatenate(found)


@contextmanager
def opened(corpus: ReferenceCorpus, file: File) -> Iterator[pq.ParquetFile]:
    """Open a table of a corpus. Raises Damaged, and Denied where its manifest does not say enough."""
    if (artifact := file.to_read()) is None:
        raise Denied(
            f"{corpus.url}: it was published by an older version, whose manifest does not say enough"
        )
    with open_table(corpus.folder, artifact) as parquet:
        yield parquet


def ids_in(corpus: ReferenceCorpus, file: File) -> Ids:
    """Read the ids of a file's documents: (n,) uint64."""
    with opened(corpus, file) as parquet:
        return parquet.read(["doc_id"]).column("doc_id").to_numpy()
