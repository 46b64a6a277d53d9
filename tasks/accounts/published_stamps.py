"""Find published files that may have changed, by comparing their stamps with the stamps at publication.

A stamp is the text of a file's size and time, or its checksum, as storage lists them. Files are compared folder by
folder, so that memory holds the entries of one folder.
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
from zyda_flows.tasks.accounts.published_files import (
    GROUP_ROWS,
    FileTable,
    as_parquet,
    make_file_table,
    rows_below,
)
from zyda_flows.tasks.accounts.readings import utc_now
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
TIME_COLUMNS = ("path", "checked_at")  # the columns that decide whether a build has anything to do
AT_ONCE = 1 << 14  # files of a listing that are Python objects at once


def current_stamps(folder: Folder, place: str = "") -> pa.Table:
    """List the files of one published folder with their stamps, in any order: LISTED."""
    listed = folder.stamps_in(f"{PUBLISHED}/{place}".rstrip("/"))
    ours = ((name, stamp) for name, stamp in listed if is_utf8(name))  # manifests have only names in UTF-8
    tables = [LISTED.empty_table()]
    while some := list(islice(ours, AT_ONCE)):
        names, stamps = zip(*some, strict=True)
        paths = pc.binary_join_element_wise(pa.scalar(place), pa.array(names), "")
        tables.append(pa.table([paths, pa.array(stamps)], schema=LISTED))
    return pa.concat_tables(tables)


def stamps_of(folder: Folder, kept: FileStamps, prefixes: Iterable[str]) -> pa.Table:
    """Return the saved stamps of the published files whose paths begin with a prefix of `prefixes`: STAMPED."""
    if kept.table is None:
        return STAMPED.empty_table()
    try:
        with open_table(folder, kept.table) as parquet:
            return pa.concat_tables([rows_below(parquet, prefix) for prefix in prefixes])
    except Damaged as error:
        warn(f"{error}; the published files have to be read to find out whether they are intact")
        return STAMPED.empty_table()


def file_states(folder: Folder, manifest: Published, columns: Sequence[str] = ENTRIES) -> Iterator[pa.Table]:
    """Yield the states of the published files, folder by folder; the last table has the manifest and its files.

    Columns: `columns` of SCHEMA, with the last known `checked_at`; `stamp`, the stamp of the file when it was
    published; `now`, its present stamp, null if the file is missing. Raises Damaged.
    """
    kept, files = saved_stamps(folder), FileTable(folder.folder(PUBLISHED), manifest.table)
    for place in files.folders():
        entries = files.rows(f"{place}/", [*columns])
        yield with_stamps(
            entries, stamps_of(folder, kept, [f"{place}/"]), current_stamps(folder, f"{place}/")
        )
    # The caller has read the manifest, and reading compares it with its digest.
    itself = [file.model_copy(update={"checked_at": utc_now()}) for file in kept.manifests[-1:]]
    named = make_file_table([*manifest.named, *itself]).select([*columns])
    yield with_stamps(
        named, stamps_of(folder, kept, named.column("path").to_pylist()), current_stamps(folder)
    )


def with_stamps(entries: pa.Table, stamped: pa.Table, listed: pa.Table) -> pa.Table:
    """Add the saved stamps and the present stamps to the entries of files."""
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


def missing_files(files: pa.Table) -> pa.Table:
    """Return the `file_states` of missing files."""
    return files.filter(pc.is_null(files.column("now")))


def possibly_changed(files: pa.Table) -> pa.Table:
    """Return the `file_states` of files with another stamp: only reading the file shows whether it has changed."""
    is_same = pc.fill_null(pc.equal(files.column("now"), files.column("stamp")), False)
    return files.filter(pc.and_(pc.is_valid(files.column("now")), pc.invert(is_same)))


def save_stamps(folder: Folder, checked: Mapping[str, str], manifest: bytes, seen: Mapping[str, str]) -> None:
    """Save the present stamps of the published files, and when each file was last compared with its digest.

    checked: these times, of all files except the manifest. seen: stamps of some files from before they were read;
    they are saved instead of the present stamps, because a file may have changed since.
    """
    places = sorted({path.rpartition("/")[0] for path in checked} | {""})
    now = pa.concat_tables([current_stamps(folder, place and f"{place}/") for place in places])
    stamps = dict(zip(now.column("path").to_pylist(), now.column("now").to_pylist(), strict=True))
    stamps.update(seen)
    paths = sorted(stamps.keys() & {*checked, MANIFEST})
    columns = [paths, [stamps[path] for path in paths], [checked.get(path) for path in paths]]
    table = pa.table([pa.array(column, pa.string()) for column in columns], schema=STAMPED)
    write_stamps(folder, table, (entry_of_manifest(manifest),))


def write_stamps(folder: Folder, table: pa.Table, manifests: tuple[File, ...]) -> None:
    """Write the saved stamps and remove the former table; write nothing if they are equal.

    The times are ignored for a store that compares files itself: its files count as compared now.
    """
    kept = saved_stamps(folder)
    if kept.table is not None and kept.manifests == manifests and folder.exists(kept.table.path):
        ignored = ["checked_at"] if folder.compares_itself else []
        if stamps_of(folder, kept, [""]).drop_columns(ignored).equals(table.drop_columns(ignored)):
            return
    path = f"{STAMP_TABLES}/{hashlib.sha256(as_parquet(table)).hexdigest()[:20]}.parquet"
    artifact = write_table(folder, path, "stamps", table, GROUP_ROWS)
    write_record(folder, STAMPS, FileStamps(table=artifact, manifests=manifests))
    for other in folder.files(STAMP_TABLES):
        if not other.startswith(path):
            folder.delete(other)


def expect_manifest(folder: Folder, manifest: bytes) -> None:
    """Accept this manifest, besides the present manifest, as undamaged: call it before the manifest is replaced."""
    kept = saved_stamps(folder)
    if kept.manifests:
        manifests = (*kept.manifests[-1:], entry_of_manifest(manifest))
        write_record(folder, STAMPS, kept.model_copy(update={"manifests": manifests}))


def keep_checked(folder: Folder, before: FileStamps, paths: Iterable[str], when: str) -> None:
    """Save when published files were compared, unless other files have been published since `before`."""
    if before.manifests and saved_stamps(folder) == before:
        table, read = stamps_of(folder, before, [""]), pa.array(list(paths), pa.string())
        is_read = pc.is_in(table.column("path"), read)
        times = pc.if_else(is_read, pa.scalar(when), table.column("checked_at"))
        write_stamps(
            folder, table.drop_columns("checked_at").append_column("checked_at", times), before.manifests
        )


def entry_of_manifest(content: bytes) -> File:
    return File(path=MANIFEST, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def difference(folder: Folder, file: File) -> str | None:
    """Read a published file; return how it differs from its entry in the manifest, None if it does not."""
    return folder.difference(f"{PUBLISHED}/{file.path}", file.size, file.sha256)
