"""Who may use Dask's scheduler, which runs whatever code it is sent: only who has the key.

A certificate is made when the scheduler starts, for it, its workers and its clients. It lies in files
that only their owner may read, and everyone finds them by Dask's own settings in the environment.
"""

import argparse
from pathlib import Path
from typing import Any

from zyda_flows.flows.server.login import write_private
from zyda_flows.tasks.workers.security import ROLES, new_certificate, security_by

TLS = "DASK_DISTRIBUTED__COMM__TLS"
CERTIFICATE, KEY = "dask-certificate.pem", "dask-key.pem"


def make_certificate(folder: Path) -> None:
    """Write a new certificate and its key into a folder."""
    certificate, key = new_certificate()
    write_private(folder / CERTIFICATE, certificate)
    write_private(folder / KEY, key)


def security_of(folder: Path) -> Any:
    """Return what Dask's own classes take, with the certificate in a folder."""
    return security_by(folder / CERTIFICATE, folder / KEY)


def tls_environment(folder: Path) -> dict[str, str]:
    """Return what makes a process of Dask's use the certificate in a folder, whatever its role."""
    certificate, key = str(folder / CERTIFICATE), str(folder / KEY)
    return {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
        f"{TLS}__CA_FILE": certificate,
        **{f"{TLS}__{role.upper()}__CERT": certificate for role in ROLES},
        **{f"{TLS}__{role.upper()}__KEY": key for role in ROLES},
    }


def main() -> None:
    """Make a certificate in a folder, and print its settings as `docker --env-file` and kubectl read them."""
    parser = argparse.ArgumentParser(description="Make the key of a Dask cluster.")
    parser.add_argument("folder", type=Path, help="where to write it")
    parser.add_argument("--seen-at", type=Path, help="where the cluster's machines find that folder")
    arguments = parser.parse_args()
    arguments.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_certificate(arguments.folder)
    seen_at = (arguments.seen_at or arguments.folder).absolute()
    print("\n".join(f"{name}={value}" for name, value in tls_environment(seen_at).items()))  # noqa: T201


if __name__ == "__main__":
    main()
