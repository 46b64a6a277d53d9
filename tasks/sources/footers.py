"""Check Parquet footers in a child process, because pyarrow aborts the process for some of them.

Reading the metadata of encrypted columns, or of certain damaged ones, raises an error in C++ that nothing catches.
The child process runs as long as this one, because starting a process takes half a second.
"""

import atexit
import subprocess
import sys
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from threading import Lock

# It reads each property that this package reads, because pyarrow aborts when it reads an unknown codec.
CHECK_COLUMNS = """
import io, sys, pyarrow.parquet as pq
from contextlib import suppress
from operator import attrgetter
def read(column, *names):
    for name in names:
        with suppress(Exception):
            attrgetter(name)(column)
while size := int.from_bytes(sys.stdin.buffer.read(8), "little"):
    footer = io.BytesIO(sys.stdin.buffer.read(size))
    with suppress(Exception):
        metadata = pq.read_metadata(footer)
        for column in range(metadata.num_columns):
            read(metadata.schema.column(column), "path", "physical_type", "length", "max_repetition_level")
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                with suppress(Exception):
                    chunk = metadata.row_group(group).column(column)
                    read(chunk, "path_in_schema", "compression", "data_page_offset", "dictionary_page_offset",
                         "has_dictionary_page", "total_compressed_size", "total_uncompressed_size")
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


class FooterChecker:
    """A child process that reads the columns of footers. It is started again after a footer aborts it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def is_safe(self, footer: bytes) -> bool:
        """Return whether a process survives reading the metadata of all columns of a footer."""
        with self.lock:
            process = self.process or self.start()
            with suppress(OSError):  # the process was aborted
                for content in (len(footer).to_bytes(8, "little"), footer):
                    process.stdin.write(content)  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                if process.stdout.read(1):  # type: ignore[union-attr]
                    return True
            self.end()
            return False

    def start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-c", CHECK_COLUMNS]
        self.process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)  # noqa: S603
        return self.process

    def end(self) -> None:
        """Close the input of the process, which ends it."""
        if self.process is not None:
            with suppress(OSError):
                self.process.communicate()
            self.process = None


FOOTER_CHECKER = FooterChecker()
atexit.register(FOOTER_CHECKER.end)
