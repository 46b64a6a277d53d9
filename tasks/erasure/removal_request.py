"""Read a removal request, and convert it to the entries of a deny list, with hashes instead of personal data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from zyda_flows.tasks.documents.deny_list import DenyList, Request, fault_of, requests_in
from zyda_flows.tasks.documents.deny_signatures import requests_of_texts
from zyda_flows.tasks.erasure.large_lists import NO_REQUEST, OWNER, is_large, requests_of_large_lists
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import parse
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.address_lists import address_of
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.small_files import errors_about, planned_file
from zyda_flows.tasks.storage.folder import Folder


@dataclass(frozen=True)
class RemovalRequest:
    """A removal request. requests: its entries. texts: whole texts to remove.

    large_lists: files with so many addresses that they are read into a table (`with_table`).
    """

    requests: tuple[Request, ...]
    texts: tuple[str, ...] = ()
    large_lists: tuple[InputFile, ...] = ()

    def with_table(self, folder: Folder) -> "RemovalRequest":
        """Read the large lists into a table beside a corpus, and return the request without them."""
        if not self.large_lists:
            return self
        return RemovalRequest(
            (*self.requests, *requests_of_large_lists(folder, self.large_lists)), self.texts
        )

    def with_texts(self, rounds: Sequence[MinHashRound], *, alike: bool) -> list[Request]:
        """Return the entries, and an entry for each text.

        alike: also match similar texts, by signatures of rounds.
        """
        return [*self.requests, *requests_of_texts(self.texts, rounds, alike=alike)]

    def hashed_requests(self) -> list[Request]:
        """Return the entries with hashes instead of addresses and values of columns."""
        return [hash_request(request) for request in self.requests]

    def counts(self) -> dict[str, int]:
        """Count the entries and texts, by kind. Addresses in a table count as `url`."""
        counts = Counter[str]({"text": len(self.texts)} if self.texts else {})
        for request in self.requests:
            if request.addresses is not None:
                counts["url"] += request.addresses
            else:
                kinds = (name for name in Request.model_fields if getattr(request, name) is not None)
                counts[next(kinds)] += 1
        return dict(counts)


def hash_request(request: Request) -> Request:
    """Return an entry with a hash instead of its address or value."""
    if request.url is not None:
        entry = address_of(request.url.strip())
        address = f"{entry.value}/*" if entry.kind == "folder" else entry.value
        return Request(url_sha256=sha256(address.encode()).hexdigest())
    if request.column is not None and request.value is not None:
        (value,) = DenyList([request]).values[request.column]
        return Request(column=request.column, value_sha256=sha256(value.encode()).hexdigest())
    return request


def forms_of(text: str) -> Iterator[str]:
    """Yield the forms of a text that editors save: with and without a byte order mark, and with other line ends.

    The line ends are those of Windows, and a line end after the last line.
    """
    bare = text.removeprefix("\ufeff")
    for marked in (text, bare, f"\ufeff{bare}"):
        for form in (marked, marked.replace("\r\n", "\n")):
            yield from (form, form.rstrip("\r\n"))


@dataclass
class RequestReader:
    """Reads the options of a command line into a removal request."""

    requests: list[Request] = field(default_factory=list)
    large_lists: list[InputFile] = field(default_factory=list)

    def add_lists(self, urls: Iterable[str]) -> None:
        """Add the lines of lists.

        Raises BadInput for a line that is no request, and for a list without requests.
        """
        for url in urls:
            if not url:
                raise BadInput("--urls: a file is expected")
            before = len(self.requests) + len(self.large_lists)
            with errors_about(OWNER):
                files = list_files(Source.model_construct(name=OWNER, files=(url,)))
            for file in files:
                with errors_about(OWNER):
                    is_read_in_blocks = is_large(file)
                if is_read_in_blocks:
                    self.large_lists.append(file)
                else:
                    self.requests += requests_in(planned_file(OWNER, file), OWNER)
            if len(self.requests) + len(self.large_lists) == before:
                raise BadInput(f"--urls {url}: {NO_REQUEST}")

    def add_domains(self, names: Iterable[str]) -> None:
        for name in names:
            self.add("--domain", name, domain=name)

    def add_ids(self, values: Iterable[str]) -> None:
        """Add document ids; a value may have several, separated by commas or spaces. Raises BadInput."""
        for value in values:
            for text in value.replace(",", " ").split():
                if (doc_id := parse(text)) is None:
                    raise BadInput(f"--ids {text}: expected a document id, decimal or as 0x...")
                self.requests.append(Request(id=doc_id))

    def add_columns(self, pairs: Iterable[str]) -> None:
        for pair in pairs:
            column, sign, value = pair.partition("=")
            if not sign:
                raise BadInput(f"--column {pair}: expected name=value")
            self.add("--column", pair, column=column, value=value)

    def add(self, option: str, text: str, **fields: Any) -> None:
        """Add an entry. Raises BadInput with the option and its text if a field is not valid."""
        try:
            self.requests.append(Request(**fields))
        except ValidationError as error:
            raise BadInput(f"{option} {text}: {fault_of(error)}") from error

    def request(self, texts: Sequence[str]) -> RemovalRequest:
        """Return the request. Raises BadInput if it is empty."""
        if any(not text.strip() for text in texts):
            raise BadInput("--text: the text is empty")
        texts = [*dict.fromkeys(form for text in texts for form in forms_of(text))]
        if not (self.requests or self.large_lists or texts):
            raise BadInput("the request is empty: give --urls, --domain, --ids, --column or --text")
        return RemovalRequest(tuple(self.requests), tuple(texts), tuple(self.large_lists))
