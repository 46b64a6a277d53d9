"""Make the certificate of a Dask cluster in containers: python -m zyda_flows.deployments.make_certificate."""

import argparse
from pathlib import Path

from zyda_flows.tasks.workers.tls import dask_key_pair


def main() -> None:
    """Make a certificate in a folder, and print its settings in the format of `docker --env-file` and kubectl."""
    parser = argparse.ArgumentParser(description="Make the key of a Dask cluster.")
    parser.add_argument("folder", type=Path, help="where to write it")
    parser.add_argument("--seen-at", type=Path, help="the path of that folder on the cluster's machines")
    arguments = parser.parse_args()
    arguments.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    dask_key_pair(arguments.folder).write()
    seen_at = (arguments.seen_at or arguments.folder).absolute()
    settings = dask_key_pair(seen_at).dask_environment()
    print("\n".join(f"{name}={value}" for name, value in settings.items()))  # noqa: T201


if __name__ == "__main__":
    main()
