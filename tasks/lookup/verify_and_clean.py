"""Verify the files of a corpus, and list and remove the files of its work folder that are not needed any more.

The needed files are the files of the last finished build: the manifests of its stages and the artifacts that they
list.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from zyda_flows.tasks.accounts.published import (
    MANIFEST,
    NOTHING,
    PUBLISHED,
    STAMPS,
    FileStamps,
    manifest_if_there,
    saved_stamps,
)
from zyda_flows.tasks.accounts.published_files import FileTable
from zyda_flows.tasks.accounts.published_stamps import STAMP_TABLES
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Damaged, Denied, NoCorpus
from zyda_flows.tasks.planning.build_history import damaged_records
from zyda_flows.tasks.planning.last_build import BUILT, BuildRecord, last_build, whole_register
from zyda_flows.tasks.planning.watching import WATCHED
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.input_files import Listing
from zyda_flows.tasks.sources.register import REGISTER
from zyda_flows.tasks.stage.jobs import ATTEMPTS
from zyda_flows.tasks.storage.artifacts import WORK, artifacts_in
from zyda_flows.tasks.storage.artifacts import Manifest as StageManifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import KEY, Record, read_record
from zyda_flows.tasks.tokens.stored import TOKENIZER, damaged_tokenizers
from zyda_flows.tasks.workers.dask_cluster import cores

READERS_OF_STORES = 8
QUIET_SECONDS = 600  # without a new file after which no build is running
KEPT_PATHS = (f"{REGISTER}/", TOKENIZER, BUILT, WATCHED, STAMPS, f"{STAMP_TABLES}/")
DAMAGED_RECORD = "is cut or changed, or of another place or version"
# Files of builds in the work folder, below a stage, a source and a folder with a key. Others are never removed.
NAMED_BY_KEY = "([^/]*-)?[0-9a-f]{20}"
OURS = re.compile(rf"{WORK}/([^/]+/){{0,2}}({NAMED_BY_KEY}/)?{NAMED_BY_KEY}(\.(parquet|json)){{0,2}}")
# `zyda audit` and `zyda report` write them, too, outside of builds.
BY_COMMANDS = re.compile(rf"{WORK}/((manifests/)?audit\d?[-/]|[a-z]+_stats/|files/)")


class CheckedFile(NamedTuple):
    """A file with its expected size and SHA-256; there is one for each file of a corpus."""

    path: str
    size: int
    sha256: str


class FileFault(Record):
    """A missing or changed file. difference: from the file that was written."""

    path: str
    difference: str


class Orphan(Record):
    """A file that is not needed."""

    path: str
    size: int


def checked_files(record: Record) -> Iterator[CheckedFile]:
    """Yield the artifacts in a record, such as a manifest."""
    return (CheckedFile(artifact.path, artifact.size, artifact.digest) for artifact in artifacts_in(record))


def files_to_check(recipe: Recipe) -> tuple[list[CheckedFile], list[FileFault]]:
    """Return all published files and work files of a corpus, and a fault for each manifest that cannot be read.

    Raises NoCorpus if nothing is published.
    """
    folder, faults = recipe.folder, list[FileFault]()
    kept = saved_stamps(folder)
    published_files = [*kept.manifests[-1:]]
    try:
        manifest = manifest_if_there(folder)
        if manifest is None:
            raise NoCorpus(NOTHING.format(url=folder.url))
        published_files += manifest.named
        published_files += FileTable(folder.folder(PUBLISHED), manifest.table).below()
    except Damaged:  # the published files are unknown without the manifest
        if not published_files:
            faults.append(FileFault(path=f"{PUBLISHED}/{MANIFEST}", difference=DAMAGED_RECORD))
    items = [CheckedFile(f"{PUBLISHED}/{file.path}", file.size, file.sha256) for file in published_files]
    items += checked_files(kept)
    faults += record_faults(folder)
    built = last_build(folder)
    for path in built.manifests if built else ():
        try:
            stage = read_record(folder, path, StageManifest)
        except Damaged:
            faults.append(FileFault(path=path, difference=DAMAGED_RECORD))
            continue
        if stage is None:
            faults.append(FileFault(path=path, difference="is missing"))
        else:
            items += checked_files(stage)
    return list({item.path: item for item in items}.values()), faults


def strangers_published(recipe: Recipe, items: Iterable[CheckedFile]) -> list[str]:
    """List the files in the published folder that no build has published. items: files that builds published."""
    known = {item.path for item in items} | {f"{PUBLISHED}/{MANIFEST}"}
    return [path for path in recipe.folder.files(PUBLISHED) if path not in known]


def record_faults(folder: Folder) -> Iterator[FileFault]:
    """Yield the records of a corpus that are missing or damaged. Raises Damaged for a damaged register."""
    whole_register(folder)
    built = last_build(folder)
    kinds: dict[str, type[Record]] = {BUILT: BuildRecord, STAMPS: FileStamps}
    kinds |= dict.fromkeys(built.listings.values() if built else (), Listing)
    for path, kind in kinds.items():
        try:
            if read_record(folder, path, kind) is None:
                yield FileFault(path=path, difference="is missing")
        except Damaged:
            yield FileFault(path=path, difference=DAMAGED_RECORD)
    for path in damaged_records(folder):
        yield FileFault(path=path, difference=DAMAGED_RECORD)
    for path in damaged_tokenizers(folder):
        yield FileFault(path=path, difference="has another content than was written")


def faults_of(
    recipe: Recipe, items: Iterable[CheckedFile], tell: Callable[[CheckedFile], object]
) -> list[FileFault]:
    """Compare files with their expected digests. tell: called after each file."""
    folder = recipe.folder

    def look(item: CheckedFile) -> FileFault | None:
        difference = folder.difference(item.path, item.size, item.sha256)
        tell(item)
        return FileFault(path=item.path, difference=difference) if difference else None

    with ThreadPoolExecutor(cores() if folder.is_local else READERS_OF_STORES) as readers:
        return [fault for fault in readers.map(look, items) if fault]


def orphans_of(recipe: Recipe, *, dry_run: bool = False) -> list[Orphan]:
    """List the files of builds in a corpus's work folder that are not needed.

    Needed are the files of the last finished build, and all files that were written since by an unfinished build.
    Raises Denied if nothing has been built, and, unless it is a dry run, if a build seems to be running.
    """
    folder = PublishedCorpus.of(recipe).root
    sizes = folder.written(WORK)
    written = {path: size for path, size in sizes.items() if path == BUILT or OURS.fullmatch(path)}
    built = last_build(folder)
    if built is None:
        raise Denied(f"{folder.url}: no build has been finished yet, so all files are needed")
    finished = written[BUILT][1]  # a build writes it last: newer files are of a later build
    if not dry_run:
        expect_no_build(folder, written)
    needed = needed_by(folder, built)
    return [
        Orphan(path=path, size=size)
        for path, (size, when) in sorted(written.items())
        if when <= finished and not path.startswith(KEPT_PATHS) and not needed.intersection(KEY.findall(path))
    ]


def expect_no_build(folder: Folder, written: Mapping[str, tuple[int, float]]) -> None:
    """Raise Denied if an unfinished build has written a file in the last QUIET_SECONDS.

    written: the files of builds, with their sizes and times.
    """
    by_builds = [path for path in written if not path.startswith(KEPT_PATHS) and not BY_COMMANDS.match(path)]
    newest = max(by_builds, key=lambda path: written[path][1], default=BUILT)
    seconds = time.time() - written[newest][1]
    if written[newest][1] > written[BUILT][1] and seconds < QUIET_SECONDS:
        raise Denied(
            f"{folder.url}: a build seems to be running ({newest} was written {seconds:.0f} seconds ago); "
            "clean after it has ended"
        )


def strangers_in(recipe: Recipe) -> list[str]:
    """List the files in the work folder that no build has written."""
    known = (*KEPT_PATHS, f"{ATTEMPTS}/")
    paths = recipe.folder.files(WORK)
    return [path for path in paths if not (path.startswith(known) or OURS.fullmatch(path))]


def needed_by(folder: Folder, built: BuildRecord) -> set[str]:
    """Return the keys of all files that a finished build needs; a key is a part of the file name."""
    needed = {*built.manifests, *built.listings.values()}
    for path in built.manifests:
        stage = read_record(folder, path, StageManifest)
        if stage is None:
            raise Denied(f"{folder.url}/{path} is missing; build the corpus, then clean it")
        needed |= {item.path for item in artifacts_in(stage)}
        needed |= set(stage.intermediate)
    return {key for path in needed for key in KEY.findall(path)}


def remove(recipe: Recipe, waste: Iterable[Orphan]) -> None:
    """Remove files of the work folder, and scratch files of dead builds."""
    folder = recipe.folder
    folder.clear_scratch()
    for file in waste:
        folder.delete(file.path)
