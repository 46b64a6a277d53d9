"""Read the address of an existing Dask scheduler from Dask's configuration, and check it."""

import dask
from distributed.comm import parse_address, parse_host_port

from zyda_flows.tasks.errors import LostWorkers


def configured_scheduler() -> str | None:
    """Return the scheduler address from Dask's configuration (DASK_SCHEDULER_ADDRESS), or None."""
    address = dask.config.get("scheduler-address", None)
    if address:
        check_address(address)
    return address or None


def read_settings_again() -> None:
    """Make Dask read its settings from the changed environment."""
    dask.config.refresh()


def check_address(address: str) -> None:
    """Raise LostWorkers if a scheduler address is invalid."""
    try:
        parse_host_port(parse_address(address)[1])
    except ValueError as error:
        raise LostWorkers(
            f"DASK_SCHEDULER_ADDRESS: expected tls://host:port, got {address!r} ({error})"
        ) from error
