"""Write the deny list and the certificate of a removal request, and finish the certificate after the build."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.deny_list import Request, sealed
from zyda_flows.tasks.documents.deny_signatures import LIKENESS, rounds_with_signatures, standard_error
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_certificate import (
    MOST_DOCUMENTS,
    Certificate,
    FileDigest,
    RemovedCounts,
)
from zyda_flows.tasks.erasure.removal_request import RemovalRequest
from zyda_flows.tasks.erasure.requested_documents import (
    SET_ASIDE,
    Document,
    RequestedDocuments,
    listed_requests,
)
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.fields import DENIED, Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.words import in_words


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def count_by_source(documents: list[Document]) -> list[RemovedCounts]:
    """Count documents by their sources and their states before."""
    sums = dict[tuple[str, str], list[int]]()
    for document in documents:
        was = PUBLISHED if document.stage is None else document.stage
        was = was if was in {PUBLISHED, SET_ASIDE} else f"removed by {in_words(was)}"
        counts = sums.setdefault((document.source, was), [0, 0, 0])
        for place, count in enumerate((1, document.tokens, int(document.likeness is not None))):
            counts[place] += count
    return [
        RemovedCounts(source=source, was=was, documents=counts[0], tokens=counts[1], by_likeness=counts[2])
        for (source, was), counts in sorted(sums.items())
    ]


def lines_of(request: RemovalRequest, requested: RequestedDocuments) -> list[Request]:
    """Return the entries of the deny list that match the request's documents in later builds."""
    ids = [
        Request(id=document.doc_id)
        if document.likeness is None
        else Request(id=document.doc_id, by="likeness")
        for document in requested.documents
    ]
    return [*request.hashed_requests(), *requested.entries, *ids]


def new_lines(recipe: Recipe, request: RemovalRequest, requested: RequestedDocuments) -> list[dict[str, Any]]:
    """Return the entries as JSON, without entries that the corpus's deny lists have already."""
    known = {*map(in_json, listed_requests(recipe))}
    lines = {
        in_json(line): line.model_dump(mode="json", exclude_unset=True)
        for line in lines_of(request, requested)
    }
    return [line for text, line in lines.items() if text not in known]


def in_json(request: Request) -> str:
    return request.model_dump_json(exclude_unset=True)


def promise(
    recipe: Recipe,
    request: RemovalRequest,
    requested: RequestedDocuments,
    search: Search,
    lines: Sequence[dict[str, Any]],
) -> Certificate:
    """Write a deny list with `lines` beside the corpus, and the unfinished certificate. Return the certificate.

    Raises BadInput if the list would be too large for later builds to read.
    """
    folder, now = recipe.folder, utc_now()
    text = sealed([f"# asked for on {now}", *(orjson.dumps(line).decode() for line in lines)])
    content = "".join(f"{line}\n" for line in text).encode()
    most = limits()
    if len(content) > most.list_bytes or len(text) > most.list_lines:
        raise BadInput(
            f"the deny list of the request would have {len(text):,} lines and {len(content):,} bytes, at most "
            f"{most.list_lines:,} and {most.list_bytes:,} can be read: split the request"
        )
    name = f"{now[:19].replace(':', '')}-{digest_of(lines)[:8]}"
    rounds = rounds_with_signatures(recipe.rounds) or (MinHashRound(),)  # as `removed_for` compares
    alike = [document for document in requested.documents if document.likeness is not None]
    certificate = Certificate(
        corpus=recipe.corpus,
        asked_at=now,
        request=request.counts(),
        deny_list=f"{DENIED}/{name}.jsonl",
        list_sha256=sha256(content).hexdigest(),
        gone=tuple(count_by_source(requested.documents)),
        documents=tuple(requested.documents[:MOST_DOCUMENTS]),
        least_likeness=LIKENESS if alike else None,
        standard_error=max(standard_error(dedup.values) for dedup in rounds) if alike else None,
        searched=tuple(search.searched),
        not_searched=tuple(search.not_searched),
        dependents=tuple(search.dependents),
        published=published_documents(recipe),
        before=digest_of_manifest(folder),
        removed_files=differing(published_files(recipe), {}),
        left=documents_left(recipe, requested),
    )
    # The certificate is written before the list: a build that reads the list finds the certificate.
    folder.write(certificate.path, certificate.written())
    folder.write(certificate.deny_list, content)
    return certificate


def finish(recipe: Recipe, promised: Certificate) -> Certificate:
    """Finish a certificate after the build, and write it."""
    folder, now, published = recipe.folder, published_files(recipe), published_documents(recipe)
    before = {file.path: file.sha256 for file in promised.removed_files}
    finished = promised.model_copy(
        update={
            "finished_at": utc_now(),
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
    """Return the number of published documents of each source file, by the source and the file's number."""
    files = PublishedCorpus.of(recipe).source_files()
    columns = (files.column(name).to_pylist() for name in ("source", "file_number", "documents"))
    return Counter(
        {f"{source}/{number:06d}": documents for source, number, documents in zip(*columns, strict=True)}
    )


def documents_left(recipe: Recipe, requested: RequestedDocuments) -> dict[str, int]:
    """Return the expected numbers of documents of all files of the last build, without the documents to remove."""
    counts = documents_by_file(recipe)
    counts.subtract(
        f"{document.source}/{split(document.doc_id)[1]:06d}"
        for document in requested.documents
        if document.stage is None
    )
    return dict(counts)


def count_came_in(recipe: Recipe, promised: Certificate) -> int:
    """Count the published documents above the expected numbers, in files that were read before."""
    now = documents_by_file(recipe)
    return sum(max(0, now[file] - left) for file, left in promised.left.items())


def differing(files: dict[str, str], others: dict[str, str]) -> tuple[FileDigest, ...]:
    """Return the files that are missing in `others`, or have another content there."""
    return tuple(
        FileDigest(path=path, sha256=digest)
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
