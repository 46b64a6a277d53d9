"""Prepare the worker processes of a build: their imports, and how they end on Ctrl-C.

On Linux, workers are forked from one process that has imported the modules of the stages. So a worker starts at
once, also to replace a worker that died, and the imported modules are in memory only once. The process from which
workers are forked runs no tasks and imports nothing that starts threads. If GPUs are used, each worker is a new
process, because initialised GPU libraries cannot be forked.
"""

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from multiprocessing import forkserver, resource_tracker
from typing import Any

import dask
import distributed
from distributed.utils import get_mp_context

METHOD = "distributed.worker.multiprocessing-method"
FORK = "forkserver" if sys.platform == "linux" else "spawn"
FORKED = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": FORK}  # METHOD as an environment variable
IMPORTED = ["zyda_flows.tasks.workers.collector_off", "zyda_flows.tasks.workers.preload"]


def worker_start_method(*, gpus: int) -> AbstractContextManager[Any]:
    """Make Dask start workers of this process by METHOD within a block: spawned with GPUs, otherwise forked."""
    return dask.config.set({METHOD: "spawn" if gpus else FORK})


def check_main_guard() -> None:
    """Raise RuntimeError in a process that is about to become a worker but runs the script that started it.

    Python raises the same error if such a script starts a process. A script that starts a build would first wait
    for the build of which it is a part.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError('a script that builds has to start it under `if __name__ == "__main__":`')


def start_fork_server() -> None:
    """Start the process from which workers are forked, with Ctrl-C blocked from the beginning.

    Otherwise the process would ignore Ctrl-C only after Python's start and all imports, which take seconds.
    """
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_imports(modules: Sequence[str] = ()) -> None:
    """Start the process from which workers will be forked; it imports in the background.

    modules: modules to import before those of the stages. They must not start threads.
    """
    if FORK == "forkserver":
        with worker_start_method(gpus=0):
            get_mp_context().set_forkserver_preload([IMPORTED[0], *modules, *IMPORTED[1:]])
        start_fork_server()


def dask_setup(process: Any) -> None:
    """Prepare a worker, or the nanny that will start a worker. Dask calls this function in both processes.

    Ctrl-C reaches every process of a terminal. The build's own process ends its workers, so their messages about
    the interrupt and about tasks whose result cannot be delivered are not useful to the user.
    """
    if isinstance(process, distributed.Nanny):
        if dask.config.get(METHOD) == "forkserver":
            get_mp_context().set_forkserver_preload(IMPORTED)
            os.environ.update(process.pre_spawn_env)  # the nanny does the same when it starts the worker
            start_fork_server()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.raiseExceptions = False
