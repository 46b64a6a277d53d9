"""What a GPU has no room for, under one name, whichever library says so."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# cuDF and CuPy raise MemoryError; cuGraph, Thrust, and CUDA where it loads a kernel, have errors of their own.
NO_ROOM = re.compile("bad_alloc|out.of.memory|memory.?allocation|alloc_failed", re.IGNORECASE)


@contextmanager
def no_room_as_memory_error() -> Iterator[None]:
    """Raise MemoryError where a library says, in whatever words, that the GPU has no room."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if NO_ROOM.search(f"{type(error).__name__}: {error}"):
            raise MemoryError(str(error)) from error
        raise


def make_room(rapids: Any) -> None:
    """Give back what nobody uses: what RAPIDS keeps, and PyTorch, whose quality model may have been here before."""
    rapids.give_back()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()
