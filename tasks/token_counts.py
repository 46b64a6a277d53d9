"""Exact token counts of a column of text.

(Not called "tokenize", which is a module of the standard library.)
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.artifacts import WORK, digest_of
from tasks.errors import BadRecipe
from tasks.storage import Folder

BATCH_DOCUMENTS = 256


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer.json, or the tokenizer of a hub name. Raises BadRecipe where there is none."""
    try:
        is_file = name.endswith(".json") or Path(name).is_file()
        return Tokenizer.from_file(name) if is_file else Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare exceptions
        raise BadRecipe(
            f"tokenizer: {name} cannot be loaded: {error}; "
            "expected a tokenizer.json or the hub name of a repository with one"
        ) from error


def store_tokenizer(folder: Folder, name: str) -> str:
    """Keep a copy of the tokenizer with the corpus, for workers to read; return its digest."""
    text = load_tokenizer(name).to_str()
    digest = digest_of(text)
    path = tokenizer_path(digest)
    if not folder.exists(path):
        folder.write(path, text.encode())
    return digest


def tokenizer_path(digest: str) -> str:
    return f"{WORK}/tokenizer-{digest}.json"


@lru_cache(maxsize=4)
def stored_tokenizer(folder: Folder, digest: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(folder.read(tokenizer_path(digest)).decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def count_tokens(texts: pa.LargeStringArray, tokenizer: Tokenizer) -> NDArray[np.uint32]:
    """Count the tokens of each text, without special tokens: (n,) uint32."""
    counts = np.empty(len(texts), np.uint32)
    for start in range(0, len(texts), BATCH_DOCUMENTS):
        batch = texts.slice(start, BATCH_DOCUMENTS).to_pylist()
        encoded = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        counts[start : start + len(batch)] = [len(encoding) for encoding in encoded]
    return counts
