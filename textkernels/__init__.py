"""The arithmetic, compiled by numba: signatures, words, forests of documents, byte-pair merges.

Numba's cache on disk asks whether the file of a function has changed, not those that it calls. So what is called
from other files stands in SHARED alone, and the cache has a folder for each state of these.
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
