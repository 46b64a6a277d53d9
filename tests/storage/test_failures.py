"""The waiting time that a failed request to a store asks for, and its host."""

import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from zyda_flows.tasks.errors import Denied, Unavailable
from zyda_flows.tasks.storage.failures import requested_wait
from zyda_flows.tasks.storage.stores import explain_errors


def failure(status, host="a.b", **headers):
    """Return an error like an error of a web client."""
    error = OSError("no")
    error.status, error.request_info = status, SimpleNamespace(url=SimpleNamespace(host=host))
    error.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return error


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (failure(429, Retry_After="120"), 120),
        (failure(503, retry_after="7"), 7),
        (failure(429, RateLimit='"api";r=0;t=55'), 55),
        (failure(429, RateLimit='"api";r=3;t=55'), 30),
        (failure(429), 30),
        (failure(429, Retry_After="soon"), 30),
        (failure(503), None),
        (failure(500, Retry_After="120"), None),
        (failure(403), None),
        (failure(403, host="data.commoncrawl.org"), 30),
    ],
)
def test_waiting_time_is_read_from_the_response(error, seconds):
    assert requested_wait(error)[1] == seconds


def test_date_in_retry_after_is_relative_to_now():
    (_, seconds) = requested_wait(failure(503, Retry_After=formatdate(time.time() + 90, usegmt=True)))
    assert 85 < seconds <= 90


def test_waiting_time_is_read_from_the_cause():
    error = FileNotFoundError("x")
    error.__cause__ = failure(429, Retry_After="5")
    assert requested_wait(error) == ("a.b", 5)


def test_status_403_of_common_crawl_is_unavailable():
    with pytest.raises(Unavailable), explain_errors("x"):
        raise failure(403, host="data.commoncrawl.org")
    with pytest.raises(Denied), explain_errors("x"):
        raise failure(403)
