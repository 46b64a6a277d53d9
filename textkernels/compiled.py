"""A decorator for kernels: numba compiles each kernel once per machine and caches it in files."""

import fcntl
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator, with a lock: if several processes need a kernel, the first compiles it.

    The others wait and load the kernel from the cache. Without the lock, each worker would compile each kernel.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        compile_or_load = dispatcher.compile

        def compile_alone(signature: Any) -> Any:
            # Else numba would compile another version of a kernel for each constant that a caller passes.
            if isinstance(signature, tuple):
                signature = tuple(map(unliteral, signature))
            with global_compiler_lock, only_process(f"{function.__module__}.{function.__qualname__}"):
                return compile_or_load(signature)

        dispatcher.compile = compile_alone
        return dispatcher

    return decorate


@contextmanager
def only_process(kernel: str) -> Iterator[None]:
    """Lock a kernel for this process, by one byte of a file beside the cache.

    While a kernel is compiled, the kernels that it calls are locked too. No kernel calls itself through others, and
    numba compiles in a single thread at a time, so no two processes wait for each other. The system releases the
    locks of a killed process. If files cannot be locked, each process compiles for itself.
    """
    file, byte = lock_file(config.CACHE_DIR), zlib.crc32(kernel.encode())
    is_locked = file is not None and change_lock(file, fcntl.LOCK_EX, byte)
    try:
        yield
    finally:
        if file is not None and is_locked:
            change_lock(file, fcntl.LOCK_UN, byte)


@cache
def lock_file(folder: str) -> int | None:
    """Open the lock file for the life of the process; return None if the folder is not writable."""
    try:
        os.makedirs(folder, exist_ok=True)
        return os.open(Path(folder) / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def change_lock(file: int, operation: int, byte: int) -> bool:
    try:
        fcntl.lockf(file, operation, 1, byte)
    except OSError:  # a file system without locks
        return False
    return True


def are_compiled() -> bool:
    """Return whether numba's cache has compiled kernels; without them, the first run takes a minute longer."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent)
    return next(folder.rglob("*.nbi"), None) is not None
