"""The published folder: what its manifest says of it, and whether it is still so."""

import hashlib
from collections.abc import Iterable, Mapping
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
NOTHING = "{url}: nothing is published there yet; zyda build makes it"


class File(Record):
    """A published file: `size` in bytes, `rows` where it is a table. `made_as` is where it was made.

    Of a table, `footer` is the size of its Parquet footer in bytes, and `footer_sha256` of what it is. `checked_at`
    is when its bytes were last compared with its SHA-256 before the manifest was written: ISO 8601 in UTC.
    """

    path: str
    sha256: str
    size: int
    rows: int | None = None
    footer: int | None = None
    footer_sha256: str | None = None
    checked_at: str | None = None
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
    """The manifest. It holds no place of storage, and no time but `checked_at`: same corpus, same bytes otherwise.

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

    def checked(self, when: Mapping[str, str]) -> "Published":
        """Return the manifest with other times at which its files were compared, by their paths."""
        files, accounts = (
            tuple(file.model_copy(update={"checked_at": when.get(file.path)}) for file in of)
            for of in (self.files, self.accounts)
        )
        return self.model_copy(update={"files": files, "accounts": accounts})


class FileStamps(Record):
    """What storage said of each published file when it was published: its size and when it was written.

    `checked` is when each file was last compared with its SHA-256. `manifests` is what the manifest was, which
    cannot stand in itself: while it is being replaced, the one before and the one after.
    """

    KIND = "Stamps"

    stamps: dict[str, str] = {}
    checked: dict[str, str] = {}
    manifests: tuple[File, ...] = ()


def published_manifest(folder: Folder) -> Published | None:
    """Read the manifest of the published corpus, or return None where there is none that is as it was."""
    try:
        return manifest_there(folder)
    except Damaged as error:
        warn(str(error))
        return None


def manifest_there(folder: Folder) -> Published | None:
    """Read the manifest, or return None where there is none. Raises Damaged where it is not as it was published."""
    path = f"{PUBLISHED}/{MANIFEST}"
    for _ in range(2):  # between the two readings a build may have published another
        content = folder.read_if_there(path)
        expected = {manifest.sha256 for manifest in saved_stamps(folder).manifests}
        if content is None or not expected or hashlib.sha256(content).hexdigest() in expected:
            break
    else:
        raise Damaged(f"{folder.url}/{path} is not as it was published", path)
    try:
        return None if content is None else Published.model_validate_json(content)
    except ValidationError as error:
        raise Damaged(f"{folder.url}/{path} is cut or changed, or of another version", path) from error


def corpus_of(recipe: Recipe) -> tuple[Folder, Published]:
    """Return a recipe's folder and the manifest of what is published there. Raises Denied."""
    folder = recipe.folder
    try:
        manifest = manifest_there(folder)
    except Damaged as error:
        raise Denied(f"{error}; zyda verify --repair mends it") from error
    if manifest is None:
        raise Denied(NOTHING.format(url=folder.url))
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


def current_stamps(folder: Folder) -> dict[str, str]:
    """List the published files, with what storage says of each without reading it."""
    return {path.removeprefix(f"{PUBLISHED}/"): stamp for path, stamp in folder.stamps(PUBLISHED).items()}


def save_stamps(
    folder: Folder, files: Iterable[File], manifest: bytes, seen: dict[str, str], checked: Mapping[str, str]
) -> None:
    """Remember what storage says of the published files, and when each was last compared with its digest.

    seen: what it said before they were read. Of those it is remembered and not what it says now: somebody
    may have changed a file since.
    """
    names = {file.path for file in files} | {MANIFEST}
    stamps = {path: stamp for path, stamp in (current_stamps(folder) | seen).items() if path in names}
    times = {path: time for path, time in checked.items() if path in names}
    write_record(folder, STAMPS, FileStamps(stamps=stamps, checked=times, manifests=(of_manifest(manifest),)))


def expect_manifest(folder: Folder, manifest: bytes) -> None:
    """Let whoever reads the manifest from now on find this one instead of the one that was expected."""
    kept = saved_stamps(folder)
    if kept.manifests:
        manifests = (*kept.manifests[-1:], of_manifest(manifest))
        write_record(folder, STAMPS, kept.model_copy(update={"manifests": manifests}))


def keep_checked(folder: Folder, before: FileStamps, paths: Iterable[str], when: str) -> None:
    """Remember when published files were compared, unless others have been published since `before`."""
    if before.manifests and saved_stamps(folder) == before:
        checked = before.checked | dict.fromkeys(paths, when)
        write_record(folder, STAMPS, before.model_copy(update={"checked": checked}))


def of_manifest(content: bytes) -> File:
    return File(path=MANIFEST, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def saved_stamps(folder: Folder) -> FileStamps:
    try:
        stamps = read_record(folder, STAMPS, FileStamps)
    except Damaged as error:
        warn(f"{error}; only reading the published files tells whether they are whole")
        stamps = None
    return stamps or FileStamps()


def possibly_changed(
    folder: Folder, manifest: Published, now: dict[str, str]
) -> tuple[list[File], list[File]]:
    """Return the published files that are gone, and those that may not be as they were.

    Of these storage does not say what it said when they were published: it takes reading them to know.
    now: what storage says of the files that are there.
    """
    before = saved_stamps(folder)
    files = [*manifest.everything, *before.manifests[-1:]]
    files_there = [file for file in files if file.path in now]
    changed = [file for file in files_there if before.stamps.get(file.path) != now[file.path]]
    return [file for file in files if file.path not in now], changed


def difference(folder: Folder, file: File) -> str | None:
    """Read a published file and say how it differs from what the manifest says of it, if it does."""
    return folder.difference(f"{PUBLISHED}/{file.path}", file.size, file.sha256)
