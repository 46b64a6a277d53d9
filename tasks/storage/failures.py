"""Interpret failures of stores: whether a failure is final, advice for it, and the wait that a host requests."""

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
USUAL_WAIT = 30.0  # seconds, if a host limits requests without a stated wait


def advice_about(error: Exception) -> str:
    """Return advice for a failure whose own message has none, or ""."""
    if getattr(error, "errno", None) in FULL:
        return "; free some space there, and start the same command again: finished work is kept"
    if type(error).__name__ in NO_CREDENTIALS:
        return "; workers of zyda up have the credentials of the terminal in which it was started"
    return ""


def is_final(error: Exception) -> bool:
    """Return whether a retry cannot help: no permission, no such bucket, no space left, no credentials.

    Credentials that could not be refreshed in time are not final, because a later refresh may succeed.
    """
    causes = [error, error.__cause__, error.__context__]
    return (
        any(code_of(cause) in DENIED_CODES or is_denied(cause) for cause in causes)
        or getattr(error, "errno", None) in FULL
        or any(type(cause).__name__ in NO_CREDENTIALS for cause in causes)
    )


def is_denied(error: BaseException | None) -> bool:
    """Return whether a server denied a request permanently."""
    return status_of(error) in DENIED_STATUS and not forbids_when_busy(error)


def forbids_when_busy(error: BaseException | None) -> bool:
    """Return whether a host that answers 403 when it is busy refused a request; fewer requests may help."""
    return status_of(error) == FORBIDDEN and host_of(error) in HOSTS_THAT_FORBID_WHEN_BUSY


def status_of(error: BaseException | None) -> object:
    """Return the HTTP status of a failure, or None."""
    response = getattr(error, "response", None)
    return getattr(error, "status", None) or getattr(response, "status_code", None)


def unavailable(sentence: str, error: BaseException) -> Unavailable:
    """Return the error for a store that did not answer, with the host's requested wait, if any."""
    made = Unavailable(sentence)
    made.host, made.seconds = requested_wait(error)
    return made


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then its causes in order."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def requested_wait(error: BaseException) -> tuple[str, float | None]:
    """Return the host that requests a wait, and the seconds; ("", None) if no host requests a wait."""
    for cause in causes_of(error):
        host, headers, status = host_of(cause), headers_of(cause), status_of(cause)
        if status in BUSY_STATUS:
            seconds = seconds_in(headers)
            return host, USUAL_WAIT if seconds is None and status == TOO_MANY else seconds
        if forbids_when_busy(cause):
            return host, USUAL_WAIT
    return "", None


def seconds_in(headers: Mapping[str, str]) -> float | None:
    """Return the wait in a response's headers: Retry-After (RFC 9110), or RateLimit with 0 requests remaining."""
    known = {name.lower(): value.strip() for name, value in headers.items()}
    later = known.get("retry-after", "")
    if later.isascii() and later.isdigit():
        return float(later)
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(later).timestamp() - time.time())
    limit = re.search(r";\s*r=0\s*;\s*t=(\d+)", known.get("ratelimit", ""))
    return float(limit[1]) if limit else None


def headers_of(error: BaseException | None) -> Mapping[str, str]:
    """Return the headers of a failure's response, for any HTTP client."""
    response = getattr(error, "response", None)
    return getattr(error, "headers", None) or getattr(response, "headers", None) or {}


def host_of(error: BaseException | None) -> str:
    """Return the host of a failure, or "" if it is unknown."""
    request = getattr(error, "request_info", None) or getattr(error, "response", None)
    return str(getattr(getattr(request, "url", None), "host", None) or "")


def code_of(error: BaseException | None) -> str:
    """Return S3's error code of a failure, or "" if the failure is not from S3."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def is_storage_failure(error: Exception) -> bool:
    """Return whether an exception comes from a storage back end or its network connection."""
    package = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or package in {
        "aiohttp", "aiobotocore", "botocore", "gcsfs", "google", "s3fs", "huggingface_hub", "hf_xet",
        "httpx", "httpx2", "httpcore", "httpcore2",  # versions of the hub's client use different libraries
        "requests", "urllib3",
    }  # fmt: skip
