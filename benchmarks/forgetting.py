"""Measure `zyda forget`: read a request file of many addresses, and search documents for them.

python -m benchmarks.forgetting ADDRESSES [FOLDER]

A generated file of addresses, of which one in twenty is not in its normal form, is read into a table; then columns
of addresses, one in a hundred of them requested, are compared with the table. It prints CPU seconds of one core and
the peak memory of the process.
"""

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.documents.address_tables import load_address_table
from zyda_flows.tasks.documents.deny_list import DenyList, Request
from zyda_flows.tasks.erasure.large_lists import requests_of_large_lists
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.storage.folder import Folder

AT_ONCE = 1 << 17
DOCUMENTS = 1_000_000
FORMS = (
    [b"https://www.site-%d.example/articles/%d/a-title-of-some-words?id=%d\n"] * 19
    + [b"HTTP://Site-%d.example/%%7Euser/%d/page.html?id=%d#top\n"]
)  # fmt: skip


def lines(first: int, count: int) -> Iterator[bytes]:
    """Yield addresses by their numbers."""
    for number in range(first, first + count):
        yield FORMS[number % len(FORMS)] % (number % 1_000_003, number % 977, number)


def write_requests(path: Path, count: int) -> None:
    with path.open("wb") as file:
        for first in range(0, count, AT_ONCE):
            file.write(b"".join(lines(first, min(AT_ONCE, count - first))))


def documents(requested: int) -> list[pa.Array]:
    """Return columns of addresses, of which one in a hundred is requested."""
    numbers = np.where(
        np.arange(DOCUMENTS) % 100, 10**9 + np.arange(DOCUMENTS), np.arange(DOCUMENTS) % requested
    )
    addresses = [next(lines(int(number), 1))[:-1].decode() for number in numbers]
    return [pa.array(addresses[start : start + AT_ONCE]) for start in range(0, DOCUMENTS, AT_ONCE)]


def measure(count: int, scratch: Path) -> None:
    path, folder = scratch / "requests.txt", Folder(str(scratch / "corpus"))
    write_requests(path, count)
    reader = RequestReader()
    with replaced_limits(request_list_bytes=1):
        reader.add_lists([str(path)])
    start = time.process_time()
    (request,) = requests_of_large_lists(folder, reader.large_lists)
    report("read into a table", time.process_time() - start, count)
    search(folder, request, count)


def search(folder: Folder, request: Request, count: int) -> None:
    start = time.process_time()
    table = load_address_table((folder.url,), str(request.addresses_sha256))
    report("table loaded", time.process_time() - start, count)
    denied, columns = DenyList([request], tables=(table,)), documents(count)
    start = time.process_time()
    found = sum(int(denied.denies_addresses(column).sum()) for column in columns)
    report(f"documents compared, {found:,} requested", time.process_time() - start, DOCUMENTS)


def report(what: str, seconds: float, count: int) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(
        f"{count:,} {what}: {seconds:.1f} CPU seconds, {seconds / count * 1e6:.2f} us each, peak {peak:.2f} GiB"
    )


if __name__ == "__main__":
    with TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        measure(int(sys.argv[1]), Path(folder))
