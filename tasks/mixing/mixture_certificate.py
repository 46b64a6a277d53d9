"""Define the certificate of a removal from a mixture, and read unfinished certificates."""

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.mixing.gathering import MixedFile
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of

FORGOTTEN = "forgotten"  # the folder with the certificates, in the folder of a mixture
NOT_SEEN = (
    "copies of the mixture's files elsewhere, on the machines of a training run for one, and backups of them",
    "earlier versions of objects that a store keeps, and the blocks of deleted files on a disk",
    "index files and caches that trainers have made",
    "models that were trained on a removed version",
    "documents with the same text in a corpus of this mixture that was not asked to remove them",
)


class CorpusForgotten(Record):
    """A corpus of a mixture, with the current digest of its manifest.

    denied: number of documents that the corpus removed on request; None if it cannot be read. note: the reason.
    """

    label: str
    url: str
    digest: str = ""
    denied: int | None = None
    note: str = ""


class VersionRemoved(Record):
    """A version to remove, with its files.

    documents: number of documents in it that a corpus has removed on request, by corpus. ids: ids of these
    documents, at most `removal.MOST_DOCUMENTS` for each corpus.
    """

    place: str
    files: tuple[MixedFile, ...]
    documents: dict[str, int]
    ids: dict[str, tuple[int, ...]]
    note: str = ""


class WorkRemoved(Record):
    """The files to remove of a stage in the work folder, or of an unfinished mix. size: bytes."""

    path: str
    files: int
    size: int


class Forgetting(Record):
    """The certificate: the versions and files to remove and, when it is finished, the new version."""

    name: str
    asked_at: str
    finished_at: str | None = None
    corpora: tuple[CorpusForgotten, ...]
    versions: tuple[VersionRemoved, ...]
    work: tuple[WorkRemoved, ...]
    place: str | None = None
    manifest: str | None = None
    not_seen: tuple[str, ...] = NOT_SEEN

    @property
    def path(self) -> str:
        moment_of_name = self.asked_at[:19].replace(":", "")
        return f"{FORGOTTEN}/{moment_of_name}-{digest_of([self.name, self.asked_at])[:8]}.json"

    @property
    def places(self) -> list[str]:
        return [version.place for version in self.versions]

    def written(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def unfinished_certificates(folder: Folder) -> list[Forgetting]:
    """Return the unfinished certificates. Raises Damaged if a certificate cannot be read."""
    certificates = list[Forgetting]()
    for path in folder.files(FORGOTTEN):
        if path.endswith(".json"):
            try:
                certificates.append(Forgetting.model_validate_json(folder.read(path)))
            except ValueError as error:
                raise Damaged(f"{folder.url}/{path} is cut or changed, or of another version") from error
    return [certificate for certificate in certificates if certificate.finished_at is None]
