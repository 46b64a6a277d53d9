"""RemovalRequest: a request as somebody makes it, and as the deny list of a corpus keeps it, by hashes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from zyda_flows.tasks.documents.deny_list import DenyList, Request, fault_of, requests_in
from zyda_flows.tasks.documents.deny_signatures import requests_of_texts
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import parse
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.sources.address_lists import address_of
from zyda_flows.tasks.sources.small_files import planned_files


@dataclass(frozen=True)
class RemovalRequest:
    """A request. texts: whole texts that are asked about."""

    requests: tuple[Request, ...]
    texts: tuple[str, ...] = ()

    def known_by(self, rounds: Sequence[MinHashRound], *, alike: bool) -> list[Request]:
        """Return all by which documents are known in a build with some rounds. alike: also those like the texts."""
        return [*self.requests, *requests_of_texts(self.texts, rounds, alike=alike)]

    def kept(self) -> list[Request]:
        """Return the request without what it says of a person: addresses and values of columns are hashed."""
        return [hashed(one) for one in self.requests]

    def counts(self) -> dict[str, int]:
        """Count what it asks about, by kind."""
        kinds = ["text"] * len(self.texts)
        kinds += [
            next(name for name in Request.model_fields if getattr(one, name) is not None)
            for one in self.requests
        ]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def hashed(request: Request) -> Request:
    """Return a request with a hash in the place of an address or a value."""
    if request.url is not None:
        entry = address_of(request.url.strip())
        address = f"{entry.value}/*" if entry.kind == "folder" else entry.value
        return Request(url_sha256=sha256(address.encode()).hexdigest())
    if request.column is not None and request.value is not None:
        (value,) = DenyList([request]).values[request.column]
        return Request(column=request.column, value_sha256=sha256(value.encode()).hexdigest())
    return request


def forms_of(text: str) -> Iterator[str]:
    """Return a text, and it with and without what either an editor or the document may have and the other not.

    That is a byte order mark, a line end after the last line, and line ends of Windows.
    """
    bare = text.removeprefix("\ufeff")
    for marked in (text, bare, f"\ufeff{bare}"):
        for form in (marked, marked.replace("\r\n", "\n")):
            yield from (form, form.rstrip("\r\n"))


@dataclass
class RequestReader:
    """What stands on a command line, read into a request."""

    found: list[Request] = field(default_factory=list)

    def lists(self, urls: Iterable[str]) -> None:
        """Add the lines of lists. Raises BadInput with those that ask for nothing."""
        for url in urls:
            if not url:
                raise BadInput("--urls: a file is expected")
            before = len(self.found)
            for file in planned_files("--urls", (url,)):
                self.found += requests_in(file, "--urls")
            if len(self.found) == before:
                raise BadInput(f"--urls {url}: it asks for nothing: no line of it is a request")

    def domains(self, names: Iterable[str]) -> None:
        for name in names:
            self.add("--domain", name, domain=name)

    def ids(self, ids: Iterable[str]) -> None:
        for some in ids:
            for one in some.replace(",", " ").split():
                if (number := parse(one)) is None:
                    raise BadInput(f"--ids {one}: a document's id is expected, in decimals or as 0x...")
                self.found.append(Request(id=number))

    def columns(self, pairs: Iterable[str]) -> None:
        for pair in pairs:
            column, is_there, value = pair.partition("=")
            if not is_there:
                raise BadInput(f"--column {pair}: name=value is expected")
            self.add("--column", pair, column=column, value=value)

    def add(self, option: str, said: str, **fields: Any) -> None:
        try:
            self.found.append(Request(**fields))
        except ValidationError as error:
            raise BadInput(f"{option} {said}: {fault_of(error)}") from error

    def asked(self, texts: Sequence[str]) -> RemovalRequest:
        """Return the request. Raises BadInput where it asks for nothing."""
        if any(not text.strip() for text in texts):
            raise BadInput("--text: a text is expected, and this one is empty")
        texts = [*dict.fromkeys(form for text in texts for form in forms_of(text))]
        if not self.found and not texts:
            raise BadInput("nothing is asked for: give --urls, --domain, --ids, --column or --text")
        return RemovalRequest(tuple(self.found), tuple(texts))
