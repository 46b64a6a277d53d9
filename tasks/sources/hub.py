"""Files of the Hugging Face hub, listed and read at one commit.

A branch or a tag is resolved once, when a source is listed. All files are then read at that commit, so that a
repository that changes during a build does not give a mixture of versions. Buckets have no commits: fsspec reads
them.
"""

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from zyda_flows.tasks.errors import Unavailable
from zyda_flows.tasks.recipe.values import HUB
from zyda_flows.tasks.sources.web_files import AHEAD, PART_STATUS, FileInParts, fault_of_part
from zyda_flows.tasks.workers.host_limits import place_at

SECONDS_FOR_ANSWER = 60


def uri_of(url: str) -> Any:
    """Parse a URL of the hub. Raises ValueError."""
    from huggingface_hub import parse_hf_uri  # a late import: it takes a third of a second

    return parse_hf_uri(HUB + url[len(HUB) :])


def at_commit(url: str, commit: str) -> str:
    """Return the URL or pattern of the same files at a commit."""
    return str(replace(uri_of(url), revision=commit, _raw=None).to_uri()).replace(f"{HUB}models/", HUB)


def as_in_pattern(url: str, pattern: str) -> str:
    """Return the URL of a file at a commit with the revision of its pattern, if the pattern has one."""
    uri = replace(uri_of(url), revision=uri_of(pattern).revision, _raw=None)
    return str(uri.to_uri()).replace(f"{HUB}models/", HUB)


def commit_of(url: str, revision: str | None = None) -> str:
    """Return the current commit of the URL's revision, else of `revision`, else of the main branch.

    Raises the errors of the hub's client.
    """
    from huggingface_hub import HfApi  # late
    from huggingface_hub.errors import RevisionNotFoundError  # late

    uri = uri_of(url)
    wanted = uri.revision or revision
    try:
        return str(HfApi().repo_info(uri.id, repo_type=uri.type, revision=wanted).sha)
    except RevisionNotFoundError as error:
        raise FileNotFoundError(f"{uri.id} has no branch, tag or commit {wanted or 'main'!r}") from error
    except (KeyError, TypeError, AttributeError) as error:  # for example, a login page
        raise Unavailable(f"{url}: the server that answers is not the hub") from error


class HubFile(FileInParts):
    """A file of a repository at a commit; each part is read with one request."""

    def __init__(self, url: str, size: int) -> None:
        from huggingface_hub import constants, hf_hub_url  # late

        super().__init__(url, size)
        uri = uri_of(url)
        self.address = hf_hub_url(
            uri.id, uri.path_in_repo, repo_type=uri.type, revision=uri.revision, endpoint=constants.ENDPOINT
        )
        self.host = urlsplit(self.address).hostname or ""

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes from start up to stop, exclusive. Raises Unavailable and the errors of the client."""
        return self.ask(start, stop) if start < stop else b""

    def ask(self, start: int, stop: int) -> bytes:
        from huggingface_hub import get_session, hf_raise_for_status  # late
        from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError  # late
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # late

        range_headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        headers = {**build_hf_headers(), **range_headers}
        options: dict[str, Any] = {"timeout": SECONDS_FOR_ANSWER, "follow_redirects": True}
        session = get_session()
        with place_at(self.host), session.stream("GET", self.address, headers=headers, **options) as response:
            try:
                hf_raise_for_status(response)
            except (EntryNotFoundError, RevisionNotFoundError) as error:
                raise FileNotFoundError(self.path) from error
            if fault := self.fault_of(response.status_code, response.headers, start, stop):
                raise Unavailable(f"{self.path}: the hub answered with {fault}")
            return bytes(response.read())

    def fault_of(self, status: int, headers: Mapping[str, str], start: int, stop: int) -> str | None:
        """Return the fault of a response's head for a requested part, or None."""
        if status == PART_STATUS:
            return fault_of_part(headers, start, stop, self.size)
        is_all = range(start, stop) == range(self.size) and headers.get("Content-Length") == str(self.size)
        return None if is_all else f"status {status}, expected bytes {start}-{stop - 1}"


def opened_on_hub(url: str, size: int, *, at_random: bool) -> Any:
    """Open a file at a commit: at random with exact requests, from start to end with some MiB ahead."""
    file = HubFile(url, size)
    return file if at_random else io.BufferedReader(file, AHEAD)
