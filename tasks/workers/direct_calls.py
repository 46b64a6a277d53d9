"""Let a command send work to a cluster without a flow run, so that its values do not reach Prefect's server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import distributed

from zyda_flows.tasks.workers.dask_cluster import local_cluster
from zyda_flows.tasks.workers.scheduler_address import configured_scheduler
from zyda_flows.tasks.workers.submission import WAITING, WaitingTask


@contextmanager
def connected_to_cluster(threads: int) -> Iterator[None]:
    """Let `fan_out` in this thread use the configured cluster, or a cluster on this machine until the block ends.

    threads: of each worker of a cluster on this machine.
    """
    with ExitStack() as stack:
        address = configured_scheduler()
        client = distributed.Client(address or stack.enter_context(local_cluster(threads)))
        stack.enter_context(client)
        token = WAITING.set(WaitingTask(client))
        try:
            yield
        finally:
            WAITING.reset(token)
