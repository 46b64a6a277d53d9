"""Exact token counts of a column of text.

(Not called "tokenize", which is a module of the standard library.)

A byte-level BPE tokenizer that cuts text as GPT-2 does is counted by `textkernels.bpe`, many times
faster than by its own library and to the same numbers; any other by its library.
"""

import zlib
from base64 import b64decode, b64encode
from functools import lru_cache
from logging import ERROR, getLogger
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.errors import BadInput, BadRecipe, Damaged, first_line
from tasks.log import warn
from tasks.storage.artifacts import WORK
from tasks.storage.folder import Folder
from tasks.storage.records import Record, digest_of, read_record, write_record
from tasks.tokens.byte_level import character_classes, make_tables, why_slow
from textkernels import bpe
from textkernels.buffers import text_buffers

UNHEARD_OF = "zydaq \U0010fffd"
TOKENIZER, CHARACTERS = OF_TOKENIZERS = (f"{WORK}/tokenizer-", f"{WORK}/characters-")
BATCH_DOCUMENTS = 256  # 16 to 4,096 are as fast, within a tenth (python -m benchmarks.constants)


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer.json, or the tokenizer of a hub name. Raises BadRecipe where there is none."""
    try:
        is_file = name.endswith(".json") or Path(name).is_file()
        # It warns of each retry, and says at the end that all failed.
        getLogger("huggingface_hub").setLevel(ERROR)
        tokenizer = Tokenizer.from_file(name) if is_file else Tokenizer.from_pretrained(name)
        tokenizer.encode(
            UNHEARD_OF, add_special_tokens=False
        )  # fails where there is no token for what is unknown
        return tokenizer
    except Exception as error:  # the library raises bare exceptions
        raise BadRecipe(
            f"tokenizer: {name} cannot be loaded: {error}; "
            "expected a tokenizer.json or the hub name of a repository with one"
        ) from error


def store_tokenizer(folder: Folder, name: str) -> str:
    """Keep a copy of the tokenizer with the corpus, for workers to read; return its digest."""
    tokenizer = load_tokenizer(name)
    text = tokenizer.to_str()
    digest = digest_of(text)
    if reason := why_slow(tokenizer):
        warn(f"{name} is counted by its own library, slowly: {reason}")
    elif not has_characters(folder, digest):
        write_record(folder, characters_path(digest), Characters.of(character_classes(tokenizer)))
    if folder.read_if_there(tokenizer_path(digest)) != text.encode():
        folder.write(tokenizer_path(digest), text.encode())
    return digest


def counted_by(tokenizer: Tokenizer) -> str:
    """Say what counts a tokenizer's tokens here, and about how fast: docs/speed.md has the machine."""
    reason = why_slow(tokenizer)
    if reason is None:
        return "counted by the compiled counter, about 100 MB/s of text a core"
    return f"counted by its own library (tokenizers), about 2 to 3 MB/s of text a core: {reason}"


class Characters(Record):
    """The class of each character as a tokenizer's words are cut, by its number: zlib, in base 64."""

    packed: str

    @classmethod
    def of(cls, classes: NDArray[np.uint8]) -> "Characters":
        return cls(packed=b64encode(zlib.compress(classes.tobytes())).decode())

    @property
    def classes(self) -> NDArray[np.uint8]:
        return np.frombuffer(zlib.decompress(b64decode(self.packed)), np.uint8).copy()  # which may be written


def has_characters(folder: Folder, digest: str) -> bool:
    try:
        return read_record(folder, characters_path(digest), Characters) is not None
    except Damaged as error:
        warn(f"{error}; it is made again")
        return False


def tokenizer_path(digest: str) -> str:
    return f"{TOKENIZER}{digest}.json"


def characters_path(digest: str) -> str:
    return f"{CHARACTERS}{digest}.json"


def damaged_tokenizers(folder: Folder) -> list[str]:
    """List what is stored of tokenizers and is not as it was written."""
    damaged = list[str]()
    for path in folder.files(WORK):
        try:
            if path.startswith(TOKENIZER) and path.endswith(".json"):
                stored_tokenizer(folder, path.removeprefix(TOKENIZER).removesuffix(".json"))
            elif path.startswith(CHARACTERS):
                read_record(folder, path, Characters)
        except Damaged:
            damaged.append(path)
    return damaged


def stored_tokenizer(folder: Folder, digest: str) -> str:
    """Read a tokenizer. Raises Damaged where it is not that of its digest."""
    path = tokenizer_path(digest)
    text = (folder.read_if_there(path) or b"").decode(errors="replace")
    if digest_of(text) != digest:
        raise Damaged(f"{folder.url}/{path} has another content than was written", path)
    return text


class Counter:
    """Counts tokens, without special ones, exactly as a tokenizer does."""

    def __init__(self, tokenizer: Tokenizer, classes: NDArray[np.uint8] | None) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.tables = None if classes is None else make_tables(tokenizer, classes)
        self.known = bpe.nothing_known()

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the tokens of each text: (n,) uint32. Raises TypeError where they are no large_string, BadInput."""
        data, ends = text_buffers(texts)
        if self.tables is None:
            return self.count_by_library(texts.to_pylist())
        counts = bpe.count_documents(data, ends, self.tables, self.known, is_normalised=False)
        # Counts below 0 are reasons: what stands there is counted another way.
        for i in np.flatnonzero(counts == bpe.NEEDS_NORMALISER).tolist():
            counts[i] = self.count_normalised(texts[i].as_py(), self.tables)
        places = np.flatnonzero(counts == bpe.HOLDS_ADDED)
        if len(places):
            counts[places] = self.count_by_library(texts.take(pa.array(places)).to_pylist())
        return counts.astype(np.uint32)

    def count_normalised(self, text: str, tables: bpe.Tables) -> int:
        """Count a text that the tokenizer's normaliser may change."""
        data = np.frombuffer(self.tokenizer.normalizer.normalize_str(text).encode(), np.uint8)
        ends = np.array([0, len(data)])
        count = int(bpe.count_documents(data, ends, tables, self.known, is_normalised=True)[0])
        return int(self.count_by_library([text])[0]) if count == bpe.HOLDS_ADDED else count

    def count_by_library(self, texts: list[str]) -> NDArray[np.uint32]:
        counts = np.empty(len(texts), np.uint32)
        for start in range(0, len(texts), BATCH_DOCUMENTS):
            batch = texts[start : start + BATCH_DOCUMENTS]
            try:
                encoded = self.tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            except Exception as error:  # the library raises bare exceptions
                raise BadInput(f"the tokenizer cannot count a text: {first_line(error)}") from error
            counts[start : start + len(batch)] = [len(encoding) for encoding in encoded]
        return counts


@lru_cache(maxsize=2)
def stored_counter(folder: Folder, digest: str) -> Counter:
    """Load the counter of a corpus once for all the shards that a worker ingests."""
    tokenizer = Tokenizer.from_str(stored_tokenizer(folder, digest))
    characters = read_record(folder, characters_path(digest), Characters)
    return Counter(tokenizer, characters.classes if characters else None)
