"""How a client knows that a server is ours: its certificate, whose key no other user of the machine can read.

While a server does not run, anybody can listen on its port. Without the key he gets no login, and nobody believes
what he answers.
"""

import ssl
from pathlib import Path

from filelock import FileLock

from zyda_flows.flows.server.login import write_private
from zyda_flows.tasks.workers.security import new_certificate

CERTIFICATE, KEY = "server-certificate.pem", "server-key.pem"


def certificate_in(folder: Path) -> Path:
    """Return the certificate of the servers that keep their things in a folder; make it where none can be used."""
    path = folder / CERTIFICATE
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "server-certificate.lock"):  # builds that begin together have one
        try:
            server_tls(path)
        except OSError:  # it is not there, or damaged
            certificate, key = new_certificate()
            write_private(path.with_name(KEY), key)
            write_private(path, certificate)
    return path


def server_tls(certificate: Path) -> ssl.SSLContext:
    """Return what a server with a certificate listens with. Raises OSError where that or its key cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name(KEY), password="")
    return context
