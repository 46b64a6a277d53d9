"""Footers of Parquet files, of which another process is asked first: pyarrow ends a process that asks about some.

Of columns that are encrypted, or damaged in a certain way, it raises an error where nobody can catch it. The other
process goes on for as long as this one: to start one for each footer would take half a second each.
"""

import atexit
import subprocess
import sys
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from threading import Lock

CHECK_COLUMNS = """
import io, sys, pyarrow.parquet as pq
while size := int.from_bytes(sys.stdin.buffer.read(8), "little"):
    footer = io.BytesIO(sys.stdin.buffer.read(size))
    try:
        metadata = pq.read_metadata(footer)
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                metadata.row_group(group).column(column)
    except Exception:
        pass
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


class FooterChecker:
    """A process that asks about the columns of footers, one after another; where one ends it, it begins anew."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def is_safe(self, footer: bytes) -> bool:
        """Say whether a process that asks about all columns of a footer lives on."""
        with self.lock:
            process = self.process or self.start()
            with suppress(OSError):  # it has ended
                for content in (len(footer).to_bytes(8, "little"), footer):
                    process.stdin.write(content)  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                if process.stdout.read(1):  # type: ignore[union-attr]
                    return True
            self.end()
            return False

    def start(self) -> "subprocess.Popen[bytes]":
        ask = [sys.executable, "-P", "-c", CHECK_COLUMNS]
        self.process = subprocess.Popen(ask, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)  # noqa: S603
        return self.process

    def end(self) -> None:
        """Let the process end: it does where nothing more comes."""
        if self.process is not None:
            with suppress(OSError):
                self.process.communicate()
            self.process = None


FOOTER_CHECKER = FooterChecker()
atexit.register(FOOTER_CHECKER.end)
