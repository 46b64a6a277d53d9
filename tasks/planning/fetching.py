"""Sources copied to where they are read, several files at a time; what is there already is not copied again."""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tasks.errors import BadRecipe, Damaged, Unavailable, ZydaError
from tasks.planning.survey import Check, call_each
from tasks.recipe.fields import Recipe
from tasks.recipe.source import Source
from tasks.sources.copies import COPIES, FetchedFile, copies_by_file, read_fetched, write_fetched
from tasks.sources.file_systems import version_of
from tasks.sources.listing import InputFile, list_by_pattern, sampled_files
from tasks.sources.streams import open_input
from tasks.storage.folder import Folder
from tasks.storage.stores import PAUSE

AT_ONCE_BYTES = 16 << 20
SECONDS_BETWEEN_TABLES = 30.0
ODD = re.compile(r"[^A-Za-z0-9._+@=-]")  # in a name: some stores and programs take it for something else
LONGEST_NAME = 100


class Fetch:
    """The files of a recipe's sources, and their copies in a folder.

    files: all that were listed. to_copy: those of the sample that have no copy, or none that is as it was made.
    """

    def __init__(self, recipe: Recipe, folder: Folder, *, verify: bool = False) -> None:
        self.folder = folder
        folder.clear_scratch()
        self.files = listed_files(recipe)
        expect_no_copies(folder, self.files)
        self.known = copies_by_file(read_fetched(folder))
        self.lock, self.is_stopped = threading.Lock(), threading.Event()
        self.written = time.monotonic()
        self.wanted = self.chosen(recipe)
        missing = [file for file in self.wanted if not self.is_there(file, verify=verify)]
        self.to_copy = [*{file.key: file for file in missing}.values()]

    def chosen(self, recipe: Recipe) -> list[FetchedFile]:
        """Return the files of the recipe's sample, each once."""
        files = dict[tuple[str, str], FetchedFile]()
        for source in recipe.sources:
            own = {file.url: file for file in self.files if file.source == source.name}
            inputs = [file.input_file(self.folder) for file in own.values()]
            for one in sampled_files(inputs, recipe.sample):
                files[source.name, one.url] = own[one.url]
        return [*files.values()]

    def is_there(self, file: FetchedFile, *, verify: bool) -> bool:
        """Say whether a file's copy is as it was made, by what its store says of it, or by its digest."""
        copy = self.known.get(file.key)
        if copy is None:
            return False
        now = copy_version(self.folder, copy.path)
        is_whole = now == copy.copy_version
        if verify:
            is_whole = self.folder.difference(copy.path, copy.size, copy.sha256) is None
        if is_whole:  # its time may be another one, where somebody has moved it
            self.known[file.key] = copy.model_copy(update={"copy_version": now})
        else:
            del self.known[file.key]
        return is_whole

    def copy_all(self, at_once: int, tell: Callable[[int], object]) -> None:
        """Copy what is to be copied, so many files at a time. tell: is called with the bytes that have come.

        Raises BadRecipe with what went wrong, when all others are done.
        """
        faults = list[str]()

        def tell_or_stop(size: int) -> None:
            if self.is_stopped.is_set():
                raise Unavailable("it was stopped")
            tell(size)

        def wait_or_stop(seconds: float) -> None:
            if self.is_stopped.wait(seconds):
                raise Unavailable("it was stopped")

        def copy(file: FetchedFile) -> None:
            PAUSE.set(wait_or_stop)
            try:
                copied = copy_file(self.folder, file, tell_or_stop)
            except ZydaError as error:
                with self.lock:
                    faults.extend(error.faults)
                return
            with self.lock:
                self.known[file.key] = copied
                if time.monotonic() - self.written > SECONDS_BETWEEN_TABLES:
                    self.write_table()

        with self.table_at_the_end(), ThreadPoolExecutor(at_once) as threads:
            try:
                for _ in threads.map(copy, self.to_copy):
                    pass
            except BaseException:
                self.is_stopped.set()
                threads.shutdown(cancel_futures=True)
                raise
        if faults:
            raise BadRecipe(*faults)

    def write_table(self) -> None:
        """Write the table of all files as they are now, and of what others have fetched to the same folder."""
        own = {(file.source, file.pattern) for file in self.files}
        there = read_fetched(self.folder)
        for key, copy in copies_by_file(there).items():
            known = self.known.get(key)
            if known is None or copy_version(self.folder, known.path) != known.copy_version:
                self.known[key] = copy  # another process has copied it meanwhile
        files = [file.copied_as(self.known.get(file.key)) for file in self.files]
        write_fetched(self.folder, [*files, *(one for one in there if (one.source, one.pattern) not in own)])
        self.written = time.monotonic()

    @contextmanager
    def table_at_the_end(self) -> Iterator[None]:
        """Write the table whatever ends the block, so that nothing is copied twice."""
        try:
            yield
        finally:
            with self.lock:
                self.write_table()


def listed_files(recipe: Recipe) -> list[FetchedFile]:
    """List the originals of all sources, by pattern. Raises BadRecipe with all faults."""

    def files_of(source: Source) -> list[FetchedFile]:
        return [
            fetched_file(source, pattern, file)
            for pattern, files in list_by_pattern(source).items()
            for file in files
        ]

    checks = [
        Check(lambda source=source: files_of(source), ("sources", i, "files"))  # type: ignore[misc]
        for i, source in enumerate(recipe.sources)
    ]
    answers, faults = call_each(recipe, checks)
    if faults:
        raise BadRecipe(*faults)
    return [file for files in answers for file in files]


def expect_no_copies(folder: Folder, files: Sequence[FetchedFile]) -> None:
    """Raise BadRecipe where a source reads the folder of copies: each fetch would copy the copies."""
    for file in files:
        if file.url.startswith(f"{folder.url}/"):
            raise BadRecipe(
                f"source {file.source}: its {file.pattern} reads {folder.url}, the folder of copies; choose "
                "another one by --to"
            )


def fetched_file(source: Source, pattern: str, file: InputFile) -> FetchedFile:
    """Return a listed file that has no copy."""
    return FetchedFile(
        source=source.name,
        pattern=pattern,
        revision=source.revision or "",
        url=file.url,
        name=file.name,
        version=file.version,
        size=file.size,
        commit=file.location.commit if file.location else "",
        sha256=file.location.sha256 if file.location else "",
    )


def copy_file(folder: Folder, file: FetchedFile, tell: Callable[[int], object]) -> FetchedFile:
    """Copy one file, and return it with its copy. Raises BadInput where it is another one now, and Unavailable."""
    original = file.input_file(folder)
    where = original.location.url if original.location else ""
    version = "" if original.location else file.version
    digest, path = hashlib.sha256(), path_of(file)
    with folder.scratch_file() as scratch:
        with (
            scratch.open("wb") as out,
            open_input(file.source, file.url, file.size, version, where, at_random=False) as stream,
        ):
            while content := stream.read(AT_ONCE_BYTES):
                out.write(content)
                digest.update(content)
                tell(len(content))
            stream.expect_unchanged()
        folder.put(scratch, path)
    if file.sha256 and digest.hexdigest() != file.sha256:
        folder.remove(path)
        raise Unavailable(
            f"source {file.source}, file {file.url}: what came is not what its store lists (SHA-256)"
        )
    if (size := folder.size_of(path)) != file.size:
        raise Damaged(f"{folder.url}/{path} has {size or 0:,} bytes, and {file.size:,} were copied", path)
    copied = {"path": path, "sha256": digest.hexdigest(), "copy_version": copy_version(folder, path)}
    return file.model_copy(update=copied)


def path_of(file: FetchedFile) -> str:
    """Return where a file's copy lies: below its source's name, in a folder of this URL and version alone.

    The end of its name stays, by which its format is known; a table has the whole.
    """
    place = hashlib.sha256(f"{file.url}\n{file.version}".encode()).hexdigest()[:12]
    name = ODD.sub("_", file.url.rpartition("/")[2])[-LONGEST_NAME:]
    return f"{COPIES}/{file.source}/{place}/{name}"


def copy_version(folder: Folder, path: str) -> str:
    """Return the version that the store of a copy gives it, or nothing where it is gone."""
    info = folder.info(path)
    return "" if info is None else version_of(info)


def total_bytes(files: Sequence[FetchedFile]) -> int:
    return sum(file.size for file in files)
