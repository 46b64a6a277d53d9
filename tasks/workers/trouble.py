"""Translate errors of Dask about a lost cluster into messages that a person can act on."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS, no_workers_timeout


@contextmanager
def cluster_explained() -> Iterator[None]:
    """Raise LostWorkers in place of Dask's errors about a lost cluster."""
    try:
        yield
    except KilledWorker as error:
        raise LostWorkers(
            f"{ALLOWED_DEATHS} workers died one after another on the same task: {error.task}"
        ) from error
    except (NoValidWorkerError, NoWorkerError) as error:
        raise LostWorkers(
            f"the Dask cluster has had no worker for {no_workers_timeout()}; start workers, and then start the "
            "build again"
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise LostWorkers(
            "the Dask cluster is gone: its scheduler was stopped, or cannot be reached; start it (zyda up, on one "
            "machine), and then start the build again: finished work is kept"
        ) from error
    except OSError as error:  # Dask raises it if no scheduler listens at the address
        if "Timed out trying to connect" not in str(error):
            raise
        raise LostWorkers(f"no Dask scheduler answers: {error}") from error
