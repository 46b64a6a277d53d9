"""Who may send a cluster work, which is code that it runs: whoever has its certificate's key."""

from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from distributed import Security

from zyda_flows.tasks.workers.ports import LOOPBACK

ROLES = ("scheduler", "worker", "client")


def new_certificate() -> tuple[str, str]:
    """Make a certificate of the loopback address that signs itself, and its key: both in PEM.

    It is good at any time, for clocks may be set; its end is the one that RFC 5280 has for "none" (4.1.2.5).
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "zyda")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return (
        certificate.public_bytes(pem).decode(),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode(),
    )


def security_by(certificate: Path, key: Path) -> Any:
    """Return what Dask's own classes take, for all roles with one certificate."""
    return Security(
        require_encryption=True,
        tls_ca_file=str(certificate),
        **{f"tls_{role}_cert": str(certificate) for role in ROLES},
        **{f"tls_{role}_key": str(key) for role in ROLES},
    )
