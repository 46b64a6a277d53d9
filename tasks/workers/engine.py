"""On what a build computes: on GPUs where its cluster has some, or on CPUs alone.

What touches every character, and the joining of what was found, can be computed by either, with the same bits: the
keys and bytes of artifacts do not depend on it, and a build may go on with the other.
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
DEVICE = Lock()  # of what this process has on its GPU: its threads use it one after another


class Engine(StrEnum):
    """auto: workers with a GPU, where there are some. gpu: those, and no build without them. cpu: the others."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class FollowUp(NamedTuple):
    """What is done on GPUs with what comes of each result, while the others are made.

    items: of a result. function: called with each of them; what it returns is not looked at. gpus: how much of
    one GPU such a call takes.
    """

    engine: Engine
    items: Callable[[Any], Iterable[Any]]
    function: Callable[[Any], Any]
    gpus: float = 1


SENT_FOR: ContextVar[Engine] = ContextVar("engine", default=Engine.CPU)


def requested_engine() -> Engine:
    """Return what the environment asks for. Raises BadRecipe where that is none of them."""
    wanted = os.environ.get(ENGINE, "").strip().lower() or Engine.AUTO
    try:
        return Engine(wanted)
    except ValueError as error:
        raise BadRecipe(f"{ENGINE}: {wanted!r} is none of {', '.join(Engine)}") from error


@dataclass(frozen=True)
class SentToGpu:
    """A function that is called on a worker with a GPU, and may use it."""

    function: Callable[[Any], Any]
    engine: Engine

    def __call__(self, item: Any) -> Any:
        token = SENT_FOR.set(self.engine)
        try:
            return self.function(item)
        finally:
            SENT_FOR.reset(token)


def is_on_gpu() -> bool:
    """Say whether what is called here is to be computed on this worker's GPU.

    Raises LostWorkers where it must be, and the worker lacks the libraries.
    """
    engine = SENT_FOR.get()
    if engine is Engine.CPU:
        return False
    if not (fault := missing_libraries()):
        return True
    if engine is Engine.GPU:
        raise LostWorkers(f"{ENGINE}=gpu: {fault}; install zyda-flows[gpu] there")
    warn_once(f"{fault}: it computes on its CPU; install zyda-flows[gpu] there, or set {ENGINE}=cpu")
    return False


@cache
def missing_libraries() -> str:
    """Say which libraries this worker lacks, or cannot import, to use its GPU; nothing where it has them."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    where = f"the worker on {socket.gethostname()} offers a GPU"
    if missing:
        return f"{where} and has no {' and no '.join(missing)}"
    try:
        for name in LIBRARIES:
            import_module(name)
    except Exception as error:  # noqa: BLE001 (whatever they raise of a driver that is too old, say)
        return f"{where} and cannot import {name}: {first_line(error)}"
    return ""


@cache
def warn_once(text: str) -> None:
    warn(text)
