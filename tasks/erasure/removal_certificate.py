"""The certificate of a removal request: the request, the removed documents, and the digests before and after.

It is written to `forgotten/` beside the corpus together with the deny list. `finished_at` is the time when the
corpus had been built without the documents. It has no texts, no addresses of pages and no values of columns.
"""

from collections.abc import Iterable

from zyda_flows.tasks.erasure.dependent_kinds import Dependent
from zyda_flows.tasks.erasure.requested_documents import (
    Document,
)
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

FORGOTTEN = "forgotten"  # the folder of the certificates in the folder of a corpus
MOST_DOCUMENTS = 1000  # that a certificate lists; the deny list has the ids of all
NOT_SEEN = (
    "the sources, and copies of their data outside this corpus and the searched folders",
    "exports, copies and downloads in other places, and their backups",
    "earlier commits of a dataset repository, earlier versions of objects in a store, deleted files of a disk",
    "pages of zyda look and reports that were sent to others",
    "events of a Prefect server on another machine or with PostgreSQL, and logs that were sent to others",
    "models that were trained on the documents",
)


class RemovedCounts(Record):
    """Counts of removed documents of a source.

    was: their state before: published, set aside, or removed by a stage.
    """

    source: str
    was: str
    documents: int
    tokens: int
    by_likeness: int


class FileDigest(Record):
    """A published file and its SHA-256."""

    path: str
    sha256: str


class Certificate(Record):
    """A removal request and its result.

    request: the number of entries of each kind. deny_list, list_sha256: the deny list of the request. gone: counts
    of the removed documents. documents: the first MOST_DOCUMENTS of them. least_likeness, standard_error: the least
    similarity of a removed document that is only similar, and the standard error of its estimate. searched,
    not_searched, dependents: other places. published, published_after: documents of each source before and after
    the removal. came_in: documents that are published because their kept duplicates were removed, counted in
    unchanged source files. left: until the certificate is finished, the expected documents of each file. before,
    after: the SHA-256 of the corpus's manifest. removed_files, new_files: of the published folder; until it is
    finished, all files before. not_seen: places that no command searches; a person has to.
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
    removed_files: tuple[FileDigest, ...] = ()
    new_files: tuple[FileDigest, ...] = ()
    not_seen: tuple[str, ...] = NOT_SEEN

    @property
    def path(self) -> str:
        return f"{FORGOTTEN}/{self.deny_list.rpartition('/')[2].removesuffix('.jsonl')}.json"

    def written(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def expect_finished(folders: Iterable[Folder]) -> None:
    """Raise Denied if a corpus has an unfinished request: it still publishes the documents."""
    for folder in folders:
        if unfinished_certificates(folder):
            raise Denied(
                f"{folder.url}: a removal request was interrupted; finish it first (zyda forget with the recipe of "
                "that corpus)"
            )


def unfinished_certificates(folder: Folder) -> list[Certificate]:
    """Return the unfinished certificates. A damaged certificate is skipped with a warning."""
    certificates = list[Certificate]()
    for path in folder.files(FORGOTTEN):
        if path.endswith(".json"):
            try:
                certificates.append(Certificate.model_validate_json(folder.read(path)))
            except ValueError:
                warn(f"{folder.url}/{path} is cut or changed, or of another version")
    begun = [certificate for certificate in certificates if certificate.finished_at is None]
    for certificate in begun:
        if not folder.exists(
            certificate.deny_list
        ):  # the request was interrupted before its list was written
            folder.delete(certificate.path)
    return [certificate for certificate in begun if folder.exists(certificate.deny_list)]
