"""Deny lists: requests to remove documents, a request on each line.

    # a page, a folder, a domain with its subdomains, or a JSON object
    https://example.org/about/me
    example.org/about/*
    example.net
    {"id": 1234567890}
    {"text_sha256": "9f86d081884c7d65..."}
    {"url_sha256": "..."}
    {"column": "author", "value": "Jane Doe"}
    {"column": "author", "value_sha256": "..."}
    {"text_sha256": "...", "signature": {"parameters": {...}, "shingles": 812, "values": "..."}}
    {"letters_sha256": "..."}
    {"row_sha256": "...", "row_bytes": 41}

Domains and addresses may have any form of `tasks.sources.address_lists`. Hashes are for lists that must not contain
the data to remove: of the published text in UTF-8, and of an address in the form of `tasks.sources.web_addresses`,
with `/*` after a folder. A MinHash signature identifies texts that are similar to the text with the hash. The hash
of letters (`tasks.signatures.letters`) identifies all texts with the same words. The hash of a row identifies a row
that is set aside, by all or by the first `row_bytes` of its bytes. `zyda forget` writes such lists.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Annotated, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from zyda_flows.tasks.documents.address_tables import (
    AddressTable,
    digests_of_address,
    load_address_table,
)
from zyda_flows.tasks.errors import BadInput, first_line
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.values import Strict
from zyda_flows.tasks.sources.address_columns import Address, normal_addresses
from zyda_flows.tasks.sources.address_lists import (
    Entry,
    address_of,
    entry_of,
    fields_of,
    lines_of_list,
    read_entries,
)
from zyda_flows.tasks.sources.json_text import json_fault
from zyda_flows.tasks.sources.named_values import as_text
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files
from zyda_flows.tasks.sources.web_addresses import (
    folder_ends,
    host_and_parents,
    normalise_address,
    normalise_domain,
)
from zyda_flows.tasks.storage.records import digest_of

NAME = "deny"
SHA256 = re.compile("[0-9a-f]{64}")
SEAL = "# SHA-256 of what follows: "  # how lists begin that we write


def sha256_of(value: object) -> object:
    if not isinstance(value, str) or not SHA256.fullmatch(value.lower()):
        raise ValueError("expected 64 hexadecimal digits")
    return value.lower()


Sha256 = Annotated[str, BeforeValidator(sha256_of)]


class Signature(Strict):
    """The MinHash signature of a text: its values as uint64, little endian, in Base64, and its parameters.

    shingles: the number of different shingles of the text, which is needed to identify it in longer texts.
    """

    parameters: dict[str, str | int]
    shingles: Annotated[int, Field(strict=True, ge=1)] | None = None
    values: str

    @field_validator("values")
    @classmethod
    def check_value_size(cls, values: str) -> str:
        try:
            is_whole = len(b64decode(values, validate=True)) % 8 == 0
        except (binascii.Error, ValueError):
            is_whole = False
        if not is_whole or not values:
            raise ValueError("expected Base64 of one or more 8-byte values")
        return values

    @model_validator(mode="after")
    def check_value_count(self) -> "Signature":
        count = len(b64decode(self.values)) // 8
        if self.parameters.get("values") != count:
            expected = self.parameters.get("values")
            raise ValueError(f"expected {expected} values, as in its parameters, got {count}")
        return self

    @property
    def sketch(self) -> NDArray[np.uint64]:
        """The values, (values,) uint64."""
        return np.frombuffer(b64decode(self.values), "<u8").astype(np.uint64)


Sketches = tuple[list[str], NDArray[np.uint64], NDArray[np.int64]]  # (n,), (n, values) and (n,)
# The combinations of fields by which a request identifies documents.
ALLOWED_FIELDS = [
    {"url"}, {"domain"}, {"id"}, {"id", "by"}, {"text_sha256"}, {"text_sha256", "signature"},
    {"text_sha256", "signature", "only_itself"}, {"url_sha256"}, {"column", "value"}, {"column", "value_sha256"},
    {"letters_sha256"}, {"row_sha256"}, {"row_sha256", "row_bytes"}, {"addresses_sha256", "addresses"},
]  # fmt: skip


class Request(Strict):
    """A line of a list: the property by which documents to remove are identified.

    by: `likeness` if the document of an id is only similar to a requested text. only_itself: for a text with a
    signature, whether similar texts are kept. addresses_sha256, addresses: the SHA-256 of a table of addresses
    (`tasks.documents.address_tables`), and their number.
    """

    url: str | None = None
    domain: str | None = None
    id: Annotated[int, Field(strict=True, ge=0, lt=1 << 64)] | None = None
    by: Literal["likeness"] | None = None
    text_sha256: Sha256 | None = None
    letters_sha256: Sha256 | None = None
    row_sha256: Sha256 | None = None
    row_bytes: Annotated[int, Field(strict=True, ge=1)] | None = None
    signature: Signature | None = None
    only_itself: Literal[True] | None = None
    url_sha256: Sha256 | None = None
    column: str | None = None
    value: str | int | float | bool | None = None
    value_sha256: Sha256 | None = None
    addresses_sha256: Sha256 | None = None
    addresses: Annotated[int, Field(strict=True, ge=1)] | None = None

    @model_validator(mode="after")
    def check_fields(self) -> "Request":
        given = {name for name in self.model_fields_set if getattr(self, name) not in (None, "")}
        if given != self.model_fields_set or given not in ALLOWED_FIELDS:
            raise ValueError(
                "one of url, domain, id, text_sha256, url_sha256, and column with value is expected"
            )
        if self.url is not None:
            address_of(self.url.strip())
        if self.domain is not None and normalise_domain(self.domain) is None:
            raise ValueError(f"{self.domain!r} is not a domain")
        return self


class DenyList:
    """All requests of deny lists, in the form in which documents are compared with them.

    ids: of requested documents. like_ids: of documents that are similar to requested ones. values, value_hashes: by
    column. text_hashes: of texts without a signature. signed: hashes and signatures of the other texts, by the
    digest of their parameters. only_themselves: hashes of texts whose similar texts are kept. letter_hashes: of the
    letters of texts. row_hashes: of rows that are set aside. row_beginnings: hashes of their first bytes, by the
    number of bytes. files: with all these requests, if they were read from files. tables: large lists of addresses.
    names_tables: whether requests name such tables.
    """

    def __init__(
        self,
        requests: Iterable[Request],
        files: tuple[PlannedFile, ...] = (),
        tables: tuple[AddressTable, ...] = (),
    ) -> None:
        self.files, self.tables, self.names_tables = files, tables, False
        self.urls, self.folders, self.domains = set[str](), set[str](), set[str]()
        self.url_hashes = set[bytes]()
        self.ids, self.like_ids, self.text_hashes = set[int](), set[int](), set[str]()
        self.values, self.value_hashes = dict[str, set[str]](), dict[str, set[str]]()
        self.signed, self.only_themselves = dict[str, dict[str, Signature]](), set[str]()
        self.letter_hashes, self.row_hashes = set[str](), set[str]()
        self.row_beginnings = dict[int, set[str]]()
        self._sketches = dict[str, Sketches]()
        for request in requests:
            if request.addresses_sha256 is not None:
                self.names_tables = True
            elif request.url is not None:
                self.add_address(address_of(request.url.strip()))
            elif request.domain is not None:
                self.domains.add(str(normalise_domain(request.domain)))
            elif request.id is not None:
                (self.like_ids if request.by else self.ids).add(request.id)
            elif request.text_sha256 is not None and request.signature is not None:
                signatures = self.signed.setdefault(digest_of(request.signature.parameters), {})
                signatures[request.text_sha256] = request.signature
                self.only_themselves |= {request.text_sha256} if request.only_itself else set()
            elif request.text_sha256 is not None:
                self.text_hashes.add(request.text_sha256)
            elif request.letters_sha256 is not None:
                self.letter_hashes.add(request.letters_sha256)
            elif request.row_sha256 is not None and request.row_bytes is not None:
                self.row_beginnings.setdefault(request.row_bytes, set()).add(request.row_sha256)
            elif request.row_sha256 is not None:
                self.row_hashes.add(request.row_sha256)
            elif request.url_sha256 is not None:
                self.url_hashes.add(bytes.fromhex(request.url_sha256))
            elif request.column is not None and request.value_sha256 is not None:
                self.value_hashes.setdefault(request.column, set()).add(request.value_sha256)
            elif request.column is not None:
                self.values.setdefault(request.column, set()).add(str(as_text(request.value, lists=False)))

    def __reduce__(self) -> Any:
        """Send the names of files instead of requests: each worker reads the files once."""
        return (load_deny_list, (self.files,)) if self.files else super().__reduce__()

    def add_address(self, entry: Entry) -> None:
        entries_by_kind = {"domain": self.domains, "url": self.urls, "folder": self.folders}
        entries_by_kind[entry.kind].add(entry.value)

    @property
    def has_addresses(self) -> bool:
        return bool(self.urls or self.folders or self.domains or self.url_hashes or self.names_tables)

    @cached_property
    def requested_and_similar_ids(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The ids of requested documents and of documents similar to them, ascending: (n,) uint64 each."""
        requested, similar = (np.array(sorted(ids), np.uint64) for ids in (self.ids, self.like_ids))
        return requested, similar

    def sketches(self, kind: str) -> Sketches:
        """Return the hashes of texts with signatures of a kind, the signatures, and their shingle counts."""
        if kind not in self._sketches:
            signed = self.signed[kind]
            values = np.stack([signature.sketch for signature in signed.values()])
            counts = np.array([signature.shingles or 0 for signature in signed.values()], np.int64)
            self._sketches[kind] = list(signed), values, counts
        return self._sketches[kind]

    @cached_property
    def all_text_hashes(self) -> frozenset[str]:
        """The hashes of all requested texts, with or without a signature."""
        return frozenset(self.text_hashes).union(*self.signed.values())

    @property
    def columns(self) -> list[str]:
        """The columns with requested values."""
        return [*dict.fromkeys([*self.values, *self.value_hashes])]

    def has_address(self, address_text: str | None) -> bool:
        """Return whether documents with this address are to be removed."""
        return address_text is not None and bool(self.denies_normal([normalise_address(address_text)])[0])

    def denies_addresses(self, addresses: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """Return for each address of a column whether documents with it are to be removed: (n,)."""
        return self.denies_normal(normal_addresses(addresses))

    def denies_normal(self, addresses: Sequence[Address | None]) -> NDArray[np.bool_]:
        """Return whether documents with addresses in normal form are to be removed: (n,)."""
        is_denied = np.zeros(len(addresses), np.bool_)
        if self.urls or self.folders or self.domains or self.url_hashes:
            is_denied |= [address is not None and self.lists(*address) for address in addresses]
        for table in self.tables:
            is_denied |= table.contains([address and address[1] for address in addresses])
        return is_denied

    def lists(self, host: str, address: str) -> bool:
        """Return whether an address, one of its folders, or its domain is in the lists without their tables."""
        is_in_folder = bool(self.folders) and not self.folders.isdisjoint(self.folders_of(address))
        is_hashed = bool(self.url_hashes) and not self.url_hashes.isdisjoint(digests_of_address(address))
        return (
            address in self.urls
            or is_in_folder
            or is_hashed
            or (bool(self.domains) and not self.domains.isdisjoint(host_and_parents(host)))
        )

    def folders_of(self, address: str) -> Iterator[str]:
        """Yield the folders of an address that are not longer than the longest requested folder."""
        for end in folder_ends(address):
            if end > self.longest_folder:
                return
            yield address[:end]

    @cached_property
    def longest_folder(self) -> int:
        return max(map(len, self.folders), default=0)


@lru_cache(maxsize=4)
def load_deny_list(files: tuple[PlannedFile, ...]) -> DenyList:
    """Read lists, and the tables of addresses that they name. Raises BadInput with the invalid lines."""
    requests = [request for file in files for request in requests_in(file)]
    corpora = [
        file.listed.url.rsplit("/", 2)[0] for file in files
    ]  # of <corpus>/denied/LIST, <corpus>/work/LIST
    return DenyList(requests, files, tuple(tables_named(corpora, requests)))


def tables_named(corpora: Sequence[str], requests: Iterable[Request]) -> Iterator[AddressTable]:
    """Read the tables of addresses that requests name. corpora: URLs of the folders that may have the tables."""
    for request in requests:
        if request.addresses_sha256 is not None:
            yield load_address_table(tuple(dict.fromkeys(corpora)), request.addresses_sha256)


def lists_of(recipe: Recipe) -> tuple[PlannedFile, ...]:
    """Look up the lists of a recipe. Raises BadInput for a missing list."""
    return planned_files(NAME, recipe.deny_lists)


def digests_of_lists(recipe: Recipe) -> dict[str, str]:
    """Return the SHA-256 of a recipe's lists by URL. Raises BadInput for a missing list."""
    return {file.listed.url: file.sha256 for file in lists_of(recipe)} if recipe.deny_lists else {}


def read_lists(recipe: Recipe) -> dict[str, str]:
    """Read a recipe's lists and return their SHA-256 by URL. Raises BadInput with the invalid lines."""
    if recipe.deny_lists:
        load_deny_list(lists_of(recipe))
    return digests_of_lists(recipe)


def requests_in(file: PlannedFile, name: str = NAME) -> Iterator[Request]:
    """Yield the requests of a list. name: the owner of the list, for errors.

    Raises BadInput with the invalid lines, and for a list of `zyda forget` that was changed, because lost requests
    would remain unnoticed.
    """
    where = f"{name}: {file.listed.url}"
    lines = list(lines_of_list(name, file))
    if lines and lines[0].startswith(SEAL) and sealed(lines[1:])[0] != lines[0]:
        raise BadInput(
            f"{where}: the file was changed after `zyda forget` wrote it; restore it, or remove its first line to "
            "accept the change"
        )
    yield from read_entries(where, lines, requests_of, "are not requests")


def sealed(lines: Sequence[str]) -> list[str]:
    """Return the lines of a list with a first line that has a hash of the others."""
    return [SEAL + sha256("\n".join(lines).encode()).hexdigest(), *lines]


def requests_of(line: str) -> list[Request]:
    """Return the requests of a line. Raises ValueError."""
    line = line.strip()
    try:
        if line.startswith("{"):
            return [Request(**orjson.loads(line))]
        return [request_of(field) for field in fields_of(line)]
    except orjson.JSONDecodeError as error:
        raise ValueError(json_fault(error)) from error
    except ValidationError as error:
        raise ValueError(fault_of(error)) from error


def request_of(field: str) -> Request:
    """Return the request for a domain or an address. Raises ValueError."""
    entry = entry_of(field)
    return Request(domain=entry.host) if entry.kind == "domain" else Request(url=field)


def fault_of(error: ValueError) -> str:
    """Return the fault of a line in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        said = ".".join(map(str, first["loc"]))
        return f"{said}: {first['msg']}".removeprefix(": ").replace("Value error, ", "")
    return first_line(error)
