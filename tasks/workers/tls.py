"""TLS: the certificates of Dask's schedulers and of Prefect's servers, and how both sides of a connection use them.

Each certificate signs itself. Its key is in a file that only the owner can read. A process with the key can send
work to a Dask cluster, and work is code that the cluster runs. A client of a Prefect server trusts the server's
certificate alone, so it sends its login to no other program, even if that program listens on the port of a server
that has ended.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from filelock import FileLock

from zyda_flows.tasks.workers.ports import LOOPBACK
from zyda_flows.tasks.workers.private_files import write_private

ROLES = ("scheduler", "worker", "client")
DASK_TLS = "DASK_DISTRIBUTED__COMM__TLS"


@dataclass(frozen=True)
class KeyPair:
    """The PEM files of a certificate and its key: `NAME-certificate.pem` and `NAME-key.pem` in a folder."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}-certificate.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}-key.pem"

    def write(self) -> None:
        """Write a new certificate of the loopback address and its key.

        The certificate is valid at any time, because a clock may be wrong. Its end is the date that RFC 5280
        (4.1.2.5) defines as "no end".
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "zyda")])
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(datetime(2000, 1, 1))
            .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        write_private(self.key, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode())
        write_private(self.certificate, certificate.public_bytes(pem).decode())

    def ensure(self) -> None:
        """Write a new certificate and key unless the existing files are valid.

        Processes that start at the same time share one pair.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / f"{self.name}-certificate.lock"):
            try:
                self.server_context()
            except OSError:  # missing or damaged
                self.write()

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of a server.

        Raises OSError if the certificate or the key is missing or invalid.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key, password="")
        return context

    def dask_security(self) -> Any:
        """Return the `Security` of Dask, with this certificate for all roles."""
        from distributed import (
            Security,  # late: a Prefect server does not need Dask, which takes long to import
        )

        return Security(
            require_encryption=True,
            tls_ca_file=str(self.certificate),
            **{f"tls_{role}_cert": str(self.certificate) for role in ROLES},
            **{f"tls_{role}_key": str(self.key) for role in ROLES},
        )

    def dask_environment(self) -> dict[str, str]:
        """Return the environment in which a process of Dask uses this certificate, in any role."""
        return {
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
            f"{DASK_TLS}__CA_FILE": str(self.certificate),
            **{f"{DASK_TLS}__{role.upper()}__CERT": str(self.certificate) for role in ROLES},
            **{f"{DASK_TLS}__{role.upper()}__KEY": str(self.key) for role in ROLES},
        }


def dask_key_pair(folder: Path) -> KeyPair:
    """Return the key pair of a Dask cluster: of its scheduler, its workers and its clients."""
    return KeyPair(folder, "dask")


def server_key_pair(folder: Path) -> KeyPair:
    """Return the key pair of the Prefect servers that store their files in a folder."""
    return KeyPair(folder, "server")
