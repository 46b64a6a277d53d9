"""Files of the Hugging Face hub, listed and read at one commit.

A branch or a tag is looked up once, when a source is listed. What is read afterwards is read at the commit that it
named then, so that a repository that moves meanwhile gives no mixture. Buckets have no commits: fsspec reads them.
"""

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from zyda_flows.tasks.errors import Unavailable
from zyda_flows.tasks.recipe.values import HUB
from zyda_flows.tasks.sources.web_files import AHEAD, PART, FileInParts, fault_of_part
from zyda_flows.tasks.workers.host_limits import place_at

SECONDS_FOR_ANSWER = 60


def uri_of(url: str) -> Any:
    """Read a URL of the hub. Raises ValueError."""
    from huggingface_hub import parse_hf_uri  # late: a third of a second

    return parse_hf_uri(HUB + url[len(HUB) :])


def at_commit(url: str, commit: str) -> str:
    """Return the URL or pattern of the same files at a commit."""
    return str(replace(uri_of(url), revision=commit, _raw=None).to_uri()).replace(f"{HUB}models/", HUB)


def as_in_pattern(url: str, pattern: str) -> str:
    """Return the URL of a file at a commit as its pattern would name it: without one, or with the pattern's."""
    uri = replace(uri_of(url), revision=uri_of(pattern).revision, _raw=None)
    return str(uri.to_uri()).replace(f"{HUB}models/", HUB)


def commit_of(url: str, revision: str | None = None) -> str:
    """Return the commit that a revision names now: that of the URL, one of its repository, or its main branch.

    Raises what the hub's client raises.
    """
    from huggingface_hub import HfApi  # late
    from huggingface_hub.errors import RevisionNotFoundError  # late

    uri = uri_of(url)
    wanted = uri.revision or revision
    try:
        return str(HfApi().repo_info(uri.id, repo_type=uri.type, revision=wanted).sha)
    except RevisionNotFoundError as error:
        raise FileNotFoundError(f"{uri.id} has no branch, tag or commit {wanted or 'main'!r}") from error
    except (KeyError, TypeError, AttributeError) as error:  # of a page that asks for a login, say
        raise Unavailable(f"{url}: what answers in the hub's place is not the hub") from error


class HubFile(FileInParts):
    """A file of a repository at a commit; each part of it is one request to the hub."""

    def __init__(self, url: str, size: int) -> None:
        from huggingface_hub import constants, hf_hub_url  # late

        super().__init__(url, size)
        uri = uri_of(url)
        self.address = hf_hub_url(
            uri.id, uri.path_in_repo, repo_type=uri.type, revision=uri.revision, endpoint=constants.ENDPOINT
        )
        self.host = urlsplit(self.address).hostname or ""

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes from start to before stop. Raises Unavailable, and what the hub's client raises."""
        return self.ask(start, stop) if start < stop else b""

    def ask(self, start: int, stop: int) -> bytes:
        from huggingface_hub import get_session, hf_raise_for_status  # late
        from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError  # late
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # late

        asked = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        headers = {**build_hf_headers(), **asked}
        options: dict[str, Any] = {"timeout": SECONDS_FOR_ANSWER, "follow_redirects": True}
        session = get_session()
        with place_at(self.host), session.stream("GET", self.address, headers=headers, **options) as answer:
            try:
                hf_raise_for_status(answer)
            except (EntryNotFoundError, RevisionNotFoundError) as error:
                raise FileNotFoundError(self.path) from error
            if fault := self.fault_of(answer.status_code, answer.headers, start, stop):
                raise Unavailable(f"{self.path}: the hub answered with {fault}")
            return bytes(answer.read())

    def fault_of(self, status: int, headers: Mapping[str, str], start: int, stop: int) -> str | None:
        """Say in what the head of an answer is not that of the part that was asked for, or nothing."""
        if status == PART:
            return fault_of_part(headers, start, stop, self.size)
        is_all = range(start, stop) == range(self.size) and headers.get("Content-Length") == str(self.size)
        return None if is_all else f"status {status}, where bytes {start}-{stop - 1} were asked for"


def opened_on_hub(url: str, size: int, *, at_random: bool) -> Any:
    """Open a file at a commit: asked for what is read, or, from end to end, for some MiB ahead."""
    file = HubFile(url, size)
    return file if at_random else io.BufferedReader(file, AHEAD)
