"""Check a Prefect server: whether it is healthy, whether it accepts a login, and whether its port is open."""

import socket
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit

from zyda_flows.flows.server.login import Api
from zyda_flows.tasks.workers.ports import LOOPBACK

ANSWER_SECONDS = 30


def is_healthy(api: Api) -> bool:
    url = f"{api.url}/health"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS, context=api.tls) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):  # no server, another program, or an invalid address
        return False


def refuses_login(api: Api) -> bool:
    """Return whether a server refuses the login."""
    request = urllib.request.Request(f"{api.url}/admin/version", headers=api.headers)  # noqa: S310
    try:
        urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=api.tls).close()  # noqa: S310
    except HTTPError as error:
        return error.code == HTTPStatus.UNAUTHORIZED
    except (OSError, HTTPException):  # the server is busy or has ended: the login is not refused
        return False
    return False


def is_usable(api: Api) -> bool:
    """Return whether a server runs and still accepts the login; a restarted server has another login."""
    return is_listening(api.url) and not refuses_login(api)


def is_listening(url: str) -> bool:
    """Return whether a program listens at a URL, even if it is too busy to answer in time."""
    place = urlsplit(url)
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        socket.create_connection((place.hostname or LOOPBACK, port), timeout=5).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
