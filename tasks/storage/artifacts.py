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

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.counts import CleaningCounts, ControlCounts, Counts, SpecialCounts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, unpack

WORK = "work"
MANIFESTS = f"{WORK}/manifests"
RESULTS = f"{WORK}/prefect"  # Prefect's cache of the stages, by their keys


class RareCounts(Record):
    """Counts that are empty for most sources.

    skipped: records of files that are not documents, by their kind. special_tokens: special tokens of the tokenizer
    in texts, by their names. judged: the documents that a model judged; None for a stage without a model. control:
    the result of a control sample; None for other stages.
    """

    skipped: dict[str, int] = {}
    special_tokens: dict[str, SpecialCounts] = {}
    judged: Counts | None = None
    control: ControlCounts | None = None


FactsOf = TypeVar("FactsOf", bound=Record)
Value = TypeVar("Value")

REASONS = 10  # fields of a line before its reasons
OTHER = "+"  # before names that are no reasons, in which it would be quoted
LINE = re.compile(r"^\S+ \S+ [0-9a-f]{64} \d+ \d+ \d+ [0-9a-f]{64}( (\S+=)?\d+,\d+,\d+){3,}$")


def as_text(counts: Counts) -> str:
    return f"{counts.documents},{counts.tokens},{counts.bytes}"


def as_counts(text: str) -> Counts:
    documents, tokens, size = map(int, text.split(","))
    return Counts(documents=documents, tokens=tokens, bytes=size)


class LineField(Generic[Value]):
    """A field of an artifact's line, by its number in the line and the function that reads its text."""

    def __init__(self, number: int, read: Callable[[str], Value]) -> None:
        self.number, self.read = number, read

    def __get__(self, artifact: "Artifact", _: type["Artifact"]) -> Value:
        return self.read(artifact.line.split(" ", self.number + 1)[self.number])


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact, as one line of text; its fields are read from the line, which records store as a JSON string.

    A process may hold the artifacts of all shards of a source, and a line takes about 400 bytes of memory. It has
    the fields in the order of `made`, separated by spaces; counts have commas between documents, tokens and bytes.
    """

    line: str

    name = LineField(0, unquote)
    path = LineField(1, unquote)
    digest = LineField(2, str)
    rows = LineField(3, int)
    size = LineField(4, int)
    footer = LineField(5, int)
    footer_digest = LineField(6, str)
    counts = LineField(7, as_counts)
    removed = LineField(8, as_counts)
    cut = LineField(9, as_counts)

    @classmethod
    def made(
        cls,
        *,
        name: str,
        path: str,
        digest: str,
        rows: int,
        size: int,
        footer: int,
        footer_digest: str,
        counts: Counts | None = None,
        removed: Counts | None = None,
        removed_by: Mapping[str, Counts] | None = None,
        cut: Counts | None = None,
        other: Mapping[str, Counts] | None = None,
    ) -> "Artifact":
        """Return an artifact.

        Args:
            name: Without its key.
            path: Relative to the corpus.
            digest: SHA-256 of its bytes.
            rows: Number of rows.
            size: Of the file, in bytes.
            footer: Size of the footer at the end of the file, in bytes.
            footer_digest: SHA-256 of the footer.
            counts: The documents that remain.
            removed: The documents that this artifact removes.
            removed_by: The same by reason; empty in manifests, which have the totals.
            cut: The tokens and bytes that it cuts from documents that remain.
            other: Further counts by name, such as `judged`; empty in manifests, too.
        """
        reasons = [f"{quote(reason)}={as_text(lost)}" for reason, lost in (removed_by or {}).items()]
        reasons += [f"{OTHER}{name}={as_text(each)}" for name, each in (other or {}).items()]
        documents = [*(as_text(each or Counts()) for each in (counts, removed, cut)), *reasons]
        own = [quote(name), quote(path), digest, str(rows), str(size), str(footer), footer_digest]
        return cls(" ".join([*own, *documents]))

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return how a record reads an artifact, from a line or as it is, and writes it, as a line."""
        line = core_schema.no_info_after_validator_function(cls, core_schema.str_schema(pattern=LINE.pattern))
        return core_schema.json_or_python_schema(
            line,
            core_schema.union_schema([core_schema.is_instance_schema(cls), line]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                attrgetter("line"), return_schema=core_schema.str_schema()
            ),
        )

    @property
    def removed_by(self) -> dict[str, Counts]:
        return {unquote(name): counts for name, counts in self.named.items() if not name.startswith(OTHER)}

    @property
    def other(self) -> dict[str, Counts]:
        """Further counts by name."""
        return {name[1:]: counts for name, counts in self.named.items() if name.startswith(OTHER)}

    @property
    def named(self) -> dict[str, Counts]:
        """The counts by reason, whose names are quoted, and further counts, whose names begin with OTHER."""
        named = (entry.partition("=") for entry in self.line.split(" ")[REASONS:])
        return {name: as_counts(counts) for name, _, counts in named}

    def at(self, path: str) -> "Artifact":
        """Return the artifact at another path."""
        before, _, *after = self.line.split(" ")
        return Artifact(" ".join([before, quote(path), *after]))

    @property
    def without_reasons(self) -> "Artifact":
        """The artifact without `removed_by` and `other`, for a manifest."""
        return Artifact(" ".join(self.line.split(" ", REASONS)[:REASONS]))


def artifacts_in(value: Any) -> Iterator[Artifact]:
    """Yield the artifacts in a record, at all depths, and in JSON values, such as the facts of a manifest."""
    match value:
        case Artifact():
            yield value
        case str() if LINE.search(value):
            yield Artifact(value)
        case Record():
            yield from (artifact for _, part in value for artifact in artifacts_in(part))
        case dict():
            yield from (artifact for part in value.values() for artifact in artifacts_in(part))
        case list() | tuple():
            yield from (artifact for part in value for artifact in artifacts_in(part))


class ArtifactRecord(Record):
    """The record that marks an artifact as finished, beside its file."""

    artifact: Artifact


class Manifest(RareCounts):
    """All artifacts of a stage, in the order of their names, and their total counts.

    `added` is the packed schema of the columns of these artifacts that are published with documents, and `evidence`
    of the columns that are published only with removed documents. `cut` counts the tokens and bytes that are cut
    from kept documents. `intermediate` are the paths of intermediate artifacts, which save work in later runs.
    `removed_by` is `removed` by reason. `cleaned` counts the changes of each cleaning, `skipped` the records that
    are not documents by kind, and `special_tokens` the texts with each special token. `facts` are the stage's own
    `Facts` as JSON values.
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
    added: str = ""
    evidence: str = ""
    intermediate: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of the content, from which the keys of later stages are computed."""
        content = [(artifact.name, artifact.digest) for artifact in self.artifacts]
        return digest_of([self.stage, self.source, content, self.facts, [self.added, self.evidence]])

    @property
    def added_columns(self) -> tuple[pa.Field, ...]:
        """The columns of the artifacts that are published with documents."""
        return tuple(unpack(self.added)) if self.added else ()

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
        lost += [f"{self.cut.tokens:,} tokens cut"] if self.cut.bytes else []
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
