"""Kernels compiled by numba: signatures, words, rules of texts, fastText, sets of shingles, packing.

numba stores compiled kernels in files. It checks whether the file of a function has changed, but not the files of
the functions and types that it uses. So each state of this package has its own cache folder.
"""

import hashlib
from pathlib import Path

from numba import config

HERE = Path(__file__).parent
_STATE = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.rglob("*.py")))).hexdigest()[:8]
config.CACHE_DIR = str(Path(config.CACHE_DIR or HERE / "__pycache__") / f"kernels-{_STATE}")
