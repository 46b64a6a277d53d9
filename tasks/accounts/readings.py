"""Decide which published files are read again: decay of a disk changes neither sizes nor times of files.

A new file is read when it is published. A kept file is read again when the time since its last reading exceeds a
limit between half of `reread_after` and all of it. The limit differs from file to file, so that the files of one
build are not due at the same time. A store that keeps checksums compares its files itself.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stamps import CHECKSUMMED


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def times_checked(folder: Folder, files: pa.Table) -> pa.Table:
    """Return `file_states` whose `checked_at` is now for files that the store itself compares.

    The store has compared a file if its present stamp is the checksum of the saved stamp.
    """
    if not folder.compares_itself:
        return files
    is_same = pc.fill_null(pc.equal(files.column("now"), files.column("stamp")), False)
    is_compared = pc.and_(
        is_same, pc.fill_null(pc.match_substring_regex(files.column("now"), CHECKSUMMED), False)
    )
    is_known = pc.is_valid(files.column("checked_at"))
    times = pc.if_else(pc.and_(is_compared, is_known), pa.scalar(utc_now()), files.column("checked_at"))
    return files.drop_columns("checked_at").append_column("checked_at", times)


def due_for_reading(files: pa.Table, reread_after: timedelta) -> pa.Table:
    """Return the `file_states` of files that a build reads again."""
    old = older_than(files, reread_after / 2)
    rows = zip(old.column("checked_at").to_pylist(), old.column("sha256").to_pylist(), strict=True)
    is_due = [
        time_since_check(time) >= reread_after * (0.5 + 0.5 * share_from_digest(sha256))
        for time, sha256 in rows
    ]
    return old.filter(pa.array(is_due, pa.bool_()))


def older_than(files: pa.Table, limit: timedelta) -> pa.Table:
    """Return the `file_states` of files whose last reading is longer ago than `limit`, or unknown."""
    times = files.column("checked_at").cast(pa.timestamp("s", "UTC"))
    before = pa.scalar(datetime.now(UTC) - limit, pa.timestamp("s", "UTC"))
    return files.filter(pc.fill_null(pc.less_equal(times, before), True))


def time_since_check(checked_at: str | None) -> timedelta:
    return datetime.now(UTC) - datetime.fromisoformat(checked_at) if checked_at else timedelta.max


def share_from_digest(sha256: str) -> float:
    """Return a number from 0 to 1 that depends on the content of a file alone."""
    return int(sha256[:8], 16) / 2**32
