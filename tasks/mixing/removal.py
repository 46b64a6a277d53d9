"""Mix a mixture again without the documents that its corpora removed on request, and write a certificate.

All older versions are removed, and all files of the work folder except the token ids of currently published files.
The certificate lists the versions and files to remove. It is written first, so that the next call can finish an
interrupted removal. It contains no text: documents are listed by their ids.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Denied, ZydaError, first_line
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.mixing.gathering import MixedFile
from zyda_flows.tasks.mixing.leftovers import unfinished_versions, version_folders
from zyda_flows.tasks.mixing.mixing import LOCK, Mixing
from zyda_flows.tasks.mixing.mixture_certificate import (
    CorpusForgotten,
    Forgetting,
    VersionRemoved,
    WorkRemoved,
    unfinished_certificates,
)
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE, MixtureManifest
from zyda_flows.tasks.mixing.planning import Inputs
from zyda_flows.tasks.mixing.selection import RunJobs
from zyda_flows.tasks.mixing.tracing import MixtureTracer, documents_in
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import holding_lock
from zyda_flows.tasks.storage.walking import sizes_below
from zyda_flows.tasks.tokens.stored import tokenizer_path

REMOVED_AT_ONCE = 10_000  # files of the work folder between two listings
MOST_DOCUMENTS = 1000  # maximum number of ids of one version in a certificate
UNREADABLE = "its documents are not known: it cannot be read"


def utc_now() -> str:
    return datetime.now(UTC).isoformat()


def planned_certificate(inputs: Inputs) -> Forgetting:
    """Return a certificate of the versions and files to remove, which continues an unfinished certificate."""
    now = new_certificate(inputs)
    return with_remaining(begun[-1], now) if (begun := unfinished_certificates(inputs.folder)) else now


def with_remaining(begun: Forgetting, now: Forgetting) -> Forgetting:
    """Add the remaining versions and files to an unfinished certificate."""
    known = {record.label: record for record in begun.corpora}
    is_same = all(record == known.get(record.label) for record in now.corpora)
    corpora = known | {record.label: record for record in now.corpora}
    versions = {record.place: record for record in (*begun.versions, *now.versions)}
    versions |= {record.place: record for record in begun.versions}  # lists files that are already removed
    work = {record.path: record for record in (*begun.work, *(() if is_same else now.work))}
    return begun.model_copy(
        update={
            "corpora": tuple(corpora.values()), "versions": tuple(versions.values()), "work": tuple(work.values()),
        }
    )  # fmt: skip


def new_certificate(inputs: Inputs) -> Forgetting:
    """Return the versions and files of a mixture to remove now."""
    folder, now = inputs.folder, Mixing(inputs, run_no_jobs).place
    older = {place: tracer_at(folder, place) for place in older_versions(folder, now)}
    corpora = corpora_with_removed_ids(inputs, [tracer.mixed for tracer in older.values() if tracer])
    denied = {label: ids for label, (_, ids) in corpora.items() if len(ids)}
    unfinished = [place for place in unfinished_versions(folder) if place != now]
    return Forgetting(
        name=inputs.mixture.name,
        asked_at=utc_now(),
        corpora=tuple(corpus for corpus, _ in corpora.values()),
        versions=tuple(removed_version(folder, place, tracer, denied) for place, tracer in older.items()),
        work=tuple(work_removed(folder, unfinished, kept_in_work(inputs))),
    )


def tracer_at(folder: Folder, place: str) -> MixtureTracer | None:
    """Open a version, or return None if its manifest cannot be read."""
    try:
        return MixtureTracer.at(folder.folder(place).url)
    except Denied:
        return None


def older_versions(folder: Folder, current: str) -> list[str]:
    """Return the versions with a manifest, except `current`."""
    return [
        place for place in version_folders(folder) if place != current and folder.exists(f"{place}/{MIXTURE}")
    ]


def run_no_jobs(jobs: Sequence[Any], step: str) -> list[Any]:
    raise NotImplementedError  # the name of a version is known without running a job


def corpora_with_removed_ids(
    inputs: Inputs, manifests: Iterable[MixtureManifest]
) -> dict[str, tuple[CorpusForgotten, Ids]]:
    """Return the corpora of a mixture and of older manifests, each with the ids of documents removed on request."""
    urls = {corpus.url: corpus.label for corpus in inputs.corpora}
    urls = {used.url: used.label for mixed in manifests for used in mixed.corpora} | urls
    records = dict[str, tuple[CorpusForgotten, Ids]]()
    for url, label in urls.items():
        try:
            corpus = PublishedCorpus.at(url)
            ids = denied_ids(corpus)
            record = CorpusForgotten(label=label, url=url, digest=corpus.digest, denied=len(ids))
        except ZydaError as error:
            ids, record = (
                np.empty(0, np.uint64),
                CorpusForgotten(label=label, url=url, note=first_line(error)),
            )
        records[label] = record, ids
    return records


def denied_ids(corpus: PublishedCorpus) -> Ids:
    """Return the ids of documents that a corpus removed on request: (n,) uint64, ascending."""
    arrays = [np.empty(0, np.uint64)]
    for table in corpus.tables("removed", ["doc_id", "stage"]):
        is_denied = pc.equal(table.column("stage").cast("string"), "deny")
        arrays.append(table.filter(is_denied).column("doc_id").to_numpy())
    return np.unique(np.concatenate(arrays))


def removed_version(
    folder: Folder, place: str, tracer: MixtureTracer | None, denied: dict[str, Ids]
) -> VersionRemoved:
    """Return the record of a version with its files and the ids of `denied` that it contains."""
    ids, note, digests = dict[str, Ids](), UNREADABLE, dict[str, str]()
    if tracer is not None:
        outputs = (*tracer.mixed.outputs, *tracer.mixed.texts)
        digests = {file.path: file.sha256 for output in outputs for file in output.files}
        try:
            ids = {label: documents_in(tracer, [label], corpus_ids) for label, corpus_ids in denied.items()}
            note = ""
        except (ZydaError, KeyError, OSError) as error:
            note = f"{UNREADABLE}: {first_line(error)}"
    return VersionRemoved(
        place=place,
        files=tuple(
            MixedFile(path=path, size=int(info["size"]), sha256=digests.get(path, ""))
            for path, info in folder.listed(place).items()
        ),
        documents={label: len(removed_ids) for label, removed_ids in ids.items() if len(removed_ids)},
        ids={
            label: tuple(removed_ids[:MOST_DOCUMENTS].tolist())
            for label, removed_ids in ids.items()
            if len(removed_ids)
        },
        note=note,
    )


def kept_in_work(inputs: Inputs) -> set[str]:
    """Return the files of the work folder to keep: the token ids of currently published files and the tokenizer."""
    tokens = [job.path for job in Mixing(inputs, run_no_jobs).token_jobs]
    return {LOCK, tokenizer_path(inputs.encoding.digest), *tokens, *(f"{path}.json" for path in tokens)}


def work_removed(folder: Folder, unfinished: Sequence[str], kept: set[str]) -> Iterator[WorkRemoved]:
    """Yield the files to remove of each stage in the work folder, and of each unfinished mix.

    The files are counted one by one: the work folder of a large mixture has hundreds of thousands.
    """
    files, bytes_of = Counter[str](), Counter[str]()
    for path, size in chain.from_iterable(sizes_below(folder, top) for top in (WORK, *unfinished)):
        if path in kept:
            continue
        top, _, below = path.partition("/")
        place = f"{WORK}/{below.partition('/')[0]}" if top == WORK and "/" in below else top
        files[place] += 1
        bytes_of[place] += size
    for place in sorted(files):
        yield WorkRemoved(path=place, files=files[place], size=bytes_of[place])


def forget(inputs: Inputs, promise: Forgetting, run_jobs: RunJobs, *, verify: bool = False) -> Forgetting:
    """Mix again, remove older versions and work files, and finish the certificate."""
    folder = inputs.folder
    with holding_lock(folder, LOCK, "mix"):
        if {*older_versions(folder, Mixing(inputs, run_jobs).place)} - {*promise.places}:
            promise = with_remaining(promise, new_certificate(inputs))  # another mix has ended since then
        folder.write(promise.path, promise.written())
        mixed = rebuilding_damaged(folder, lambda: Mixing(inputs, run_jobs).mix(verify=verify))
        remove_older(inputs, mixed)
        content = folder.digest_of(f"{mixed.place}/{MIXTURE}")
        finished = promise.model_copy(
            update={"finished_at": utc_now(), "place": mixed.place, "manifest": content}
        )
        folder.write(finished.path, finished.written())
    return finished


def remove_older(inputs: Inputs, mixed: MixtureManifest) -> None:
    """Remove all versions except `mixed`, and all work files that are not kept."""
    folder = inputs.folder
    for place in version_folders(folder):
        if place != mixed.place:
            folder.delete(place)
    remove_from_work(folder, kept_in_work(inputs))


def remove_from_work(folder: Folder, kept: set[str]) -> None:
    """Remove the files of the work folder except `kept`; REMOVED_AT_ONCE paths are in memory."""
    while True:
        paths = (path for path, _ in sizes_below(folder, WORK) if path not in kept)
        some = [*islice(paths, REMOVED_AT_ONCE)]  # a folder is not read while its files are removed
        for path in some:
            folder.remove(path)
        if len(some) < REMOVED_AT_ONCE:
            return
