"""Kernels compiled by numba: signatures, words, rules of texts, fastText, sets of shingles, packing.

numba's cache on disk checks whether the file of a function has changed, but not the files of the functions that it
calls. So kernels call other files only if SHARED lists them, and each state of these files has its own cache
folder.
"""

import hashlib
from pathlib import Path

from numba import config

HERE = Path(__file__).parent
SHARED = (
    "utf8.py",
    "swar.py",
    "rules/cutting.py",
    "fasttext/hashing.py",
    "fasttext/rows.py",
    "fasttext/scores.py",
)
_STATE = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SHARED)).hexdigest()[:8]
config.CACHE_DIR = str(Path(config.CACHE_DIR or HERE / "__pycache__") / f"shared-{_STATE}")
