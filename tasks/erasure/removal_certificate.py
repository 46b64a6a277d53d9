"""The certificate of a removal: what was asked, what went where, and the digests before and after.

It lies in `forgotten/` beside the corpus from the moment at which the deny list is written. `finished_at` says when
the corpus had been built without what it is about. It holds no text, no address of a page and no value of a column.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.deny_list import Request, sealed
from zyda_flows.tasks.documents.deny_signatures import LIKENESS, rounds_with_signatures, standard_error
from zyda_flows.tasks.erasure.dependent_kinds import Dependent
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_request import RemovalRequest
from zyda_flows.tasks.erasure.requested_documents import (
    SET_ASIDE,
    Document,
    RequestedDocuments,
    listed_requests,
)
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.recipe.fields import DENIED, Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.sources.input_files import load_listing
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of

FORGOTTEN = "forgotten"  # the folder of a corpus with its certificates
MOST_DOCUMENTS = 1000  # that a certificate names; the list has the ids of all
NOT_SEEN = (
    "the sources, and what was made of them outside of this corpus and of the folders that were searched",
    "exports, copies and downloads in other places, and their backups",
    "earlier commits of a dataset repository, earlier versions of objects in a store, deleted files of a disk",
    "pages of zyda look and reports that were sent elsewhere",
    "events of a Prefect server on another machine or with PostgreSQL, and logs that were sent elsewhere",
    "models that were trained on it",
)


class RemovedCounts(Record):
    """So many documents and tokens of a source, by what became of them before: published, or gone by a stage."""

    source: str
    was: str
    documents: int
    tokens: int
    by_likeness: int


class PublishedFile(Record):
    """A published file and its SHA-256."""

    path: str
    sha256: str


class Certificate(Record):
    """What was asked for and done.

    request: how many of each kind. deny_list, list_sha256: where its lines are. documents: the first
    MOST_DOCUMENTS of those in `gone`. standard_error: of the likeness of a document that is only like one
    that was asked for. published: documents of each source before, and after it. came_in: those that had been
    removed as duplicates of what the request removed, and are published now; they are counted in files of sources
    that are as before. left: until it is finished, how many documents of each file should be left. before, after:
    the SHA-256 of the corpus's manifest. removed_files, new_files: of the published folder; until it is finished,
    all that there were. not_seen: what no command looks into, and somebody has to.
    """

    corpus: str
    asked_at: str
    finished_at: str | None = None
    request: dict[str, int]
    deny_list: str
    list_sha256: str
    gone: tuple[RemovedCounts, ...]
    documents: tuple[Document, ...]
    least_likeness: float | None = None
    standard_error: float | None = None
    searched: tuple[str, ...] = ()
    not_searched: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    published: dict[str, int]
    published_after: dict[str, int] = {}
    came_in: int = 0
    left: dict[str, int] = {}
    before: str
    after: str | None = None
    removed_files: tuple[PublishedFile, ...] = ()
    new_files: tuple[PublishedFile, ...] = ()
    not_seen: tuple[str, ...] = NOT_SEEN

    @property
    def path(self) -> str:
        return f"{FORGOTTEN}/{self.deny_list.rpartition('/')[2].removesuffix('.jsonl')}.json"

    def written(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def count_by_source(documents: list[Document]) -> list[RemovedCounts]:
    """Add up documents by their sources and by what became of them."""
    sums = dict[tuple[str, str], list[int]]()
    for one in documents:
        was = PUBLISHED if one.stage is None else one.stage
        was = was if was in {PUBLISHED, SET_ASIDE} else f"gone by {was}"
        of = sums.setdefault((one.source, was), [0, 0, 0])
        for place, count in enumerate((1, one.tokens, int(one.likeness is not None))):
            of[place] += count
    return [
        RemovedCounts(source=source, was=was, documents=counts[0], tokens=counts[1], by_likeness=counts[2])
        for (source, was), counts in sorted(sums.items())
    ]


def lines_of(asked: RemovalRequest, found: RequestedDocuments) -> list[Request]:
    """Return the lines of the list by which what was asked for is known from now on."""
    ids = [
        Request(id=one.doc_id) if one.likeness is None else Request(id=one.doc_id, by="likeness")
        for one in found.documents
    ]
    return [*asked.kept(), *found.known_by, *ids]


def new_lines(recipe: Recipe, asked: RemovalRequest, found: RequestedDocuments) -> list[dict[str, Any]]:
    """Return the same as JSON, without what the corpus's deny lists say already."""
    known = {*map(in_json, listed_requests(recipe))}
    lines = {
        in_json(line): line.model_dump(mode="json", exclude_unset=True) for line in lines_of(asked, found)
    }
    return [line for text, line in lines.items() if text not in known]


def in_json(request: Request) -> str:
    return request.model_dump_json(exclude_unset=True)


def promise(
    recipe: Recipe,
    asked: RemovalRequest,
    found: RequestedDocuments,
    search: Search,
    lines: Sequence[dict[str, Any]],
) -> Certificate:
    """Write a deny list beside the corpus, and the certificate that is not finished yet. lines: of the list."""
    folder, now = recipe.folder, moment()
    text = sealed([f"# asked for on {now}", *(orjson.dumps(line).decode() for line in lines)])
    content = "".join(f"{line}\n" for line in text).encode()
    name = f"{now[:19].replace(':', '')}-{digest_of(lines)[:8]}"
    rounds = rounds_with_signatures(recipe.rounds) or (MinHashRound(),)  # as `went_for_them` compares
    alike = [one for one in found.documents if one.likeness is not None]
    certificate = Certificate(
        corpus=recipe.corpus,
        asked_at=now,
        request=asked.counts(),
        deny_list=f"{DENIED}/{name}.jsonl",
        list_sha256=sha256(content).hexdigest(),
        gone=tuple(count_by_source(found.documents)),
        documents=tuple(found.documents[:MOST_DOCUMENTS]),
        least_likeness=LIKENESS if alike else None,
        standard_error=max(standard_error(dedup.values) for dedup in rounds) if alike else None,
        searched=tuple(search.searched),
        not_searched=tuple(search.not_searched),
        dependents=tuple(search.dependents),
        published=published_documents(recipe),
        before=digest_of_manifest(folder),
        removed_files=differing(published_files(recipe), {}),
        left=documents_left(recipe, found),
    )
    # Builds obey the list: who finds it finds the certificate, too.
    folder.write(certificate.path, certificate.written())
    folder.write(certificate.deny_list, content)
    return certificate


def finish(recipe: Recipe, promised: Certificate) -> Certificate:
    """Write the certificate of what has been built."""
    folder, now, published = recipe.folder, published_files(recipe), published_documents(recipe)
    before = {file.path: file.sha256 for file in promised.removed_files}
    finished = promised.model_copy(
        update={
            "finished_at": moment(),
            "published_after": published,
            "came_in": count_came_in(recipe, promised),
            "left": {},
            "after": digest_of_manifest(folder),
            "removed_files": differing(before, now),
            "new_files": differing(now, before),
        }
    )
    folder.write(finished.path, finished.written())
    return finished


def documents_by_file(recipe: Recipe) -> Counter[str]:
    """Return how many documents of each file of a source are published: by the source and the file's number."""
    corpus, counts = PublishedCorpus.of(recipe), Counter[str]()
    for file in corpus.files():
        source, name = file.path.split("/")[0], file.path.rpartition("/")[2]
        if source in corpus.manifest.ledger.sources:
            counts[f"{source}/{name.partition('-')[0]}"] += file.rows or 0
    return counts


def documents_left(recipe: Recipe, found: RequestedDocuments) -> dict[str, int]:
    """Return the same of all files that the last build read, without the documents that are to be removed."""
    counts, built = documents_by_file(recipe), last_build(recipe.folder)
    for source, listing in (built.listings if built else {}).items():
        counts.update({f"{source}/{file.number:06d}": 0 for file in load_listing(recipe.folder, listing)})
    counts.subtract(
        f"{one.source}/{split(one.doc_id)[1]:06d}" for one in found.documents if one.stage is None
    )
    return dict(counts)


def count_came_in(recipe: Recipe, promised: Certificate) -> int:
    """Count the documents that are published more than were left, of files that were there before."""
    now = documents_by_file(recipe)
    return sum(max(0, now[file] - left) for file, left in promised.left.items())


def differing(files: dict[str, str], others: dict[str, str]) -> tuple[PublishedFile, ...]:
    """Return the files that others have not, or with another content."""
    return tuple(
        PublishedFile(path=path, sha256=digest)
        for path, digest in sorted(files.items())
        if others.get(path) != digest
    )


def digest_of_manifest(folder: Folder) -> str:
    return sha256(folder.read(f"{PUBLISHED}/{MANIFEST}")).hexdigest()


def published_files(recipe: Recipe) -> dict[str, str]:
    """Return the SHA-256 of each published file, by its path."""
    corpus = PublishedCorpus.of(recipe)
    return {file.path: file.sha256 for file in (*corpus.manifest.named, *corpus.files())}


def published_documents(recipe: Recipe) -> dict[str, int]:
    """Return how many documents of each source are published."""
    ledger = PublishedCorpus.of(recipe).manifest.ledger
    return {source: ledger.of(ledger.stages[-1], source).documents for source in ledger.sources}


def expect_finished(folders: Iterable[Folder]) -> None:
    """Raise Denied if a request to a corpus is not finished: the corpus still publishes the documents."""
    for folder in folders:
        if unfinished(folder):
            raise Denied(
                f"{folder.url}: a request for removal was interrupted there; finish it first (zyda forget, with "
                "the recipe of that corpus)"
            )


def unfinished(folder: Folder) -> list[Certificate]:
    """Return the certificates of requests whose build has not come to its end; damaged ones are said."""
    found = list[Certificate]()
    for path in folder.files(FORGOTTEN):
        if path.endswith(".json"):
            try:
                found.append(Certificate.model_validate_json(folder.read(path)))
            except ValueError:
                warn(f"{folder.url}/{path} is cut or changed, or of another version")
    begun = [one for one in found if one.finished_at is None]
    for one in begun:
        if not folder.exists(one.deny_list):  # it was interrupted before anything was promised
            folder.delete(one.path)
    return [one for one in begun if folder.exists(one.deny_list)]
