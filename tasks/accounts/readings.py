"""How long published files may go unread: rot changes neither their sizes nor the times that storage gives them.

What is published anew is always read first. What stays is read again when its age asks for it: each file has a
limit of its own between half of `reread_after` and the whole of it, so that those of one build do not all fall due
together. A store that keeps checksums itself has compared what it lists with the checksum that it had.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stamps import CHECKSUMMED


def moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def times_checked(folder: Folder, files: pa.Table) -> pa.Table:
    """Return some `states` with the time at which a store itself has compared files, which is now.

    It has where it gives the checksum that it gave when a file was compared.
    """
    if not folder.compares_itself:
        return files
    is_same = pc.fill_null(pc.equal(files.column("now"), files.column("stamp")), False)
    is_compared = pc.and_(
        is_same, pc.fill_null(pc.match_substring_regex(files.column("now"), CHECKSUMMED), False)
    )
    is_known = pc.is_valid(files.column("checked_at"))
    times = pc.if_else(pc.and_(is_compared, is_known), pa.scalar(moment()), files.column("checked_at"))
    return files.drop_columns("checked_at").append_column("checked_at", times)


def due(files: pa.Table, reread_after: timedelta) -> pa.Table:
    """Return those of some `states` that a build which publishes reads again."""
    old = older_than(files, reread_after / 2)
    rows = zip(old.column("checked_at").to_pylist(), old.column("sha256").to_pylist(), strict=True)
    is_due = [age(time) >= reread_after * (0.5 + 0.5 * share_of(sha256)) for time, sha256 in rows]
    return old.filter(pa.array(is_due, pa.bool_()))


def older_than(files: pa.Table, limit: timedelta) -> pa.Table:
    """Return those of some `states` that nobody has read for so long."""
    times = files.column("checked_at").cast(pa.timestamp("s", "UTC"))
    before = pa.scalar(datetime.now(UTC) - limit, pa.timestamp("s", "UTC"))
    return files.filter(pc.fill_null(pc.less_equal(times, before), True))


def age(checked_at: str | None) -> timedelta:
    return datetime.now(UTC) - datetime.fromisoformat(checked_at) if checked_at else timedelta.max


def share_of(sha256: str) -> float:
    """Return a number from 0 to 1 that is always the same for a file."""
    return int(sha256[:8], 16) / 2**32
