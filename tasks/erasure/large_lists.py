"""Read large request files of addresses in blocks, into a table of hashes beside the corpus.

Most lines are a single page; a kernel finds them and their normal forms. All other lines are read like the lines of
deny lists.
"""

from codecs import BOM_UTF8
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.documents.address_tables import TABLES, AddressDigests, collected_digests, table_path
from zyda_flows.tasks.documents.deny_list import SEAL, Request, requests_of
from zyda_flows.tasks.errors import BadInput, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.fields import DENIED
from zyda_flows.tasks.sources.address_columns import listed_pages
from zyda_flows.tasks.sources.address_lists import Entry, address_of, entry_of, fields_of, read_numbered
from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.compression import chunks_of
from zyda_flows.tasks.sources.decoders import compression_in
from zyda_flows.tasks.sources.input_files import InputFile, Location
from zyda_flows.tasks.sources.small_files import errors_about
from zyda_flows.tasks.sources.streams import Input, open_input
from zyda_flows.tasks.storage.claims import FORGET, is_claimed
from zyda_flows.tasks.storage.folder import Folder

OWNER = "--urls"
BLOCK = 16 << 20  # bytes of lines that are parsed at once
FIRST = 1 << 10  # bytes by which a compression is recognised
ADDRESSES_AT_ONCE = 1 << 16
MOST_OTHERS = 1 << 20  # requests that are no addresses; each needs about a kilobyte
NO_REQUEST = "no line of the file is a request"
FAULT = "are not requests"


def requests_of_large_lists(folder: Folder, files: Iterable[InputFile]) -> list[Request]:
    """Read large lists; write their addresses to a table beside a corpus, and return the other requests with it.

    Raises BadInput with the first invalid lines of a list, and if no list has a request.
    """
    files, requests = [*files], list[Request]()
    with errors_about(OWNER), collected_digests() as digests:
        for request in (request for file in files for request in other_requests(file, digests)):
            requests.append(request)
            if len(requests) > MOST_OTHERS:
                raise BadInput(
                    f"{OWNER}: more than {MOST_OTHERS:,} requests that are no addresses: split the request"
                )
        if not digests.count:
            if not requests:
                raise BadInput(f"{OWNER} {files[0].url}: {NO_REQUEST}")
            return requests
        digest, count = digests.write(folder)
    return [*requests, Request(addresses_sha256=digest, addresses=count)]


@contextmanager
def without_unlisted_tables(folder: Folder, tables: Collection[str] | None = None) -> Iterator[None]:
    """Delete the tables of requests that were not confirmed: after the block, no deny list names them.

    tables: the SHA-256 of the tables that may be deleted; None for all tables, in a block that has the claim of the
    corpus. Other blocks delete nothing while a process has the claim: it may need the same tables, and it deletes
    them at its end.
    """
    try:
        yield
    finally:
        if tables is None or not is_claimed(folder, (FORGET,)):
            delete_unlisted_tables(folder, tables)


def delete_unlisted_tables(folder: Folder, tables: Collection[str] | None) -> None:
    """Delete the tables that no deny list names. tables: the SHA-256 of those that may be deleted; None for all."""
    stored = [path.rpartition("/")[2].removesuffix(".parquet") for path in folder.files(TABLES)]
    if unlisted := [digest for digest in stored if tables is None or digest in tables]:
        lists = [folder.read(path) for path in folder.files(DENIED)]
        for digest in unlisted:
            if not any(digest.encode() in content for content in lists):
                folder.delete(table_path(digest))


def other_requests(file: InputFile, digests: AddressDigests) -> Iterator[Request]:
    """Add the addresses of a list to `digests`, and yield its other requests."""
    addresses = dict[str, list[str]](url=[], folder=[])
    lines = lines_but_pages(file, digests)
    for request in read_numbered(f"{OWNER}: {file.url}", lines, requests_or_entries, FAULT):
        if isinstance(request, Request):
            yield request
        elif request.kind == "domain":
            yield Request(domain=request.host)
        else:
            addresses[request.kind].append(request.value)
            if len(addresses[request.kind]) == ADDRESSES_AT_ONCE:
                add_addresses(digests, addresses)
    add_addresses(digests, addresses)


def add_addresses(digests: AddressDigests, addresses: dict[str, list[str]]) -> None:
    """Move addresses in normal form to `digests`."""
    digests.add([address.encode() for address in addresses["url"]])
    digests.add_folders(addresses["folder"])
    for values in addresses.values():
        values.clear()


def requests_or_entries(line: str) -> list[Request | Entry]:
    """Return the requests of a line, or its domains and addresses. Raises ValueError."""
    line = line.strip()
    if not line.startswith("{"):
        return [entry_of(field) for field in fields_of(line)]
    return [
        request if request.url is None else address_of(request.url.strip()) for request in requests_of(line)
    ]


def lines_but_pages(file: InputFile, digests: AddressDigests) -> Iterator[tuple[int, str]]:
    """Add the lines of a list that are a single page to `digests`; yield its other lines with their numbers.

    A blank line follows the last line, so that the number of lines is known.
    """
    count = 0
    for block in line_blocks(file):
        lines = lines_of(block)
        pages, others = listed_pages(lines)
        digests.add(pages)
        for row in others:
            yield count + row + 1, lines[row].as_py()
        count += len(lines)
    yield count, ""


def lines_of(block: bytes) -> pa.LargeStringArray:
    """Return the lines of a block that ends with a line end: (n,)."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
    text = block.replace(b"\n", b"")
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text))


def line_blocks(file: InputFile) -> Iterator[bytes]:
    """Yield a list in UTF-8, in blocks of lines that end with a line feed.

    Raises BadInput for damage, another encoding, a line that is too long, and a deny list of `zyda forget`.
    """
    rest, count = b"", 0
    for content in contents_of(file):
        block, end, rest = (rest + content).rpartition(b"\n")
        if len(rest) > limits().line_bytes:
            raise BadInput(f"{OWNER}: {file.url}: a line has more than {limits().line_bytes:,} bytes")
        lines = with_line_feeds(block + end)
        expect_utf8(file, lines, count)
        yield lines
        count += lines.count(b"\n")
    if rest:
        lines = with_line_feeds(rest + b"\n")
        expect_utf8(file, lines, count)
        yield lines


def with_line_feeds(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def expect_utf8(file: InputFile, lines: bytes, count: int) -> None:
    """Raise BadInput with the number of the first line that is not in UTF-8. count: of the lines before."""
    try:
        lines.decode()
    except UnicodeDecodeError as error:
        number, byte = count + lines.count(b"\n", 0, error.start) + 1, lines[error.start]
        raise BadInput(
            f"{OWNER}: {file.url}: line {number:,}: expected UTF-8, found the byte 0x{byte:02x}"
        ) from error


def contents_of(file: InputFile) -> Iterator[bytes]:
    """Yield the decompressed content of a list, in parts of BLOCK bytes or more. Raises BadInput."""
    part, is_first = bytearray(), True
    try:
        for chunk in decompressed(file):
            part += chunk
            if len(part) >= BLOCK:
                yield first_part(file, bytes(part)) if is_first else bytes(part)
                part, is_first = bytearray(), False
        yield first_part(file, bytes(part)) if is_first else bytes(part)
    except BadInput:  # it has changed
        raise
    except DAMAGED as error:
        raise BadInput(f"{OWNER}: {file.url}: it cannot be read: {first_line(error)}") from error


def decompressed(file: InputFile) -> Generator[bytes, None, None]:
    """Yield the decompressed content of a list in chunks. Raises the errors in DAMAGED."""
    with opened(file) as stream:
        compression = compression_in(stream.read(FIRST))
    with opened(file) as stream:
        yield from chunks_of(stream, compression)
        stream.expect_unchanged()


def is_large(file: InputFile) -> bool:
    """Return whether a list has too many bytes, also decompressed, to be read at once."""
    most, size = limits().request_list_bytes, file.size
    if size <= most:
        size = 0
        with suppress(*DAMAGED), closing(decompressed(file)) as chunks:  # damage is reported when it is read
            for chunk in chunks:
                size += len(chunk)
                if size > most:
                    break
    return size > most


def first_part(file: InputFile, content: bytes) -> bytes:
    """Return the beginning of a list without a byte order mark.

    Raises BadInput for a deny list of `zyda forget`.
    """
    content = content.removeprefix(BOM_UTF8)
    if content.startswith(SEAL.encode()):
        raise BadInput(
            f"{OWNER}: {file.url}: a deny list of zyda forget with more than {limits().request_list_bytes:,} bytes "
            "cannot be a request: split it, and remove its first line"
        )
    return content


def opened(file: InputFile) -> Input:
    location = file.location or Location(url="", version=file.version)
    return open_input(OWNER, file.url, file.size, location.version, location.url, at_random=False)
