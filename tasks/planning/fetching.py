"""Copies of the sources' files in a folder, made several files at a time; existing copies are not made again."""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from zyda_flows.tasks.errors import BadRecipe, Damaged, Unavailable, ZydaError
from zyda_flows.tasks.planning.files_to_fetch import expect_no_copies, listed_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.copies import COPIES, FetchedFile, copies_by_file, read_fetched, write_fetched
from zyda_flows.tasks.sources.dump_checksums import published_sha1
from zyda_flows.tasks.sources.file_systems import is_version, version_of
from zyda_flows.tasks.sources.input_files import sampled_files
from zyda_flows.tasks.sources.streams import open_input
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import PAUSE

AT_ONCE_BYTES = 16 << 20
SECONDS_BETWEEN_TABLES = 30.0
UNSAFE_CHARACTERS = re.compile(
    r"[^A-Za-z0-9._+@=-]"
)  # characters that some stores and programs interpret in names
LONGEST_NAME = 100
STOPPED = "it was stopped"
Mark = tuple[str, str, str]


class Fetch:
    """The files of a recipe's sources, and their copies in a folder.

    files: all listed files. wanted: the files of the sample. copies: of files with an unchanged copy, by their
    keys. refused: changed copies, which are not read from the table again.
    """

    def __init__(self, recipe: Recipe, folder: Folder) -> None:
        self.folder = folder
        folder.clear_scratch()
        self.files = listed_files(recipe)
        expect_no_copies(folder, self.files)
        self.lock, self.is_stopped = threading.Lock(), threading.Event()
        self.written, self.has_copied = time.monotonic(), False
        self.wanted = self.chosen(recipe)
        self.copies, self.refused = copies_by_file(read_fetched(folder)), dict[Mark, FetchedFile]()
        self.listed_copies = folder.listed(COPIES)  # a single listing instead of a request for each file
        for copy in [*self.copies.values()]:
            info = self.listed_copies.get(copy.path)
            if info is None or not is_version(info, copy.copy_version):
                self.refuse(copy)

    @property
    def to_copy(self) -> list[FetchedFile]:
        """The wanted files without a copy, each once."""
        return [*{file.key: file for file in self.wanted if file.key not in self.copies}.values()]

    @property
    def to_verify(self) -> list[FetchedFile]:
        """The existing copies of wanted files, whatever their modification times."""
        known = copies_by_file(self.refused.values()) | self.copies
        copies = {file.key: known[file.key] for file in self.wanted if file.key in known}
        return [copy for copy in copies.values() if copy.path in self.listed_copies]

    def refuse(self, copy: FetchedFile) -> None:
        self.refused[copy.mark] = copy
        del self.copies[copy.key]

    def chosen(self, recipe: Recipe) -> list[FetchedFile]:
        """Return the files of the recipe's sample, and all labels, each once."""
        by_source = dict[str, dict[str, FetchedFile]]()
        for file in self.files:
            by_source.setdefault(file.source, {})[file.url] = file
        chosen = list[FetchedFile]()
        for source in recipe.sources:
            own = by_source.pop(source.name)
            inputs = [file.input_file(self.folder) for file in own.values()]
            chosen += [own[file.url] for file in sampled_files(inputs, recipe.sample)]
        return chosen + [file for labels in by_source.values() for file in labels.values()]

    def verify_all(self, at_once: int, tell: Callable[[int], object]) -> None:
        """Read the copies of wanted files and compare their digests; unchanged copies are used.

        tell: called with the number of bytes read.
        """

        def verify(copy: FetchedFile) -> None:
            is_whole = self.folder.difference(copy.path, copy.size, copy.sha256) is None
            self.tell_unless_stopped(copy.size, tell)
            with self.lock:
                if is_whole:  # its modification time differs if it was moved
                    now = copy_version(self.folder, copy.path)
                    self.copies[copy.key] = copy.model_copy(update={"copy_version": now})
                elif copy.key in self.copies:
                    self.refuse(copy)

        self.side_by_side(verify, self.to_verify, at_once)

    def copy_all(self, at_once: int, tell: Callable[[int], object]) -> None:
        """Copy the files of `to_copy`, a number of files at a time. tell: called with the number of bytes copied.

        Raises BadRecipe with all failures, after all other files are copied.
        """
        faults = list[str]()

        def copy(file: FetchedFile) -> None:
            PAUSE.set(self.wait_unless_stopped)
            try:
                copied = copy_file(self.folder, file, lambda size: self.tell_unless_stopped(size, tell))
            except ZydaError as error:
                with self.lock:
                    faults.extend(error.faults)
                return
            with self.lock:
                self.copies[file.key], self.has_copied = copied, True
                if time.monotonic() - self.written > SECONDS_BETWEEN_TABLES:
                    self.write_table()

        self.side_by_side(copy, self.to_copy, at_once)
        if faults:
            raise BadRecipe(*faults)

    def tell_unless_stopped(self, size: int, tell: Callable[[int], object]) -> None:
        if self.is_stopped.is_set():
            raise Unavailable(STOPPED)
        tell(size)

    def wait_unless_stopped(self, seconds: float) -> None:
        if self.is_stopped.wait(seconds):
            raise Unavailable(STOPPED)

    def side_by_side(
        self, function: Callable[[FetchedFile], object], files: Sequence[FetchedFile], at_once: int
    ) -> None:
        """Call a function on files, several at a time, and write the table at the end, also after a failure."""
        with self.table_at_the_end(), ThreadPoolExecutor(at_once) as threads:
            try:
                for _ in threads.map(function, files):
                    pass
            except BaseException:
                self.is_stopped.set()
                threads.shutdown(cancel_futures=True)
                raise

    def write_table(self) -> None:
        """Write the table of all current files, and of files that others have fetched to the same folder."""
        table = read_fetched(self.folder)
        for key, copy in copies_by_file(table).items():
            own = self.copies.get(key)
            if copy.mark in self.refused or (own and copy.mark == own.mark):
                continue
            if own is None or copy_version(self.folder, own.path) != own.copy_version:
                self.copies[key] = copy  # another process has copied it meanwhile
        patterns = {(file.source, file.pattern) for file in self.files}
        rows = [file.copied_as(self.copies.get(file.key)) for file in self.files]
        rows += [row for row in table if (row.source, row.pattern) not in patterns]
        if rows != [*table]:
            write_fetched(self.folder, rows)
        self.written = time.monotonic()

    @contextmanager
    def table_at_the_end(self) -> Iterator[None]:
        """Write the table at the end of the block, also after a failure, so that nothing is copied twice."""
        try:
            yield
        finally:
            with self.lock:
                self.write_table()
                while self.has_copied and self.take_replaced():
                    self.write_table()

    def take_replaced(self) -> bool:
        """Use copies with which another process has replaced ours; return whether there are any."""
        listed, before = self.folder.listed(COPIES), dict(self.copies)
        for key, copy in before.items():
            is_replaced = copy.path in listed and not is_version(listed[copy.path], copy.copy_version)
            if is_replaced and self.folder.difference(copy.path, copy.size, copy.sha256) is None:
                now = copy_version(self.folder, copy.path)
                self.copies[key] = copy.model_copy(update={"copy_version": now})
        return self.copies != before


def copy_file(folder: Folder, file: FetchedFile, tell: Callable[[int], object]) -> FetchedFile:
    """Copy a file, and return it with its copy. Raises BadInput if the file has changed, and Unavailable."""
    original = file.input_file(folder)
    where = original.location.url if original.location else ""
    version = "" if original.location else file.version
    digest, path = hashlib.sha256(), path_of(file)
    published = published_sha1(file.source, file.url)
    sha1 = hashlib.sha1(usedforsecurity=False)
    with folder.scratch_file() as scratch:
        with (
            scratch.open("wb") as out,
            open_input(file.source, file.url, file.size, version, where, at_random=False) as stream,
        ):
            while content := stream.read(AT_ONCE_BYTES):
                out.write(content)
                digest.update(content)
                if published:
                    sha1.update(content)
                tell(len(content))
            stream.expect_unchanged()
        if file.sha256 and digest.hexdigest() != file.sha256:
            raise Unavailable(
                f"source {file.source}, file {file.url}: the SHA-256 of the download differs from that in its store"
            )
        if published and sha1.hexdigest() != published:
            raise Unavailable(
                f"source {file.source}, file {file.url}: SHA-1 {sha1.hexdigest()}, and its host lists {published}"
            )
        folder.put(scratch, path)
    if (size := folder.size_of(path)) != file.size:
        raise Damaged(f"{folder.url}/{path} has {size or 0:,} bytes, and {file.size:,} were copied", path)
    copied = {"path": path, "sha256": digest.hexdigest(), "copy_version": copy_version(folder, path)}
    return file.model_copy(update=copied)


def path_of(file: FetchedFile) -> str:
    """Return the path of a file's copy: below its source's name, in a folder for this URL and version.

    The copy keeps the end of the file's name, which shows its format; the table has the whole name.
    """
    place = hashlib.sha256(f"{file.url}\n{file.version}".encode()).hexdigest()[:12]
    name = UNSAFE_CHARACTERS.sub("_", file.url.rpartition("/")[2])[-LONGEST_NAME:]
    return f"{COPIES}/{file.source}/{place}/{name}"


def copy_version(folder: Folder, path: str) -> str:
    """Return the version of a copy in its store, or "" if it is missing."""
    info = folder.info(path)
    return "" if info is None else version_of(info)


def total_bytes(files: Sequence[FetchedFile]) -> int:
    return sum(file.size for file in files)
