"""What the worker processes of a build on this machine load first: how they end without a word.

Ctrl-C reaches every process of a terminal. The build's own process ends its workers; what they would say
of it, and of tasks that can tell nobody any more how they ended, is of no use to whoever pressed it.
"""

import logging
import signal
from typing import Any


def dask_setup(_: Any) -> None:
    """Leave the end of this worker to its nanny. Dask calls it in every worker that starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.raiseExceptions = False
