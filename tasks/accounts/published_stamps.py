"""Whether published files are as they were: what storage said of each when it was published, and says now.

Looked at folder by folder, so that what is in memory is that of one of them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.published import (
    MANIFEST,
    PUBLISHED,
    STAMPS,
    File,
    FileStamps,
    Published,
    saved_stamps,
)
from zyda_flows.tasks.accounts.published_files import ROWS, FileTable, as_parquet, file_table, rows_below
from zyda_flows.tasks.accounts.readings import moment
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import write_record
from zyda_flows.tasks.storage.stamps import is_utf8
from zyda_flows.tasks.storage.tables import open_table, write_table

STAMP_TABLES = f"{WORK}/stamps"
STAMPED = pa.schema([("path", pa.string()), ("stamp", pa.string()), ("checked_at", pa.string())])
LISTED = pa.schema([("path", pa.string()), ("now", pa.string())])
ENTRIES = ("path", "sha256", "size", "checked_at")
TIMES = ("path", "checked_at")  # what tells whether there is anything to do
AT_ONCE = 1 << 14  # files of a listing that are Python's own


def current_stamps(folder: Folder, place: str = "") -> pa.Table:
    """List the files of one published folder, in any order, with what storage says of each: LISTED."""
    listed = folder.stamps_in(f"{PUBLISHED}/{place}".rstrip("/"))
    ours = ((name, stamp) for name, stamp in listed if is_utf8(name))  # no other name is in a manifest
    tables = [LISTED.empty_table()]
    while some := list(islice(ours, AT_ONCE)):
        names, stamps = zip(*some, strict=True)
        paths = pc.binary_join_element_wise(pa.scalar(place), pa.array(names), "")
        tables.append(pa.table([paths, pa.array(stamps)], schema=LISTED))
    return pa.concat_tables(tables)


def stamps_of(folder: Folder, kept: FileStamps, prefixes: Iterable[str]) -> pa.Table:
    """Return what is remembered of the published files whose paths begin so: STAMPED."""
    if kept.table is None:
        return STAMPED.empty_table()
    try:
        with open_table(folder, kept.table) as parquet:
            return pa.concat_tables([rows_below(parquet, prefix) for prefix in prefixes])
    except Damaged as error:
        warn(f"{error}; only reading the published files tells whether they are whole")
        return STAMPED.empty_table()


def states(folder: Folder, manifest: Published, columns: Sequence[str] = ENTRIES) -> Iterator[pa.Table]:
    """Yield what is known of the published files, folder by folder, and last of the manifest and what it names.

    `columns` of SCHEMA, of which `checked_at` is the last time that is known; `stamp`, what storage said of the
    file when it was published; `now`, what it says. Null where that is not known, or nothing is there.
    Raises Damaged.
    """
    kept, files = saved_stamps(folder), FileTable(folder.folder(PUBLISHED), manifest.table)
    for place in files.folders():
        entries = files.rows(f"{place}/", [*columns])
        yield joined(entries, stamps_of(folder, kept, [f"{place}/"]), current_stamps(folder, f"{place}/"))
    # Whoever has the manifest in hand has compared it with its digest.
    itself = [file.model_copy(update={"checked_at": moment()}) for file in kept.manifests[-1:]]
    named = file_table([*manifest.named, *itself]).select([*columns])
    yield joined(named, stamps_of(folder, kept, named.column("path").to_pylist()), current_stamps(folder))


def joined(entries: pa.Table, stamped: pa.Table, listed: pa.Table) -> pa.Table:
    """Put beside files what is remembered of them, and what storage says."""
    paths = entries.column("path")
    before = stamped.drop_columns("path").take(pc.index_in(paths, stamped.column("path").combine_chunks()))
    now = listed.column("now").take(pc.index_in(paths, listed.column("path").combine_chunks()))
    checked = pc.coalesce(before.column("checked_at"), entries.column("checked_at"))
    return (
        entries.drop_columns("checked_at")
        .append_column("checked_at", checked)
        .append_column("stamp", before.column("stamp"))
        .append_column("now", now)
    )


def missing(files: pa.Table) -> pa.Table:
    """Return those of some `states` that are gone."""
    return files.filter(pc.is_null(files.column("now")))


def possibly_changed(files: pa.Table) -> pa.Table:
    """Return those of some `states` that may not be as they were: it takes reading them to know."""
    is_same = pc.fill_null(pc.equal(files.column("now"), files.column("stamp")), False)
    return files.filter(pc.and_(pc.is_valid(files.column("now")), pc.invert(is_same)))


def save_stamps(folder: Folder, checked: Mapping[str, str], manifest: bytes, seen: Mapping[str, str]) -> None:
    """Remember what storage says of the published files, and when each was last compared with its digest.

    checked: the times, of all files but the manifest. seen: what it said of some before they were read. Of those
    it is remembered and not what it says now: somebody may have changed a file since.
    """
    places = sorted({path.rpartition("/")[0] for path in checked} | {""})
    now = pa.concat_tables([current_stamps(folder, place and f"{place}/") for place in places])
    stamps = dict(zip(now.column("path").to_pylist(), now.column("now").to_pylist(), strict=True))
    stamps.update(seen)
    paths = sorted(stamps.keys() & {*checked, MANIFEST})
    columns = [paths, [stamps[path] for path in paths], [checked.get(path) for path in paths]]
    table = pa.table([pa.array(column, pa.string()) for column in columns], schema=STAMPED)
    write_stamps(folder, table, (of_manifest(manifest),))


def write_stamps(folder: Folder, table: pa.Table, manifests: tuple[File, ...]) -> None:
    """Write what is remembered, and remove what was before; nothing where it is the same.

    Of a store that compares files itself the times do not matter: they are now, whenever it is asked.
    """
    kept = saved_stamps(folder)
    if kept.table is not None and kept.manifests == manifests and folder.exists(kept.table.path):
        ignored = ["checked_at"] if folder.compares_itself else []
        if stamps_of(folder, kept, [""]).drop_columns(ignored).equals(table.drop_columns(ignored)):
            return
    path = f"{STAMP_TABLES}/{hashlib.sha256(as_parquet(table)).hexdigest()[:20]}.parquet"
    artifact = write_table(folder, path, "stamps", table, ROWS)
    write_record(folder, STAMPS, FileStamps(table=artifact, manifests=manifests))
    for other in folder.files(STAMP_TABLES):
        if not other.startswith(path):
            folder.delete(other)


def expect_manifest(folder: Folder, manifest: bytes) -> None:
    """Let whoever reads the manifest from now on find this one instead of the one that was expected."""
    kept = saved_stamps(folder)
    if kept.manifests:
        manifests = (*kept.manifests[-1:], of_manifest(manifest))
        write_record(folder, STAMPS, kept.model_copy(update={"manifests": manifests}))


def keep_checked(folder: Folder, before: FileStamps, paths: Iterable[str], when: str) -> None:
    """Remember when published files were compared, unless others have been published since `before`."""
    if before.manifests and saved_stamps(folder) == before:
        table, read = stamps_of(folder, before, [""]), pa.array(list(paths), pa.string())
        is_read = pc.is_in(table.column("path"), read)
        times = pc.if_else(is_read, pa.scalar(when), table.column("checked_at"))
        write_stamps(
            folder, table.drop_columns("checked_at").append_column("checked_at", times), before.manifests
        )


def of_manifest(content: bytes) -> File:
    return File(path=MANIFEST, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def difference(folder: Folder, file: File) -> str | None:
    """Read a published file and say how it differs from what the manifest says of it, if it does."""
    return folder.difference(f"{PUBLISHED}/{file.path}", file.size, file.sha256)
