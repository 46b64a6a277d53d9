"""What the failure of a store says: whether it is final, what to do, and how long the store asks to wait."""

import errno
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime

from zyda_flows.tasks.errors import Unavailable

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
DENIED_CODES = {"AccessDenied", "InvalidAccessKeyId", "NoSuchBucket", "SignatureDoesNotMatch"}
NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"}
FORBIDDEN, TOO_MANY = 403, 429
DENIED_STATUS = {401, FORBIDDEN}
BUSY_STATUS = {TOO_MANY, 503}
HOSTS_THAT_FORBID_WHEN_BUSY = {"data.commoncrawl.org"}
USUAL_WAIT = 30.0  # seconds, where a host limits its requests and does not say for how long


def advice_about(error: Exception) -> str:
    """Say what to do about a failure whose own words do not, or nothing."""
    if getattr(error, "errno", None) in FULL:
        return "; make room there, and start the same command again: what is finished is kept"
    if type(error).__name__ in NO_CREDENTIALS:
        return "; workers of zyda up have those of the terminal that it was started from"
    return ""


def is_final(error: Exception) -> bool:
    """Say whether trying again cannot help: no permission, no such bucket, no space left, no credentials.

    Credentials that could not be refreshed in time are none of these: they may come.
    """
    causes = [error, error.__cause__, error.__context__]
    return (
        any(code_of(cause) in DENIED_CODES or is_denied(cause) for cause in causes)
        or getattr(error, "errno", None) in FULL
        or any(type(cause).__name__ in NO_CREDENTIALS for cause in causes)
    )


def is_denied(error: BaseException | None) -> bool:
    """Say whether a server denied what it was asked for, and would again."""
    return status_of(error) in DENIED_STATUS and not forbids_when_busy(error)


def forbids_when_busy(error: BaseException | None) -> bool:
    """Say whether a server forbade what it will give to who asks less often."""
    return status_of(error) == FORBIDDEN and host_of(error) in HOSTS_THAT_FORBID_WHEN_BUSY


def status_of(error: BaseException | None) -> object:
    """Return the HTTP status that a failure was answered with, or None."""
    response = getattr(error, "response", None)
    return getattr(error, "status", None) or getattr(response, "status_code", None)


def unavailable(sentence: str, error: BaseException) -> Unavailable:
    """Return the error for a store that did not answer, with what it asks for, if anything."""
    made = Unavailable(sentence)
    made.host, made.seconds = requested_wait(error)
    return made


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and what it was raised from, one after another."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def requested_wait(error: BaseException) -> tuple[str, float | None]:
    """Return who asks to wait before the next request, and for how many seconds; None where nobody does."""
    for cause in causes_of(error):
        host, headers, status = host_of(cause), headers_of(cause), status_of(cause)
        if status in BUSY_STATUS:
            seconds = seconds_in(headers)
            return host, USUAL_WAIT if seconds is None and status == TOO_MANY else seconds
        if forbids_when_busy(cause):
            return host, USUAL_WAIT
    return "", None


def seconds_in(headers: Mapping[str, str]) -> float | None:
    """Read how long to wait from an answer's headers: Retry-After (RFC 9110), or RateLimit with nothing left."""
    known = {name.lower(): value.strip() for name, value in headers.items()}
    later = known.get("retry-after", "")
    if later.isascii() and later.isdigit():
        return float(later)
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(later).timestamp() - time.time())
    limit = re.search(r";\s*r=0\s*;\s*t=(\d+)", known.get("ratelimit", ""))
    return float(limit[1]) if limit else None


def headers_of(error: BaseException | None) -> Mapping[str, str]:
    """Return the headers of the answer that a failure came with, of whichever client."""
    response = getattr(error, "response", None)
    return getattr(error, "headers", None) or getattr(response, "headers", None) or {}


def host_of(error: BaseException | None) -> str:
    """Return the host that a failure came from, or nothing where it does not say so."""
    asked = getattr(error, "request_info", None) or getattr(error, "response", None)
    return str(getattr(getattr(asked, "url", None), "host", None) or "")


def code_of(error: BaseException | None) -> str:
    """Return what S3 calls a failure, or nothing where it was not S3."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def is_storage_failure(error: Exception) -> bool:
    """Say whether an exception came from a storage back end or the network below it."""
    package = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or package in {
        "aiohttp", "aiobotocore", "botocore", "gcsfs", "google", "s3fs", "huggingface_hub", "hf_xet",
        "httpx", "httpx2", "httpcore", "httpcore2",  # the hub's client has changed from one to the other
        "requests", "urllib3",
    }  # fmt: skip
