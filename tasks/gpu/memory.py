"""Convert the errors of all libraries for a full GPU memory to MemoryError."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# cuDF and CuPy raise MemoryError; cuGraph, Thrust, and CUDA when it loads a kernel, raise errors of other types.
NO_ROOM = re.compile("bad_alloc|out.of.memory|memory.?allocation|alloc_failed", re.IGNORECASE)


@contextmanager
def no_room_as_memory_error() -> Iterator[None]:
    """Raise MemoryError for any library's error about a full GPU memory."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if NO_ROOM.search(f"{type(error).__name__}: {error}"):
            raise MemoryError(str(error)) from error
        raise


def make_room(rapids: Any) -> None:
    """Free the unused memory in the caches of RAPIDS, and of PyTorch, which may have run a quality model before."""
    rapids.give_back()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()
