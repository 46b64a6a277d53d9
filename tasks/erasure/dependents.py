"""Find dependents: other places with documents to be removed, in the folders that are searched.

A corpus of the same name is a copy or another version of the corpus. A corpus that was deduplicated `against` the
corpus removed documents for it. A corpus whose sources are files published by the corpus was made from it, and its
own dependents are searched in turn. A mixture has documents at positions, and their token ids in its work folder.
An experiment has token ids of documents.
Exports and copies of sources (`zyda fetch`) have tables of their files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from zyda_flows.tasks.accounts.published import MANIFEST
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.dependent_kinds import MOST_POSITIONS, TODO, Dependent, MixturePosition, Subject
from zyda_flows.tasks.erasure.holdings import (
    INGESTED,
    copied_files,
    exported_ids,
    ids_in_mixture_work,
    is_export_of,
    work_places,
)
from zyda_flows.tasks.erasure.in_corpora import in_corpus
from zyda_flows.tasks.erasure.in_experiments import experiment_places, in_experiment
from zyda_flows.tasks.erasure.in_shards import Spread, one_by_one
from zyda_flows.tasks.errors import Denied, ZydaError, first_line
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.mixing.gathering import Output
from zyda_flows.tasks.mixing.leftovers import unfinished_versions
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE
from zyda_flows.tasks.mixing.tracing import MixtureTracer, documents_in
from zyda_flows.tasks.publish.export_places import TABLE
from zyda_flows.tasks.sources.copies import FETCHED
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.walking import sizes_below

Item = TypeVar("Item")

MOST_NAMED = 4  # files that a note names


@dataclass
class Search:
    """Searched folders, with the dependents found there.

    spread: calls a function on every item. not_searched: files that could not be read. files: the number of files
    in the folders.
    """

    spread: Spread = one_by_one
    files: int = 0
    searched: list[str] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)
    corpora: list[PublishedCorpus] = field(default_factory=list)
    mixtures: list[MixtureTracer] = field(default_factory=list)
    works: list[Folder] = field(default_factory=list)  # folders of mixtures, finished or not
    exports: list[Folder] = field(default_factory=list)
    copies: list[Folder] = field(default_factory=list)
    experiments: list[Folder] = field(default_factory=list)
    dependents: list[Dependent] = field(default_factory=list)

    def look_into(self, url: str) -> None:
        """Find the corpora, mixtures, exports, experiments and copies of sources below a folder."""
        try:
            folder = Folder(url)
            paths = folder.files("")
            if not paths:
                raise Denied("the folder is empty or missing")
        except (ZydaError, ValueError, ImportError) as error:
            self.not_searched.append(f"{url}: {first_line(error)}")
            return
        self.searched.append(url)
        self.files += len(paths)
        for path in paths:
            place, _, name = path.rpartition("/")
            at = f"{folder.url}/{place}".rstrip("/")
            try:
                self.keep_place(name, at)
            except (ZydaError, ValidationError) as error:
                self.not_searched.append(f"{at}/{name}: {first_line(error)}")
        mixtures, corpora = work_places(paths)
        for place in sorted(experiment_places(paths)):
            keep(self.experiments, Folder(f"{folder.url}/{place}".rstrip("/")))
        for place in sorted(mixtures):
            keep(self.works, Folder(f"{folder.url}/{place}".rstrip("/")))
        for place in sorted(corpora):
            if f"{place}/published/{MANIFEST}".lstrip("/") not in paths:
                at = f"{folder.url}/{place}".rstrip("/")
                self.not_searched.append(f"{at}/{INGESTED}: texts of a corpus that is not published")

    def keep_place(self, name: str, at: str) -> None:
        """Keep the folder of a file if the name of the file shows its kind."""
        if name == MANIFEST:
            keep(self.corpora, PublishedCorpus.at(at))
        elif name == MIXTURE:
            tracer = MixtureTracer.at(at)
            if tracer.folder not in [mixture.folder for mixture in self.mixtures]:
                self.mixtures.append(tracer)
        elif name == TABLE:
            keep(self.exports, Folder(at))
        elif name == FETCHED:
            keep(self.copies, Folder(at))

    def follow(self, subject: Subject) -> None:
        """Find the dependents of a corpus, and of corpora that were made from it."""
        todo, known = [subject], {subject.corpus.url}
        while todo:
            current = todo.pop(0)
            for corpus in self.corpora:
                if corpus.url not in known:
                    todo += self.add_dependents(corpus.url, in_corpus(current, corpus, self.spread))
            known |= {made_from.corpus.url for made_from in todo}
            for mixture in self.mixtures:
                self.add_dependents(mixture.folder.url, in_mixture(current, mixture, self.spread))
            for folder in self.works:
                self.add_dependents(folder.url, in_work(current, folder, self.spread))
            for folder in self.exports:
                self.add_dependents(folder.url, in_export(current, folder, self.spread))
            for folder in self.experiments:
                self.add_dependents(folder.url, in_experiment(current, folder, self.spread))
            for folder in self.copies:
                self.add_dependents(folder.url, in_copies(current, folder))

    def add_dependents(self, url: str, dependents: Iterable[Dependent | Subject]) -> list[Subject]:
        """Keep the dependents at a URL, and return the corpora to follow in turn."""
        subjects = list[Subject]()
        try:
            for dependent in dependents:
                if isinstance(dependent, Subject):
                    subjects.append(dependent)
                else:
                    self.dependents.append(dependent.model_copy(update={"todo": TODO[dependent.kind]}))
        except (ZydaError, pa.ArrowException, OSError, KeyError, ValueError) as error:
            self.not_searched.append(f"{url}: {first_line(error)}")
        return subjects


def keep(items: list[Item], item: Item) -> None:
    """Add an item if it is new: folders to search may overlap."""
    if item not in items:
        items.append(item)


def in_mixture(subject: Subject, tracer: MixtureTracer, spread: Spread) -> Iterator[Dependent]:
    """Yield a mixture if it has some of the documents, with the positions of their pieces."""
    subject_corpora = {
        number: mixed
        for number, mixed in enumerate(tracer.mixed.corpora)
        if mixed.digest == subject.corpus.digest
        or mixed.url == subject.corpus.url
        or mixed.label.partition("@")[0] == subject.corpus.label
    }
    if not subject_corpora:
        return
    is_same = any(mixed.digest == subject.corpus.digest for mixed in subject_corpora.values())
    note = "" if is_same else "of another version of the corpus"
    numbers = np.array([*subject_corpora], np.int64)
    outputs = tracer.outputs if tracer.mixed.outputs else ()
    found = spread(partial(pieces_of, tracer, numbers, subject.ids), [*outputs])
    pieces = [piece for pieces in found for piece in pieces]
    labels = [mixed.label for mixed in subject_corpora.values()]
    if len(ids := documents_in(tracer, labels, subject.ids)):
        yield Dependent(
            kind="mixture", url=tracer.folder.url, of=subject.corpus.label, pieces=len(pieces), note=note,
            documents=len(ids), positions=tuple(pieces[:MOST_POSITIONS]),
        )  # fmt: skip


def in_work(subject: Subject, root: Folder, spread: Spread) -> Iterator[Dependent]:
    """Yield the work folder of a mixture if it has some of the documents, and its unfinished versions."""
    label = subject.corpus.label
    if next(sizes_below(root, f"{WORK}/tokens/{label}"), None) is None:
        return
    if count := len(ids_in_mixture_work(root, subject.corpus, subject.ids, spread)):
        yield Dependent(kind="token ids", url=f"{root.url}/{WORK}", of=label, documents=count)
    for place in unfinished_versions(root):
        note = "its documents are not known"
        yield Dependent(kind="unfinished mix", url=f"{root.url}/{place}", of=label, documents=0, note=note)


def in_export(subject: Subject, folder: Folder, spread: Spread) -> Iterator[Dependent]:
    """Yield an export of the corpus if it has some of the documents, or files without ids."""
    corpus = subject.corpus
    if is_export_of(folder, corpus):
        count, unknown = exported_ids(folder, corpus, subject.ids, spread)
        note = f"no doc_ids of {', '.join(unknown)}, so it may have more documents" if unknown else ""
        if count or unknown:
            yield Dependent(kind="export", url=folder.url, of=corpus.label, documents=count, note=note)


def in_copies(subject: Subject, folder: Folder) -> Iterator[Dependent]:
    """Yield a folder with copies of source files that have some of the documents."""
    count, files = copied_files(folder, subject.corpus, subject.ids)
    if count:
        names = ", ".join(file.path for file in files[:MOST_NAMED]) + ", ..." * (len(files) > MOST_NAMED)
        yield Dependent(
            kind="copied sources", url=folder.url, of=subject.corpus.label, documents=count, note=names
        )


def pieces_of(
    tracer: MixtureTracer, corpora: NDArray[np.int64], ids: Ids, output: Output
) -> list[MixturePosition]:
    """Return the positions of documents in an output of a mixture. corpora: their numbers in the mixture."""
    positions = list[MixturePosition]()
    for group in range(len(tracer.groups(output))):
        table = tracer.group(output, group)
        is_wanted = np.isin(table.column("doc_id").to_numpy(), ids)
        is_wanted &= np.isin(table.column("corpus").to_numpy(), corpora)
        for row in table.filter(pa.array(is_wanted)).select(["start", "tokens", "doc_id"]).to_pylist():
            positions.append(MixturePosition(output=output.name, **row))
    return positions
