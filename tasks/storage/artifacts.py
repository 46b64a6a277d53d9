"""What the stages leave on storage, and how a later run knows that it is there.

An artifact is one Parquet file that a stage wrote, for one shard as a rule. Its name carries a key: a hash of
the stage, its version, the parameters that change its content and the digests of what it was made
from. Beside it, written after it, lies a small JSON record with its digest and its counts: where
both are, the artifact is finished and is never made again.

What is read is checked, for disks and people change files: a file's size and the hash of its footer
against its record, each page against its checksum, a file that is read whole against its digest, a
record against a hash of its own. What is not as it was written raises Damaged; `forgetting` removes it with
all that says it is finished, so that it is made again.

Keys follow content, not time: a stage that is run again and writes the same bytes leaves the keys
of everything after it as they were.

The manifest of a stage lists the records of all its artifacts. Through Prefect and Dask travels only its
`Receipt` (elsewhere a materialisation record): where the manifest is, its identity, counts for the ledger.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, Sealed, digest_of, read_record, write_record
from zyda_flows.tasks.words import counted

WORK = "work"
MANIFESTS = f"{WORK}/manifests"
RESULTS = f"{WORK}/prefect"  # what Prefect remembers of the stages, by their keys


class Counts(Record):
    """Documents, tokens and UTF-8 bytes of text."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents + other.documents,
            tokens=self.tokens + other.tokens,
            bytes=self.bytes + other.bytes,
        )

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents - other.documents,
            tokens=self.tokens - other.tokens,
            bytes=self.bytes - other.bytes,
        )

    def sentence(self) -> str:
        """Say how many documents and tokens, for people."""
        return f"{counted(self.documents, 'document')}, {counted(self.tokens, 'token')}"


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


class CleaningCounts(Record):
    """How many documents a cleaning changed, and their characters before and after it.

    replaced: how many times something was put in the place of personal data, where that is what it does.
    """

    documents: int = 0
    characters_before: int = 0
    characters_after: int = 0
    replaced: int = 0

    def __add__(self, other: "CleaningCounts") -> "CleaningCounts":
        return CleaningCounts(
            documents=self.documents + other.documents,
            characters_before=self.characters_before + other.characters_before,
            characters_after=self.characters_after + other.characters_after,
            replaced=self.replaced + other.replaced,
        )


class SpecialCounts(Record):
    """How many texts hold a special token of the tokenizer, as characters, and how often they do."""

    documents: int = 0
    occurrences: int = 0

    def __add__(self, other: "SpecialCounts") -> "SpecialCounts":
        return SpecialCounts(
            documents=self.documents + other.documents, occurrences=self.occurrences + other.occurrences
        )


class RareCounts(Record):
    """What most sources have none of.

    skipped: records of files that are no documents, by what they are. special_tokens: those of the tokenizer that
    texts hold, by their names.
    """

    skipped: dict[str, int] = {}
    special_tokens: dict[str, SpecialCounts] = {}


FactsOf = TypeVar("FactsOf", bound=Record)
Addable = TypeVar("Addable", Counts, CleaningCounts, SpecialCounts)
Named = TypeVar("Named", bound=Hashable)


def totals(named: Iterable[Mapping[Named, Addable]]) -> dict[Named, Addable]:
    """Add up what stands under the same names, in the order in which these first come."""
    sums = dict[Named, Addable]()
    for one in named:
        for name, value in one.items():
            sums[name] = sums[name] + value if name in sums else value
    return sums


class Artifact(Record):
    """The record of one artifact: `path` is relative to the corpus, `digest` is the SHA-256 of its bytes.

    `size` is in bytes, `footer` of them at its end, whose hash is `footer_digest`. `counts` are of the
    documents that stay, `removed` of those that this artifact says go, and `removed_by` of those by reason.
    """

    name: str
    path: str
    digest: str
    rows: int
    size: int
    footer: int
    footer_digest: str
    counts: Counts = Counts()
    removed: Counts = Counts()
    removed_by: dict[str, Counts] = {}


class Manifest(RareCounts):
    """All the artifacts of a stage, in the order of their names, and what they add up to.

    `added_columns` are those of these artifacts that are published beside a document that stays, `evidence`
    those that are published of one that goes: a schema, packed. `intermediate` are the paths of others that
    were made on the way, and save work the next time. `removed_by` is `removed` by reason, `cleaned` what each
    cleaning changed, by its name, `skipped` how many records are no documents, by what they are,
    `special_tokens` how many texts hold each. `facts` are those of the stage's own kind of `Facts`, as written.
    """

    stage: str
    source: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    entering: Counts = Counts()
    out: Counts = Counts()
    removed: Counts = Counts()
    removed_by: dict[str, Counts] = {}
    set_aside: Counts = Counts()
    cleaned: dict[str, CleaningCounts] = {}
    facts: dict[str, Any] = {}
    added_columns: tuple[str, ...] = ()
    evidence: str = ""
    intermediate: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of the content: what the keys of the stages after this one are made from."""
        content = [(artifact.name, artifact.digest) for artifact in self.artifacts]
        published = [list(self.added_columns), self.evidence]
        return digest_of([self.stage, self.source, content, self.facts, published])

    def facts_as(self, kind: type[FactsOf]) -> FactsOf:
        return kind.model_validate(self.facts)


class Receipt(RareCounts):
    """What a finished stage hands on: small enough to travel."""

    stage: str
    source: str | None
    key: str
    path: str
    identity: str
    entering: Counts
    out: Counts
    removed: Counts
    set_aside: Counts
    removed_by: dict[str, Counts] = {}
    cleaned: dict[str, CleaningCounts] = {}

    def sentence(self) -> str:
        """Say what happened, for a log."""
        if self.source is None:
            return f"{self.stage}: finished"
        lost = [f"{self.removed.documents:,} removed"] if self.removed.documents else []
        lost += [f"{self.set_aside.documents:,} set aside"] if self.set_aside.documents else []
        return ", ".join([f"{self.stage} {self.source}: {self.out.sentence()}", *lost])


def stage_key(stage: str, version: int, parameters: Any, *inputs: str) -> str:
    """Return the key of a stage's output: of all that can change it, and of nothing else."""
    return digest_of([stage, version, parameters, list(inputs)])


def artifact_path(stage: str, source: str | None, name: str, key: str) -> str:
    return "/".join(part for part in (WORK, stage, source, f"{name}-{key}.parquet") if part)


def finished_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Return the record at a path where it and every artifact that it names are there, whole by size.

    Otherwise the work is to be done again; what was wrong is said in the log.
    """
    try:
        record = read_record(folder, path, kind)
    except Damaged as error:
        warn(f"{error}; it is made again")
        return None
    for artifact in artifacts_of(record):
        if folder.size_of(artifact.path) != artifact.size:
            if artifact.path.startswith(
                f"{WORK}/"
            ):  # else a later build may have replaced what was published
                warn(f"artifact missing or truncated, rebuilding: {folder.url}/{artifact.path}")
            return None
    return record


def artifacts_of(record: Record | None) -> Iterator[Artifact]:
    """Yield the artifacts that a record vouches for."""
    if isinstance(record, Artifact):
        yield record
    elif record is not None:
        for _, value in record:
            members = value if isinstance(value, tuple) else (value,)
            yield from (member for member in members if isinstance(member, Artifact))


def finished_artifact(folder: Folder, path: str) -> Artifact | None:
    """Return the record of an artifact, or None where it is not finished."""
    return finished_record(folder, f"{path}.json", Artifact)


def key_of(path: str) -> str:
    """Return the key in the name of an artifact, record or manifest, or what stands in its place."""
    return path.rpartition("-")[2].partition(".")[0]


def manifest_path(stage: str, source: str | None, key: str) -> str:
    return f"{MANIFESTS}/{stage}-{source or 'all'}-{key}.json"


def finished_stage(folder: Folder, stage: str, source: str | None, key: str) -> Receipt | None:
    """Return the receipt of a stage that was finished before, or None."""
    path = manifest_path(stage, source, key)
    try:
        manifest = read_record(folder, path, Manifest)
    except Damaged as error:
        warn(f"{error}; it is made again")
        return None
    return receipt_of(manifest, key, path) if manifest else None


def finish_stage(folder: Folder, manifest: Manifest, key: str) -> Receipt:
    """Write the manifest that makes a stage finished, and return its receipt."""
    path = manifest_path(manifest.stage, manifest.source, key)
    write_record(folder, path, manifest)
    return receipt_of(manifest, key, path)


def receipt_of(manifest: Manifest, key: str, path: str) -> Receipt:
    handed_on = Receipt.model_fields.keys() - {"key", "path", "identity"}
    counts = manifest.model_dump(include=set(handed_on))
    return Receipt(**counts, key=key, path=path, identity=manifest.identity)


def load_manifest(folder: Folder, receipt: Receipt) -> Manifest:
    """Read the manifest of a receipt. Raises Damaged where it is not as it was written, or gone."""
    manifest = read_record(folder, receipt.path, Manifest)
    if manifest is None:
        raise Damaged(f"{folder.url}/{receipt.path} is gone", receipt.path)
    if receipt_of(manifest, receipt.key, receipt.path) != receipt:
        raise Damaged(f"{folder.url}/{receipt.path} is not what its stage said that it left", receipt.path)
    return manifest
