"""What a person should know of a build, in one log of Python's own, whichever process says it.

In a flow, a task or the work on a shard, `tasks.stage.fan_out` leads it to the log of the run, which the
dashboard shows; anywhere else it is said on standard error.
"""

import logging
import time

LOG = logging.getLogger("zyda")
LONG = 5.0  # seconds of waiting that are worth a line


def warn(text: str) -> None:
    LOG.warning("%s", text)


def say_wait(host: str, seconds: float) -> None:
    """Say that a host limits its requests, and how long it asks to wait; `until` is in seconds of `time.time`."""
    more = {"host": host or "a store", "until": time.time() + seconds}
    if seconds >= LONG:
        LOG.warning("%s limits its requests; it is asked again in %.0f s", more["host"], seconds, extra=more)
