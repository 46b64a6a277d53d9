"""Read a published corpus: its manifest, its files and their tables.

`PublishedCorpus.at` opens a corpus by its URL, `PublishedCorpus.of` by its recipe. A method that reads published
files raises Denied if a file is damaged, or if another version of the corpus was published since it was opened.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from re import compile as pattern
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.published import (
    MANIFEST,
    NOTHING,
    PUBLISHED,
    REPAIR,
    Published,
    TableFile,
    manifest_content,
    parsed_manifest,
)
from zyda_flows.tasks.accounts.published_files import FileTable
from zyda_flows.tasks.errors import Damaged, Denied, NoCorpus, ZydaError, first_line
from zyda_flows.tasks.ids import BITS, split
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import WHOLE, Section, groups_of_section, open_table

READERS = 8  # files that are read at once
READ_ROWS = 1 << 18  # of a file that are read at once
SOURCE_FILES = "sources.parquet"
NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
REPUBLISHED = "{url}: another version of this corpus was published meanwhile; start again"
REPAIR_BY_RECIPE = "zyda verify --repair, with the recipe of that corpus, repairs it"


@dataclass(frozen=True)
class PublishedCorpus:
    """A published corpus, in the version that was published when it was opened.

    url: of the published folder. label: the name of the corpus in `removed/` and in mixtures. digest: the SHA-256
    of the manifest. is_own: whether the corpus was opened by its recipe.
    """

    url: str
    label: str
    digest: str
    is_own: bool = field(default=False, compare=False)

    @classmethod
    def at(cls, url: str) -> "PublishedCorpus":
        """Open the corpus at the URL of its folder or of its published folder.

        Raises NoCorpus if no corpus is published there, and Denied if its manifest cannot be read.
        """
        try:
            for folder in (Folder(url).folder(PUBLISHED), Folder(url)):
                content = folder.read_if_there(MANIFEST)
                if content is not None:
                    return cls.from_manifest(folder, content)
        except Damaged as error:
            raise Denied(str(error)) from error
        except ZydaError:
            raise
        except (ValueError, TypeError, ImportError) as error:  # fsspec raises them for odd URLs
            raise Denied(f"{url!r} cannot be read: {first_line(error)}") from error
        raise NoCorpus(f"{url}: no corpus is published there: {PUBLISHED}/{MANIFEST} is missing")

    @classmethod
    def of(cls, recipe: Recipe) -> "PublishedCorpus":
        """Open the published corpus of a recipe.

        Raises NoCorpus if nothing is published yet, and Denied if the manifest is not as it was written.
        """
        folder = recipe.folder
        try:
            if (content := manifest_content(folder)) is not None:
                return cls.from_manifest(folder.folder(PUBLISHED), content, is_own=True)
        except Damaged as error:
            raise Denied(f"{error}; {REPAIR}") from error
        raise NoCorpus(NOTHING.format(url=folder.url))

    @classmethod
    def from_manifest(cls, folder: Folder, content: bytes, *, is_own: bool = False) -> "PublishedCorpus":
        """Open the corpus of a published folder by the content of its manifest. Raises Damaged or Denied."""
        manifest = parsed_manifest(folder, MANIFEST, content)
        if not NAME.fullmatch(manifest.corpus):
            raise Denied(f"{folder.url}/{MANIFEST}: {manifest.corpus!r:.200} is no name of a corpus")
        corpus = cls(folder.url, manifest.corpus, sha256(content).hexdigest(), is_own)
        vars(corpus)["manifest"] = manifest
        return corpus

    def __getstate__(self) -> dict[str, Any]:
        """Leave the manifest out of pickles: few jobs need it, and it can be large."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @cached_property
    def manifest(self) -> Published:
        """The manifest. Raises Denied if another version of the corpus was published since it was opened."""
        content = self.folder.read(MANIFEST)
        if sha256(content).hexdigest() != self.digest:
            raise Denied(REPUBLISHED.format(url=self.url))
        return parsed_manifest(self.folder, MANIFEST, content)

    @property
    def folder(self) -> Folder:
        """The published folder."""
        return Folder(self.url)

    @property
    def root(self) -> Folder:
        """The folder of the corpus; the published folder itself if that lies alone."""
        return Folder(self.url.removesuffix(f"/{PUBLISHED}"))

    @property
    def source_names(self) -> dict[int, str]:
        """The names of the sources, by their numbers in doc_ids."""
        return {origin.number: origin.source for origin in self.manifest.made_of}

    @property
    def file_table(self) -> FileTable:
        """The table of the published files, whose methods raise Damaged."""
        return FileTable(self.folder, self.manifest.table)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise Denied for damage in this block, with the command that repairs it.

        If another version was published since the corpus was opened, Denied says so instead.
        """
        try:
            yield
        except Damaged as error:
            if not self.is_current():
                raise Denied(REPUBLISHED.format(url=self.url)) from error
            raise Denied(f"{error}; {REPAIR if self.is_own else REPAIR_BY_RECIPE}") from error

    def is_current(self) -> bool:
        """Return whether the version that was opened is still published."""
        content = self.folder.read_if_there(MANIFEST)
        return content is not None and sha256(content).hexdigest() == self.digest

    def expect_ids(self) -> "PublishedCorpus":
        """Return the corpus. Raises Denied if its doc_ids are of another version of this software."""
        if self.manifest.id_bits != BITS:
            raise Denied(
                f"{self.root.url}: its doc_ids are of another version of this software; build the corpus again"
            )
        return self

    def expect_listed(self, artifacts: Iterable[Artifact], reader: str = "") -> None:
        """Compare the sizes of published files with the manifest. Raises Denied if a file is missing or differs.

        A store that cannot list its files, such as a web server, is not checked: reading finds what is missing.
        reader: ends the message for a missing file.
        """
        listed = self.folder.listed("")
        if MANIFEST not in listed:
            return
        for artifact in artifacts:
            if artifact.path not in listed:
                raise Denied(f"{self.url}: {artifact.path} is missing{reader}")
            size = listed[artifact.path].get("size")
            if size is not None and size != artifact.size:
                raise Denied(f"{self.url}: {artifact.path} has {size:,} bytes, expected {artifact.size:,}")

    def files(self, prefix: str = "") -> list[TableFile]:
        """Return the published files whose paths begin with `prefix`; all without it."""
        with self.reading():
            return self.file_table.below(prefix)

    def paths(self) -> list[str]:
        """Return the paths of the published files, without their digests and sizes."""
        with self.reading():
            return self.file_table.rows("", ["path"]).column("path").to_pylist()

    def artifacts(self, prefix: str) -> list[Artifact]:
        """Return the published files whose paths begin with `prefix`, as artifacts of the published folder."""
        return [file.to_read() for file in self.files(prefix)]

    def files_with(self, doc_ids: Iterable[int], place: str = "") -> list[tuple[TableFile, list[int]]]:
        """Return the published files that may have documents of `doc_ids`, each with the ids of these documents.

        place: "removed/" for the files of removed documents.
        """
        by_source = dict[int, dict[int, list[int]]]()
        for doc_id in doc_ids:
            source, number, _ = split(doc_id, self.manifest.id_bits)
            by_source.setdefault(source, {}).setdefault(number, []).append(doc_id)
        found = dict[str, tuple[TableFile, list[int]]]()
        for source, ids in by_source.items():
            with self.reading():
                files = self.file_table.of_files(f"{place}{self.source_names.get(source)}", ids)
            for number, files_of_number in files.items():
                for file in files_of_number:
                    found.setdefault(file.path, (file, []))[1].extend(ids[number])
        return [*found.values()]

    def folders(self) -> list[str]:
        """Return the folders that have published files, sorted."""
        with self.reading():
            return self.file_table.folders()

    def source_files(self) -> pa.Table:
        """Return the table of the source files that the corpus was built from, a row each."""
        with self.reading():
            content = self.folder.read(SOURCE_FILES)
            known = {file.sha256 for file in self.manifest.accounts if file.path == SOURCE_FILES}
            if sha256(content).hexdigest() not in known:
                raise Damaged(f"{self.url}/{SOURCE_FILES} has another content than was written", SOURCE_FILES)
            return pq.read_table(BytesIO(content))

    @contextmanager
    def open(self, file: TableFile) -> Iterator[pq.ParquetFile]:
        """Open a published file."""
        with self.reading(), open_table(self.folder, file.to_read()) as parquet:
            yield parquet

    def read(self, file: TableFile, columns: Sequence[str], section: Section = WHOLE) -> pa.Table:
        """Read the columns of a published file, or of a section of it, that are in `columns`."""
        with self.open(file) as parquet:
            names = [name for name in columns if name in parquet.schema_arrow.names]
            return parquet.read_row_groups([*groups_of_section(parquet, section)], names)

    def tables(self, folder: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read the files of a published folder, the columns of each that are in `columns`.

        READERS tables of about READ_ROWS rows are read at once.
        """
        sections = [
            (file, (number, count))
            for file in self.files(f"{folder}/")
            for count in (max(1, -(-file.rows // READ_ROWS)),)
            for number in range(count)
        ]
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(sections), READERS):
                some = sections[start : start + READERS]
                yield from readers.map(lambda part: self.read(part[0], columns, part[1]), some)

    def row_groups(self, folder: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read the files of a published folder by row group: the columns of each file that are in `columns`."""
        for file in self.files(f"{folder}/"):
            yield from self.row_groups_of(file, columns)

    def row_groups_of(self, file: TableFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read a published file by row group: its columns that are in `columns`."""
        with self.open(file) as parquet:
            names = [name for name in columns if name in parquet.schema_arrow.names]
            for group in range(parquet.num_row_groups):
                if parquet.metadata.row_group(group).num_rows:
                    yield parquet.read_row_group(group, names)
