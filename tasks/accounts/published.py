"""The published folder: what its manifest says of it, and whether it is still so."""

import hashlib
from collections.abc import Iterable
from typing import Any

from pydantic import Field, ValidationError

from tasks.accounts.audited import Audited
from tasks.accounts.ledger import Ledger
from tasks.errors import Damaged, Denied
from tasks.ids import BITS
from tasks.log import warn
from tasks.recipe.fields import Recipe
from tasks.storage.artifacts import WORK, Shard
from tasks.storage.folder import Folder
from tasks.storage.records import Record, read_record, write_record

PUBLISHED = "published"
MANIFEST = "manifest.json"
STAMPS = f"{WORK}/published.json"


class File(Record):
    """A published file: `size` in bytes, `rows` where it is a table. `made_as` is where it was made.

    Of a table, `footer` is the size of its Parquet footer in bytes, and `footer_sha256` of what it is.
    """

    path: str
    sha256: str
    size: int
    rows: int | None = None
    footer: int | None = None
    footer_sha256: str | None = None
    made_as: Shard | None = Field(None, exclude=True)

    def to_read(self, place: str = "") -> Shard | None:
        """Return the file as an artifact, to be read with all checks, where the manifest has what they need.

        place: the folder that its path is relative to.
        """
        if self.rows is None or self.footer is None or self.footer_sha256 is None:
            return None
        name = self.path.rpartition("/")[2].rpartition("-")[0]
        return Shard(
            name=name, path=f"{place}{self.path}", digest=self.sha256, rows=self.rows, size=self.size,
            footer=self.footer, footer_digest=self.footer_sha256,
        )  # fmt: skip


class Origin(Record):
    """What a source was made of: how many files of how many bytes, and the model that judged it, if any.

    `number` is the source's in doc_ids. The files themselves are in sources.parquet.
    """

    source: str
    number: int
    files: int
    bytes: int
    model: dict[str, str] | None = None


class PublishedKeys(Record):
    """The band keys of a round, by which others find what is published: how they were made, of how many."""

    parameters: dict[str, Any]
    documents: int


class Named(Record):
    """Something that is not part of the corpus, by its name and the SHA-256 of it: of a corpus, of its manifest."""

    name: str
    sha256: str


class Published(Record):
    """The manifest. It holds no time and no place of storage: same corpus, same bytes.

    `reasons` are, for each stage that lets documents go, those for which it does, each with a sentence about a
    document. `audits` are of each round of near-duplicates, by its folder, and so are `bands`. `against` are the
    other corpora, as they were, `lists` the lists of terms that rules counted. `id_bits` are how many bits of a
    doc_id say the source, the file and the row. `files` are the corpus. `accounts` are for people, and are written
    after the manifest.
    """

    name: str
    sample: float
    software: str
    tokenizer: dict[str, str]
    recipe: dict[str, Any]
    made_of: tuple[Origin, ...]
    id_bits: tuple[int, int, int] = (8, 24, 32)  # those of corpora from before they stood here
    ledger: Ledger
    reasons: dict[str, dict[str, str]] = {}
    audits: dict[str, Audited] = {}
    bands: dict[str, PublishedKeys] = {}
    against: tuple[Named, ...] = ()
    lists: tuple[Named, ...] = ()
    files: tuple[File, ...]
    accounts: tuple[File, ...]

    @property
    def corpus(self) -> str:
        """The name of its folder: a sample is a corpus of its own."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    @property
    def everything(self) -> tuple[File, ...]:
        return (*self.files, *self.accounts)


class Stamps(Record):
    """What storage said of each published file when it was published: its size and when it was written.

    `manifest` is what the manifest was, which cannot stand in itself.
    """

    stamps: dict[str, str] = {}
    manifest: File | None = None


def published_manifest(folder: Folder) -> Published | None:
    """Read the manifest of the published corpus, or return None where there is none that can be read."""
    content = folder.read_if_there(f"{PUBLISHED}/{MANIFEST}")
    try:
        return None if content is None else Published.model_validate_json(content)
    except ValidationError:
        warn(f"{folder.url}/{PUBLISHED}/{MANIFEST} is cut or changed, or of another version")
        return None


def corpus_of(recipe: Recipe) -> tuple[Folder, Published]:
    """Return a recipe's folder and the manifest of what is published there. Raises Denied."""
    folder = recipe.folder
    manifest = published_manifest(folder)
    if manifest is None:
        raise Denied(f"{folder.url}: nothing is published there yet; zyda build makes it")
    return folder, manifest


def corpus_with_ids(recipe: Recipe) -> tuple[Folder, Published]:
    """Return the same of a corpus whose doc_ids are to be read. Raises Denied where they are of another version."""
    folder, manifest = corpus_of(recipe)
    if manifest.id_bits != BITS:
        raise Denied(
            f"{folder.url}: its doc_ids are of another version of this software; build the corpus again"
        )
    return folder, manifest


def published_ledger(recipe: Recipe) -> Ledger:
    """Read the ledger of a recipe's published corpus. Raises Denied where there is none."""
    return corpus_of(recipe)[1].ledger


def stamps_now(folder: Folder) -> dict[str, str]:
    """List the published files, with what storage says of each without reading it."""
    return {path.removeprefix(f"{PUBLISHED}/"): stamp for path, stamp in folder.stamps(PUBLISHED).items()}


def keep_stamps(folder: Folder, files: Iterable[File], manifest: bytes, seen: dict[str, str]) -> None:
    """Remember what storage says of the published files.

    seen: what it said before they were read. Of those it is remembered and not what it says now: somebody
    may have changed a file since.
    """
    names = {file.path for file in files} | {MANIFEST}
    stamps = {path: stamp for path, stamp in (stamps_now(folder) | seen).items() if path in names}
    itself = File(path=MANIFEST, sha256=hashlib.sha256(manifest).hexdigest(), size=len(manifest))
    write_record(folder, STAMPS, Stamps(stamps=stamps, manifest=itself))


def kept_stamps(folder: Folder) -> Stamps:
    try:
        stamps = read_record(folder, STAMPS, Stamps)
    except Damaged as error:
        warn(f"{error}; the published files are read to see whether they are whole")
        stamps = None
    return stamps or Stamps()


def doubts(folder: Folder, manifest: Published, now: dict[str, str]) -> tuple[list[File], list[File]]:
    """Return the published files that are gone, and those that may not be as they were.

    Of these storage does not say what it said when they were published: it takes reading them to know.
    now: what storage says of the files that are there.
    """
    before = kept_stamps(folder)
    files = [*manifest.everything, *([before.manifest] if before.manifest else [])]
    files_there = [file for file in files if file.path in now]
    changed = [file for file in files_there if before.stamps.get(file.path) != now[file.path]]
    return [file for file in files if file.path not in now], changed


def difference(folder: Folder, file: File) -> str | None:
    """Read a published file and say how it differs from what the manifest says of it, if it does."""
    return folder.difference(f"{PUBLISHED}/{file.path}", file.size, file.sha256)
