"""Tables of millions of denied addresses, as sorted beginnings of the SHA-256 of their normal forms.

A deny list names such a table with its digest. A table has 12 bytes for each address: the first 96 bits of the
SHA-256 of the normal form, with `/*` after a folder. A worker holds the table as two arrays. Among 10^8 addresses
of a table and 10^11 addresses and folders of documents, a pair with equal 96 bits has a probability of 10^-10.

The digests are sorted by their first byte into scratch files, then each file in memory: 10^8 addresses need 1.2 GB
of scratch disk, and 15 MB of memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.web_addresses import folder_ends
from zyda_flows.tasks.storage.folder import Folder

TABLES = "denied_addresses"  # the folder of the tables in the folder of a corpus
SCHEMA = pa.schema(
    [pa.field("first", pa.uint64(), nullable=False), pa.field("rest", pa.uint32(), nullable=False)]
)
DIGEST = np.dtype([("first", ">u8"), ("rest", ">u4")])  # the first 12 bytes of a SHA-256
FOLDERS = b"folders"  # the key of the table's metadata that states whether some addresses are folders
REMEDY = "restore it from a backup, or repeat `zyda forget` with the same file, which writes it again"
PARTS = 256
BLOCK = 8 << 20


@dataclass(frozen=True)
class AddressTable:
    """The sorted digests of a table: first, (n,) uint64, and rest, (n,) uint32.

    has_folders: whether some are of folders.
    """

    first: NDArray[np.uint64]
    rest: NDArray[np.uint32]
    has_folders: bool

    def contains(self, addresses: Sequence[str | None]) -> NDArray[np.bool_]:
        """Return for each address whether the table has it, or a folder that contains it: (n,)."""
        is_in = np.zeros(len(addresses), np.bool_)
        rows = [row for row, address in enumerate(addresses) if address is not None]
        known = [address for address in addresses if address is not None]
        if self.has_folders:
            digests = [[*digests_of_address(address)] for address in known]
            rows = [row for row, own in zip(rows, digests, strict=True) for _ in own]
            has = self.has(as_digests([digest for own in digests for digest in own]))
        else:
            has = self.has(as_digests([sha256(address.encode()).digest() for address in known]))
        is_in[np.array(rows, np.int64)[has]] = True
        return is_in

    def has(self, digests: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return for each digest whether the table has it: (n,)."""
        first, rest = digests["first"].astype(np.uint64), digests["rest"].astype(np.uint32)
        starts = np.searchsorted(self.first, first)
        stops = np.searchsorted(self.first, first, "right")
        is_in = np.zeros(len(digests), np.bool_)
        for place in range(int((stops - starts).max(initial=0))):  # once, except for equal first 64 bits
            places = np.minimum(starts + place, len(self.rest) - 1)
            is_in |= (starts + place < stops) & (self.rest[places] == rest)
        return is_in


def digests_of_address(address: str) -> Iterator[bytes]:
    """Yield the SHA-256 of an address and of each folder above it, as `example.org/folder/*`."""
    yield sha256(address.encode()).digest()
    folder_hash, start = sha256(), 0
    for end in folder_ends(address):
        folder_hash.update(address[start:end].encode())
        start = end
        whole = folder_hash.copy()
        whole.update(b"/*")
        yield whole.digest()


def as_digests(digests: Sequence[bytes]) -> NDArray[np.void]:
    """Return the beginnings of SHA-256 digests: (n,) DIGEST."""
    whole = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, sha256().digest_size)
    return np.ascontiguousarray(whole[:, : DIGEST.itemsize]).view(DIGEST).ravel()


class AddressDigests:
    """Digests of addresses, in scratch files by their first byte. has_folders: whether some are of folders."""

    def __init__(self, files: Sequence[Path], opened: ExitStack) -> None:
        self.paths, self.files = files, [opened.enter_context(path.open("wb")) for path in files]
        self.has_folders, self.count = False, 0

    def add(self, addresses: Sequence[bytes]) -> None:
        """Add pages in normal form, in UTF-8. Raises BadInput if there are too many addresses."""
        digests = as_digests([sha256(address).digest() for address in addresses])
        self.count += len(digests)
        if self.count > limits().denied_addresses:
            most = limits().denied_addresses
            raise BadInput(f"--urls: more than {most:,} addresses are requested at once: split the request")
        parts = (digests["first"] >> 56).astype(np.uint8)
        digests = digests[np.argsort(parts, kind="stable")]
        ends = np.cumsum(np.bincount(parts, minlength=PARTS))
        for file, start, end in zip(self.files, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            file.write(digests[start:end].tobytes())

    def add_folders(self, folders: Sequence[str]) -> None:
        """Add folders in normal form, without a slash at their ends."""
        self.has_folders |= bool(folders)
        self.add([f"{folder}/*".encode() for folder in folders])

    def write(self, folder: Folder) -> tuple[str, int]:
        """Write the table to the folder of a corpus; return its SHA-256 and the number of its addresses."""
        for file in self.files:
            file.flush()
        rows, schema = 0, SCHEMA.with_metadata({FOLDERS: b"1" if self.has_folders else b""})
        with folder.scratch_file() as scratch:
            with pq.ParquetWriter(
                scratch, schema, compression="none", use_dictionary=False, write_page_checksum=True
            ) as writer:
                for path in self.paths:
                    part = sorted_digests(np.fromfile(path, DIGEST))
                    rows += part.num_rows
                    writer.write_table(part.cast(schema))
            digest = digest_of_file(scratch)
            folder.put(scratch, table_path(digest))
        return digest, rows


def sorted_digests(digests: NDArray[np.void]) -> pa.Table:
    """Return digests as SCHEMA, sorted, each once."""
    first, rest = digests["first"].astype(np.uint64), digests["rest"].astype(np.uint32)
    order = np.lexsort((rest, first))
    first, rest = first[order], rest[order]
    is_new = np.ones(len(first), np.bool_)
    is_new[1:] = (first[1:] != first[:-1]) | (rest[1:] != rest[:-1])
    return pa.table([first[is_new], rest[is_new]], schema=SCHEMA)


@contextmanager
def collected_digests() -> Iterator[AddressDigests]:
    """Yield an empty collection of digests, with its scratch files until the block ends."""
    with TemporaryDirectory(prefix="zyda-addresses-") as scratch, ExitStack() as opened:
        yield AddressDigests([Path(scratch, f"{part:02x}") for part in range(PARTS)], opened)


def digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hash_of_blocks(iter(lambda: file.read(BLOCK), b""))


def hash_of_blocks(blocks: Iterable[bytes]) -> str:
    content = sha256()
    for block in blocks:
        content.update(block)
    return content.hexdigest()


def table_path(digest: str) -> str:
    return f"{TABLES}/{digest}.parquet"


@lru_cache(maxsize=4)
def load_address_table(urls: tuple[str, ...], digest: str) -> AddressTable:
    """Load a table from the first folder that has it.

    Raises Denied if it is missing or changed: no build can rebuild it.
    """
    path = table_path(digest)
    folder = next((folder for folder in map(Folder, urls) if folder.exists(path)), None)
    if folder is None:
        raise Denied(f"{urls[0]}/{path} is missing, but a deny list names it; {REMEDY}")
    with folder.open(path) as stream:
        if hash_of_blocks(iter(lambda: stream.read(BLOCK), b"")) != digest:
            raise Denied(f"{folder.url}/{path} has another content than was written; {REMEDY}")
        stream.seek(0)
        with pq.ParquetFile(stream) as parquet:
            rows = parquet.metadata.num_rows
            first, rest, start = np.empty(rows, np.uint64), np.empty(rows, np.uint32), 0
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group)
                stop = start + len(table)
                first[start:stop], rest[start:stop] = (column.to_numpy() for column in table.columns)
                start = stop
            return AddressTable(first, rest, bool((parquet.schema_arrow.metadata or {}).get(FOLDERS)))
