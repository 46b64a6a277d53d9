"""What a worker process of a build is born with, and how it ends without a word.

On Linux workers are forked from one process that has imported what the stages need: a worker is there in
a moment, also the one that takes the place of another that died, and what was imported lies in memory
once. That process runs nothing, and nothing is imported there that starts threads. Where there are GPUs,
whose libraries cannot be forked once they have begun, each worker is a process from the start.
"""

import logging
import multiprocessing
import os
import signal
import sys
from contextlib import AbstractContextManager
from multiprocessing import forkserver, resource_tracker
from typing import Any

import dask
import distributed
from distributed.utils import get_mp_context

METHOD = "distributed.worker.multiprocessing-method"
FORK = "forkserver" if sys.platform == "linux" else "spawn"
FORKED = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": FORK}  # the same, of a process to be started
IMPORTED = ["zyda_flows.tasks.workers.preload"]


def born_with_imports(*, gpus: int) -> AbstractContextManager[Any]:
    """Have Dask start the workers of this process so, for as long as a block lasts."""
    return dask.config.set({METHOD: "spawn" if gpus else FORK})


def expect_to_be_born() -> None:
    """Raise RuntimeError in a process that is about to be a worker, and runs the script that started it.

    So does Python where such a script starts a process; one that starts a build would first wait for the
    build that it is a part of.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError('a script that builds has to start it under `if __name__ == "__main__":`')


def start_fork_server() -> None:
    """Start the process that workers are forked from, deaf to Ctrl-C from its first moment.

    By itself it ignores it only when Python has started in it and has imported all else, which takes seconds.
    """
    resource_tracker.ensure_running()  # to start it later would let the signal in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_imports() -> None:
    """Start the process that workers will be forked from, which imports while this one does something else."""
    if FORK == "forkserver":
        with born_with_imports(gpus=0):
            get_mp_context().set_forkserver_preload(IMPORTED)
        start_fork_server()


def dask_setup(process: Any) -> None:
    """Prepare a worker, or the nanny that is about to start one. Dask calls it in either.

    Ctrl-C reaches every process of a terminal. The build's own process ends its workers; what they would
    say of it, and of tasks that can tell nobody any more how they ended, is of no use to whoever pressed it.
    """
    if isinstance(process, distributed.Nanny):
        if dask.config.get(METHOD) == "forkserver":
            get_mp_context().set_forkserver_preload(IMPORTED)
            os.environ.update(process.pre_spawn_env)  # as the nanny does when it starts the worker
            start_fork_server()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.raiseExceptions = False
