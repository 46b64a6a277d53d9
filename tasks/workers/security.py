"""Who may send a cluster work, which is code that it runs: whoever has its certificate's key."""

from pathlib import Path
from typing import Any

from distributed import Security

ROLES = ("scheduler", "worker", "client")


def new_certificate() -> tuple[str, str]:
    """Make a certificate that signs itself, and its key: both in PEM."""
    made = Security.temporary()
    return made.tls_ca_file, made.tls_scheduler_key


def security_by(certificate: Path, key: Path) -> Any:
    """Return what Dask's own classes take, for all roles with one certificate."""
    return Security(
        require_encryption=True,
        tls_ca_file=str(certificate),
        **{f"tls_{role}_cert": str(certificate) for role in ROLES},
        **{f"tls_{role}_key": str(key) for role in ROLES},
    )
