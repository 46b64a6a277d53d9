"""The log of messages for the person who runs a build, a logger of Python with the name "zyda".

In a flow, a task or the work on a shard, `tasks.stage.fan_out` forwards its records to the log of the run, which
the dashboard shows; in other processes they are written to standard error.
"""

import logging
import time

LOG = logging.getLogger("zyda")
LONG = 5.0  # seconds; shorter waits are not logged


def warn(text: str) -> None:
    LOG.warning("%s", text)


def log_wait(host: str, seconds: float) -> None:
    """Log the wait that a host requests. The record's `until` is its end, in seconds of `time.time`."""
    more = {"host": host or "a store", "until": time.time() + seconds}
    if seconds >= LONG:
        LOG.warning("%s limits its requests; it is asked again in %.0f s", more["host"], seconds, extra=more)
