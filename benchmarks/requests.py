"""Measure removal requests: read a file of many addresses into a table, and compare documents with the table.

One address in twenty of the generated file is not in its normal form. One document in a hundred is requested.
"""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Row, Size, Table, benchmark, timed
from zyda_flows.tasks.documents.address_tables import load_address_table
from zyda_flows.tasks.documents.deny_list import DenyList
from zyda_flows.tasks.erasure.large_lists import requests_of_large_lists
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.storage.folder import Folder

AT_ONCE = 1 << 17
FORMS = (
    ["https://www.site-%d.example/articles/%d/a-title-of-some-words?id=%d"] * 19
    + ["HTTP://Site-%d.example/%%7Euser/%d/page.html?id=%d#top"]
)  # fmt: skip


def address(number: int) -> str:
    return FORMS[number % len(FORMS)] % (number % 1_000_003, number % 977, number)


def write_requests(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.writelines(f"{address(number)}\n" for number in range(count))


def documents(count: int, requested: int) -> list[pa.Array]:
    """Return columns of addresses, of which one in a hundred is requested."""
    numbers = np.arange(count)
    numbers = np.where(numbers % 100, 10**9 + numbers, numbers % requested)
    addresses = [address(number) for number in numbers.tolist()]
    return [pa.array(addresses[start : start + AT_ONCE]) for start in range(0, count, AT_ONCE)]


def row(work: str, count: int, call: Callable[[], Any]) -> tuple[Any, Row]:
    """Call a function; return its result, and a row with its time and the peak memory of this process."""
    result, seconds = timed(call)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return result, {"work": work, "number": count, "us each": seconds / count * 1e6, "peak, GiB": peak}


def rows_of(scratch: Path, count: int, compared: int) -> Iterator[Row]:
    path, folder = scratch / "requests.txt", Folder(str(scratch / "corpus"))
    write_requests(path, count)
    reader = RequestReader()
    with replaced_limits(request_list_bytes=1):
        reader.add_lists([str(path)])
    (request,), spent = row(
        "read into a table", count, lambda: requests_of_large_lists(folder, reader.large_lists)
    )
    yield spent
    table = load_address_table((folder.url,), str(request.addresses_sha256))
    denied, columns = DenyList([request], tables=(table,)), documents(compared, count)
    found, spent = row(
        "documents compared", compared, lambda: sum(int(denied.denies_addresses(c).sum()) for c in columns)
    )
    yield spent | {"work": f"documents compared, {found:,} requested"}


@benchmark("requests")
def measure(addresses: Size = 100_000, documents: Size = 100_000, folder: str = "") -> Iterator[Table]:
    with TemporaryDirectory(dir=folder or None) as scratch:
        [*rows_of(Path(scratch), 1000, 1000)]  # compiles
        yield Table("requests, one core", [*rows_of(Path(scratch), int(addresses), int(documents))])


if __name__ == "__main__":
    measure.main()
