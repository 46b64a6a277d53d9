"""The engine of a build: GPUs if its cluster has some, otherwise CPUs.

Both engines can compute the steps that read every character and the steps that join matches. Their results are
equal bit by bit: the keys and bytes of artifacts do not depend on the engine, and a build may continue on the
other engine.
"""

import os
import socket
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple

from zyda_flows.tasks.errors import BadRecipe, LostWorkers, first_line
from zyda_flows.tasks.log import warn

ENGINE = "ZYDA_ENGINE"  # of the process that starts the build
LIBRARIES = ("cudf", "cugraph", "rmm")
DEVICE = Lock()  # held while a thread uses this process's GPU, so that threads use it in turn


class Engine(StrEnum):
    """auto: use GPU workers if there are any. gpu: require GPU workers. cpu: use CPU workers only."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class FollowUp(NamedTuple):
    """Work on GPUs that follows each result of other work, while the remaining results are computed.

    items: returns the items of a result. function: called with each item; its return value is ignored.
    gpus: fraction of a GPU that a call uses.
    """

    engine: Engine
    items: Callable[[Any], Iterable[Any]]
    function: Callable[[Any], Any]
    gpus: float = 1


SENT_FOR: ContextVar[Engine] = ContextVar("engine", default=Engine.CPU)


def requested_engine() -> Engine:
    """Return the engine that the environment requests. Raises BadRecipe if the value is unknown."""
    wanted = os.environ.get(ENGINE, "").strip().lower() or Engine.AUTO
    try:
        return Engine(wanted)
    except ValueError as error:
        raise BadRecipe(f"{ENGINE}: expected one of {', '.join(Engine)}, got {wanted!r}") from error


@dataclass(frozen=True)
class GpuCall:
    """A function to call on a worker with a GPU, which may use the GPU."""

    function: Callable[[Any], Any]
    engine: Engine

    def __call__(self, item: Any) -> Any:
        token = SENT_FOR.set(self.engine)
        try:
            return self.function(item)
        finally:
            SENT_FOR.reset(token)


def is_on_gpu() -> bool:
    """Return whether the current call should compute on this worker's GPU.

    Raises LostWorkers if the GPU is required and the worker lacks the libraries.
    """
    engine = SENT_FOR.get()
    if engine is Engine.CPU:
        return False
    if not (fault := missing_libraries()):
        return True
    if engine is Engine.GPU:
        raise LostWorkers(f"{ENGINE}=gpu: {fault}; install zyda-flows[gpu] there")
    warn_once(f"{fault}: it uses its CPU; install zyda-flows[gpu] there, or set {ENGINE}=cpu")
    return False


@cache
def missing_libraries() -> str:
    """Describe the libraries that this worker lacks, or cannot import, to use its GPU; "" if it can use it."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    where = f"the worker on {socket.gethostname()} offers a GPU"
    if missing:
        return f"{where} and has no {' and no '.join(missing)}"
    try:
        for name in LIBRARIES:
            import_module(name)
    except Exception as error:  # noqa: BLE001 (an old driver causes errors of many types)
        return f"{where} and cannot import {name}: {first_line(error)}"
    return ""


@cache
def warn_once(text: str) -> None:
    warn(text)
