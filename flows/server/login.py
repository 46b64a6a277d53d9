"""The login of a Prefect server of ours: a new one for each start, which opens nothing after the server's end.

Prefect's server starts whatever its clients tell it to. Without a login these would be all users of this machine,
and every page of the web that one of them looks at.

A browser keeps the login in its memory and sends it by plain http for as long as a tab is open. After the end of
the server another user can listen on its port and receive it. So no login of ours is used twice, and none is the
user's own PREFECT_SERVER_API_AUTH_STRING.
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

    login: `user:password`, where it asks for one.
    certificate: the file of the one that it has, where that is of no authority of the web.
    page: the address of the dashboard of a server of ours, which signs browsers in.
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
        """What a client connects with that believes this server alone, where it has a certificate of its own."""
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
        """The login as a request has it in its head, and the dashboard in a browser's memory."""
        return base64.b64encode((self.login or "").encode()).decode()

    @property
    def link(self) -> str:
        """The dashboard's address for a browser, with the login of a server of ours behind `#`.

        The login of any other server is the user's own and may last, so it stands in no address.
        """
        return f"{self.page}{SIGN_IN}#{self.token}" if self.page and self.login else self.dashboard


def new_login() -> str:
    """Return a random login."""
    return f"{USER}:{secrets.token_urlsafe(32)}"


def save_api(api: Api, home: Path) -> None:
    """Write the address and the login of the server of `zyda up` where their owner alone reads them."""
    write_private(home / LOGIN_FILE, api.model_dump_json())


def saved_api(home: Path) -> Api | None:
    """Return what is known of the server of `zyda up`, or None."""
    try:
        return Api.model_validate_json((home / LOGIN_FILE).read_text(encoding="ascii"))
    except (OSError, ValidationError):
        return None


def configured_api(home: Path) -> Api | None:
    """Return the API that Prefect's settings name, if any: that of `zyda up` with its login, if none is set."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_SSL_CERT_FILE, PREFECT_API_URL

    if not (url := PREFECT_API_URL.value()):
        return None
    ours, login = saved_api(home), PREFECT_API_AUTH_STRING.value()
    if ours and url in (ours.url, f"{ours.dashboard}/api"):
        return ours.model_copy(update={"login": login or ours.login})
    return Api(url=url, login=login, certificate=PREFECT_API_SSL_CERT_FILE.value())


@contextmanager
def use_api(api: Api) -> Iterator[None]:
    """Have Prefect's clients in this process talk to a server for as long as the block lasts."""
    from prefect import settings

    values = {getattr(settings, name): value for name, value in ({LOGIN: None} | api.clients).items()}
    with settings.temporary_settings(values):
        yield
