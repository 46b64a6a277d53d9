"""What a person should know of a build, in one log of Python's own, whichever process says it.

In a flow, a task or the work on a shard, `tasks.stage.fan_out` leads it to the log of the run, which the
dashboard shows; anywhere else it is said on standard error.
"""

import logging

LOG = logging.getLogger("zyda")


def warn(text: str) -> None:
    LOG.warning("%s", text)
