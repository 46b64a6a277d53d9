"""Whether this machine has compiled the kernels, which it does once: numba keeps them in files."""

import os
from pathlib import Path


def are_compiled() -> bool:
    """Say whether there are compiled kernels where numba looks for them; it takes a minute where there are none."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent)
    return next(folder.rglob("*.nbi"), None) is not None
