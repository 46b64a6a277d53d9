"""The manifest of a published corpus, and the record of how storage listed the published files."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, ValidationError

from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.accounts.bucketed import ScorePercentiles
from zyda_flows.tasks.accounts.joined import JoinAccount
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.paired import PairAccount
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.artifacts import WORK, Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, read_record

PUBLISHED = "published"
MANIFEST = "manifest.json"
STAMPS = f"{WORK}/published.json"
NOTHING = "{url}: nothing is published there yet; zyda build builds the corpus"
REPAIR = "zyda verify --repair repairs it"


class File(Record):
    """A published file.

    size: in bytes. checked_at: when its bytes were last compared with its SHA-256 before the manifest was written,
    ISO 8601 in UTC.
    """

    path: str
    sha256: str
    size: int
    checked_at: str | None = None


class TableFile(File):
    """A published Parquet file.

    footer: the size of its footer in bytes. footer_sha256: the SHA-256 of the footer. text: the UTF-8 bytes of the
    texts of its documents, None for other files. made_as: the artifact in the work folder from which the file was
    published.
    """

    rows: int
    footer: int
    footer_sha256: str
    text: int | None = None
    made_as: Artifact | None = Field(None, exclude=True)

    def to_read(self) -> Artifact:
        """Return the file as an artifact of the published folder, to be read with all checks."""
        name = self.path.rpartition("/")[2].rpartition("-")[0]
        return Artifact.made(
            name=name, path=self.path, digest=self.sha256, rows=self.rows, size=self.size,
            footer=self.footer, footer_digest=self.footer_sha256,
            counts=Counts(documents=self.rows, bytes=self.text or 0),
        )  # fmt: skip


class Origin(Record):
    """The input of a source. Its files are listed in sources.parquet.

    number: of the source in doc_ids. files, bytes: their number and total size. models: the models that judged its
    documents, in order.
    """

    source: str
    number: int
    files: int
    bytes: int
    models: tuple[dict[str, str], ...] = ()


NO_TABLE = TableFile(
    path="", sha256="", size=0, rows=0, footer=0, footer_sha256=""
)  # before the table is written


class PublishedKeys(Record):
    """The published band keys of a round, by which other corpora find near-duplicates.

    parameters: of the round. documents: the number of documents with keys.
    """

    parameters: dict[str, Any]
    documents: int


class PublishedVectors(Record):
    """The published vectors of a judge for a source: a row for each kept document that the judge judged.

    mean_error, largest_error: the length of the difference of a vector in 8 bits to the exact vector, divided by
    the length of the exact vector.
    """

    judge: str
    source: str
    dimensions: int
    documents: int
    mean_error: float
    largest_error: float


class NamedDigest(Record):
    """An input that is not published, with its SHA-256; for another corpus the SHA-256 of its manifest."""

    name: str
    sha256: str


class Published(Record):
    """The manifest. Builds of the same corpus have equal manifests, except for `checked_at`.

    reasons: for each stage that removes documents, its reasons, each with a sentence about a document. audits,
    bands: of each round of near-duplicates, by folder. against: the other corpora of the rounds. lists: the lists
    of terms that rules counted. joins: the accounts of the joins of the sources. percentiles: of the scores by
    which documents are in buckets. vectors: the published vectors; None if there are none. semantic: the accounts
    of semantic rounds, by the folder of their pairs; None if there are none. id_bits: bits of a doc_id for the
    source, the file and the row. table: the table of the published files
    (`tasks.accounts.published_files`). accounts: files for people, written after the manifest.
    """

    name: str
    sample: float
    software: str
    tokenizer: dict[str, str]
    recipe: dict[str, Any]
    made_of: tuple[Origin, ...]
    id_bits: tuple[int, int, int]
    ledger: Ledger
    reasons: dict[str, dict[str, str]] = {}
    audits: dict[str, AuditCounts] = {}
    bands: dict[str, PublishedKeys] = {}
    against: tuple[NamedDigest, ...] = ()
    lists: tuple[NamedDigest, ...] = ()
    joins: tuple[JoinAccount, ...] = ()
    percentiles: tuple[ScorePercentiles, ...] = ()
    vectors: tuple[PublishedVectors, ...] | None = None
    semantic: dict[str, PairAccount] | None = None
    table: TableFile
    accounts: tuple[File, ...]

    @property
    def corpus(self) -> str:
        """The name of the folder of the corpus; a sample is a separate corpus."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    @property
    def named(self) -> tuple[File, ...]:
        """The files that the manifest lists: the accounts, and the table of all other files."""
        return (self.table, *self.accounts)

    def written(self) -> bytes:
        """Return the manifest as JSON."""
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def with_check_times(files: Iterable[TableFile], when: Mapping[str, str]) -> tuple[TableFile, ...]:
    """Return the files with the times at which each was compared with its digest. when: times by path."""
    return tuple(file.model_copy(update={"checked_at": when.get(file.path)}) for file in files)


class FileStamps(Facts):
    """How storage listed each published file when it was published.

    table: the stamps, with the columns STAMPED. manifests: the manifest, which cannot list itself; while it is
    being replaced, the former and the new manifest.
    """

    manifests: tuple[File, ...] = ()
    table: Artifact | None = None


def published_manifest(folder: Folder) -> Published | None:
    """Read the manifest of the published corpus; return None, with a warning, if it is missing or damaged."""
    try:
        return manifest_if_there(folder)
    except Damaged as error:
        warn(str(error))
        return None


def manifest_if_there(folder: Folder) -> Published | None:
    """Read the manifest, or return None if nothing is published. Raises Damaged if it has changed."""
    content = manifest_content(folder)
    return None if content is None else parsed_manifest(folder, f"{PUBLISHED}/{MANIFEST}", content)


def manifest_content(folder: Folder) -> bytes | None:
    """Return the bytes of the manifest, None if nothing is published. Raises Damaged if they have changed."""
    path = f"{PUBLISHED}/{MANIFEST}"
    for _ in range(2):  # a build may publish another manifest between the two readings
        content = folder.read_if_there(path)
        expected = {manifest.sha256 for manifest in saved_stamps(folder).manifests}
        if content is None or not expected or hashlib.sha256(content).hexdigest() in expected:
            return content
    raise Damaged(f"{folder.url}/{path} is not as it was published", path)


def parsed_manifest(folder: Folder, path: str, content: bytes) -> Published:
    """Return the manifest that `content` holds. Raises Damaged if it is no manifest of this version."""
    try:
        return Published.model_validate_json(content)
    except ValidationError as error:
        raise Damaged(f"{folder.url}/{path} is cut or changed, or of another version", path) from error


def saved_stamps(folder: Folder) -> FileStamps:
    try:
        stamps = read_record(folder, STAMPS, FileStamps)
    except Damaged as error:
        warn(f"{error}; the published files have to be read to find out whether they are intact")
        stamps = None
    return stamps or FileStamps()
