"""The logins of Prefect servers that this project starts: each start has a new login, valid until the server ends.

Prefect's server runs commands that its clients send. Without a login, all users of this machine would be clients,
and so would every web page that they open.

A browser keeps the login in memory, and sends it by plain http while a tab is open. After the end of the server
another user can listen on its port and receive the login. So no login is used twice, and no login is the user's own
PREFECT_SERVER_API_AUTH_STRING.
"""

import base64
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from zyda_flows.tasks.workers.private_files import write_private

LOGIN = "PREFECT_API_AUTH_STRING"
SIGN_IN = "/zyda/sign-in"  # flows/server/server_pages.py serves it
USER = "zyda"
LOGIN_FILE = "login.json"


class Api(BaseModel):
    """The API of a Prefect server.

    login: `user:password`, if the server requires a login.
    certificate: the path of its certificate, if no authority of the web signed it.
    page: the address of the dashboard of a server of this project, which signs browsers in.
    """

    url: str
    login: str | None = None
    certificate: str | None = None
    page: str | None = None

    @property
    def dashboard(self) -> str:
        return self.page or self.url.removesuffix("/api")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Basic {self.token}"} if self.login else {}

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of a client that trusts only this server, if the server has its own certificate."""
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else None

    @property
    def clients(self) -> dict[str, str]:
        """The environment in which Prefect's clients use this server."""
        values = {
            "PREFECT_API_URL": self.url,
            "PREFECT_UI_URL": self.dashboard,
            LOGIN: self.login,
            "PREFECT_API_SSL_CERT_FILE": self.certificate,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def token(self) -> str:
        """The login in the format of a request's Authorization header, which the dashboard also stores."""
        return base64.b64encode((self.login or "").encode()).decode()

    @property
    def link(self) -> str:
        """The dashboard's address for a browser, with the login of a server of this project after `#`.

        The login of any other server belongs to the user and may be permanent, so no address contains it.
        """
        return f"{self.page}{SIGN_IN}#{self.token}" if self.page and self.login else self.dashboard


def new_login() -> str:
    """Return a random login."""
    return f"{USER}:{secrets.token_urlsafe(32)}"


def save_api(api: Api, home: Path) -> None:
    """Write the address and the login of the server of `zyda up` to a file that only its owner can read."""
    write_private(home / LOGIN_FILE, api.model_dump_json())


def saved_api(home: Path) -> Api | None:
    """Read the address and the login of the server of `zyda up`; return None if they are missing or invalid."""
    try:
        return Api.model_validate_json((home / LOGIN_FILE).read_text(encoding="ascii"))
    except (OSError, ValidationError):
        return None


def configured_api(home: Path) -> Api | None:
    """Return the API in Prefect's settings, if any. For that of `zyda up`, its login is the default."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_SSL_CERT_FILE, PREFECT_API_URL

    if not (url := PREFECT_API_URL.value()):
        return None
    ours, login = saved_api(home), PREFECT_API_AUTH_STRING.value()
    if ours and url in (ours.url, f"{ours.dashboard}/api"):
        return ours.model_copy(update={"login": login or ours.login})
    return Api(url=url, login=login, certificate=PREFECT_API_SSL_CERT_FILE.value())


@contextmanager
def use_api(api: Api) -> Iterator[None]:
    """Make Prefect's clients in this process use a server within a block."""
    from prefect import settings

    values = {getattr(settings, name): value for name, value in ({LOGIN: None} | api.clients).items()}
    with settings.temporary_settings(values):
        yield
