"""The records of stages: artifacts, manifests and receipts, with their keys and paths.

An artifact is one Parquet file that a stage wrote, usually for a shard. Its name contains a key: a hash of the
stage, its version, the parameters that change its content, and the digests of its inputs. A small JSON record
with its digest and its counts is written after it. If both files exist, the artifact is finished and is never
made again.

Every read is checked, because disks and people can change files: the size and the hash of the footer against the
record, each page against its checksum, a whole file against its digest, and a record against its own hash. A
changed file raises Damaged; `forgetting` removes it and the records that mark it as finished, so that it is
rebuilt.

Keys depend on content, not on time: if a stage runs again and writes equal bytes, the keys of later stages do not
change.

The manifest of a stage lists the records of all its artifacts. Prefect and Dask transfer only its `Receipt` (other
systems call it a materialisation record): the path of the manifest, its identity, and counts for the ledger.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record
from zyda_flows.tasks.words import counted

WORK = "work"
MANIFESTS = f"{WORK}/manifests"
RESULTS = f"{WORK}/prefect"  # Prefect's cache of the stages, by their keys


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
        """Return the numbers of documents and tokens for people."""
        return f"{counted(self.documents, 'document')}, {counted(self.tokens, 'token')}"


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


class CleaningCounts(Record):
    """The number of documents that a cleaning changed, and their characters before and after it.

    replaced: number of replacements, for a cleaning that replaces personal data.
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
    """The number of texts with a special token of the tokenizer as characters, and the token's occurrences."""

    documents: int = 0
    occurrences: int = 0

    def __add__(self, other: "SpecialCounts") -> "SpecialCounts":
        return SpecialCounts(
            documents=self.documents + other.documents, occurrences=self.occurrences + other.occurrences
        )


class RareCounts(Record):
    """Counts that are empty for most sources.

    skipped: records of files that are not documents, by their kind. special_tokens: special tokens of the tokenizer
    in texts, by their names.
    """

    skipped: dict[str, int] = {}
    special_tokens: dict[str, SpecialCounts] = {}


FactsOf = TypeVar("FactsOf", bound=Record)
Addable = TypeVar("Addable", Counts, CleaningCounts, SpecialCounts)
Named = TypeVar("Named", bound=Hashable)


def totals(named: Iterable[Mapping[Named, Addable]]) -> dict[Named, Addable]:
    """Add values with equal names; names are in the order of their first occurrence."""
    sums = dict[Named, Addable]()
    for mapping in named:
        for name, value in mapping.items():
            sums[name] = sums[name] + value if name in sums else value
    return sums


class Artifact(Record):
    """The record of an artifact: `path` is relative to the corpus, `digest` is the SHA-256 of its bytes.

    `size` is in bytes. The footer is the last `footer` bytes, with the hash `footer_digest`. `counts` counts the
    documents that remain, `removed` the documents that this artifact removes, `removed_by` the same by reason,
    `cut` the tokens and bytes that it cuts from documents that remain.
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
    cut: Counts = Counts()


class Manifest(RareCounts):
    """All artifacts of a stage, in the order of their names, and their total counts.

    `added_columns` are the columns of these artifacts that are published with kept documents, and `evidence` is the
    packed schema of the columns that are published with removed documents. `cut` counts what is cut from kept
    documents. `intermediate` are the paths of
    intermediate artifacts, which save work in later runs. `removed_by` is `removed` by reason. `cleaned` counts the
    changes of each cleaning, `skipped` the records that are not documents by kind, and `special_tokens` the texts
    with each special token. `facts` are the stage's own `Facts` as JSON values.
    """

    stage: str
    source: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    entering: Counts = Counts()
    out: Counts = Counts()
    removed: Counts = Counts()
    removed_by: dict[str, Counts] = {}
    set_aside: Counts = Counts()
    cut: Counts = Counts()
    cleaned: dict[str, CleaningCounts] = {}
    facts: dict[str, Any] = {}
    added_columns: tuple[str, ...] = ()
    evidence: str = ""
    intermediate: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of the content, from which the keys of later stages are computed."""
        content = [(artifact.name, artifact.digest) for artifact in self.artifacts]
        published = [list(self.added_columns), self.evidence]
        return digest_of([self.stage, self.source, content, self.facts, published])

    def facts_as(self, kind: type[FactsOf]) -> FactsOf:
        return kind.model_validate(self.facts)


class Receipt(RareCounts):
    """The result of a finished stage, small enough to send between processes."""

    stage: str
    source: str | None
    key: str
    path: str
    identity: str
    entering: Counts
    out: Counts
    removed: Counts
    set_aside: Counts
    cut: Counts = Counts()
    removed_by: dict[str, Counts] = {}
    cleaned: dict[str, CleaningCounts] = {}

    def sentence(self) -> str:
        """Describe the result for a log."""
        if self.source is None:
            return f"{self.stage}: finished"
        lost = [f"{self.removed.documents:,} removed"] if self.removed.documents else []
        lost += [f"{self.set_aside.documents:,} set aside"] if self.set_aside.documents else []
        lost += [f"{counted(self.cut.tokens, 'token')} cut"] if self.cut.bytes else []
        return ", ".join([f"{self.stage} {self.source}: {self.out.sentence()}", *lost])


def stage_key(stage: str, version: int, parameters: Any, *inputs: str) -> str:
    """Return the key of a stage's output: a hash of everything that can change the output, and nothing else."""
    return digest_of([stage, version, parameters, list(inputs)])


def artifact_path(stage: str, source: str | None, name: str, key: str) -> str:
    return "/".join(part for part in (WORK, stage, source, f"{name}-{key}.parquet") if part)


def key_of(path: str) -> str:
    """Return the key in the name of an artifact, record or manifest; for other names, an arbitrary part."""
    return path.rpartition("-")[2].partition(".")[0]


def manifest_path(stage: str, source: str | None, key: str) -> str:
    return f"{MANIFESTS}/{stage}-{source or 'all'}-{key}.json"


def receipt_of(manifest: Manifest, key: str, path: str) -> Receipt:
    copied = Receipt.model_fields.keys() - {"key", "path", "identity"}
    counts = manifest.model_dump(include=set(copied))
    return Receipt(**counts, key=key, path=path, identity=manifest.identity)


def load_manifest(folder: Folder, receipt: Receipt) -> Manifest:
    """Read the manifest of a receipt. Raises Damaged if the manifest was changed or removed."""
    manifest = read_record(folder, receipt.path, Manifest)
    if manifest is None:
        raise Damaged(f"{folder.url}/{receipt.path} is missing", receipt.path)
    if receipt_of(manifest, receipt.key, receipt.path) != receipt:
        raise Damaged(f"{folder.url}/{receipt.path} differs from the receipt of its stage", receipt.path)
    return manifest
