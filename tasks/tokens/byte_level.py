"""What the fast token counter needs to know of a byte-level BPE tokenizer, read from the tokenizer itself.

The classes of characters are not taken from Python's Unicode tables but found out by asking the
tokenizer about every code point: libraries differ in the version of Unicode that they know.
"""

import json
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from textkernels.bpe import BLANK, LETTER, NO_MERGE, NUMBER, OTHER, SPACE, UNSAFE, Tables

CODE_POINTS = 0x110000
BLOCK = 256  # code points, for Unicode's scripts come in such blocks
SPARSE = 0x40000  # from here on nearly all code points are unassigned or private
SURROGATES = range(0xD800, 0xE000)
HASH = 0x9E3779B97F4A7C15
UTF_8 = {*range(0xC0), *range(0xC2, 0xF5)}  # the bytes that valid UTF-8 can hold


def why_slow(tokenizer: Tokenizer) -> str | None:
    """Say what keeps a tokenizer from the fast counter, or None if nothing does."""
    settings = json.loads(tokenizer.to_str())
    model, pre_tokenizer, normaliser = (
        settings.get(part) or {} for part in ("model", "pre_tokenizer", "normalizer")
    )
    if model.get("type") != "BPE":
        return f"its model is {model.get('type')}, not BPE"
    if pre_tokenizer.get("type") != "ByteLevel" or not pre_tokenizer.get("use_regex", True):
        return "it does not cut text by GPT-2's pattern alone"
    if pre_tokenizer.get("add_prefix_space"):
        return "it adds a space before the text"
    if normaliser.get("type", "NFC") != "NFC":
        return f"its normaliser is {normaliser['type']}, not NFC"
    for option in (
        "dropout",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "byte_fallback",
        "ignore_merges",
    ):
        if model.get(option):
            return f"its model has {option}"
    if any(
        characters not in model["vocab"] for byte, characters in enumerate(byte_characters()) if byte in UTF_8
    ):
        return "its vocabulary lacks some of the bytes of UTF-8"
    for token in settings["added_tokens"]:
        if token["single_word"] or token["lstrip"] or token["rstrip"] or not token["content"]:
            return f"its added token {token['content']!r} takes what is beside it along"
    return None


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in a byte-level vocabulary (as GPT-2 chose them)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown}
    characters |= {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


def added_texts(tokenizer: Tokenizer) -> list[str]:
    """Return the added tokens, without those that are runs of two spaces or more."""
    contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return [content for content in contents if content.strip(" ") or len(content) < 2]


def make_tables(tokenizer: Tokenizer, classes: NDArray[np.uint8]) -> Tables:
    """Read a tokenizer's tables; `classes` is what `character_classes` found."""
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    vocabulary = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    added = [content.encode() for content in added_texts(tokenizer)]
    keys, values = merge_table([(vocabulary[a], vocabulary[b], vocabulary[a + b]) for a, b in pairs])
    return Tables(
        classes=classes,
        run_tokens=run_tokens(tokenizer),
        byte_ids=np.array([vocabulary.get(character, -1) for character in byte_characters()]),
        merge_keys=keys,
        merge_values=values,
        added=np.frombuffer(b"".join(added), np.uint8),
        added_ends=np.cumsum([0, *map(len, added)]),
        added_firsts=np.array(sorted({content[0] for content in added}), np.uint8),
    )


def merge_table(merges: list[tuple[int, int, int]]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Make the hash table of merges (left, right, merged), in the order of their ranks."""
    slots = 1 << max(10, (len(merges) * 3).bit_length())
    keys, values = [0] * slots, [int(NO_MERGE)] * slots
    for rank, (left, right, merged) in enumerate(merges):
        key = left << 32 | right
        # Cut to 64 bits, as the kernel's product is by itself; `& slots - 1` is modulo a power of two.
        slot = (key * HASH & (1 << 64) - 1) >> 40 & slots - 1
        while values[slot] != int(NO_MERGE) and keys[slot] != key:
            slot = slot + 1 & slots - 1
        keys[slot], values[slot] = key, rank << 32 | merged
    return np.array(keys, np.uint64), np.array(values, np.uint64)


def run_tokens(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Return, for each number of spaces, the longest run of at most so many that is an added token."""
    contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    runs = {len(content) for content in contents if len(content) > 1 and not content.strip(" ")}
    sizes = range(max(runs, default=0) + 1)
    return np.array([max((run for run in runs if run <= size), default=0) for size in sizes], np.int64)


def character_classes(tokenizer: Tokenizer) -> NDArray[np.uint8]:
    """Ask a tokenizer for the class of every code point: (0x110000,) uint8, in about two seconds."""
    settings = json.loads(tokenizer.to_str())
    empty = {**settings, "model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}
    return classes_by_settings(json.dumps({**empty, "post_processor": None}))


@lru_cache(maxsize=4)
def classes_by_settings(settings: str) -> NDArray[np.uint8]:
    """Find the classes, (0x110000,), that follow from a tokenizer's normaliser and pattern alone."""
    tokenizer = Tokenizer.from_str(settings)
    classes = np.full(CODE_POINTS, OTHER, np.uint8)
    # Not the surrogates, which no text holds, nor the blank and the quote, which the pattern itself names.
    for low, high in ((0x00, 0x20), (0x21, 0x27), (0x28, 0x100), (0x100, 0xD800), (0xE000, CODE_POINTS)):
        for start in range(low, high, BLOCK):
            set_classes(tokenizer, start, min(start + BLOCK, high), classes)
    classes[BLANK] = SPACE
    if tokenizer.normalizer is not None:
        classes |= unsafe_characters(tokenizer.normalizer.normalize_str)
    return classes


def set_classes(tokenizer: Tokenizer, low: int, high: int, classes: NDArray[np.uint8]) -> None:
    """Classify the code points from `low` up to `high`: halve them until they are of one class.

    They are of the class of a letter, a digit or a mark if the tokenizer does not cut them from it.
    """
    characters = "".join(map(chr, range(low, high)))
    for first, kind in (("!", OTHER), ("a", LETTER), ("1", NUMBER)):
        if len(tokenizer.pre_tokenizer.pre_tokenize_str(first + characters)) == 1:
            classes[low:high] = kind
            return
    if high - low == 1:
        classes[low] = SPACE
        return
    middle = (low + high) // 2
    set_classes(tokenizer, low, middle, classes)
    set_classes(tokenizer, middle, high, classes)


def unsafe_characters(normalise: Callable[[str], str]) -> NDArray[np.uint8]:
    """Mark every code point that NFC may change, alone or with its neighbours: (0x110000,) uint8.

    normalise: NFC, of whichever version of Unicode.

    Besides those that change alone these are the ones that combine with what is before them, those
    that may change places, and those that Python's Unicode does not know, which may be any of these.
    """
    unsafe = np.zeros(CODE_POINTS, np.uint8)
    unsafe[SPARSE:] = UNSAFE
    codes = [*range(0x80, SURROGATES.start), *range(SURROGATES.stop, SPARSE)]
    for code in codes:
        character = chr(code)
        if unicodedata.combining(character) or unicodedata.category(character) == "Cn":
            unsafe[code] = UNSAFE
        decomposed = unicodedata.decomposition(character)
        if decomposed and not decomposed.startswith("<"):
            parts = decomposed.split(" ")
            unsafe[[int(part, 16) for part in parts[1:]]] = UNSAFE
    unsafe[0x1100:0x1200] = UNSAFE  # Hangul letters, which make syllables
    codes = [code for code in codes if not unsafe[code]]
    text = "\n".join(map(chr, codes))
    normalised = normalise(text).split("\n")
    changed = [code for code, result in zip(codes, normalised, strict=True) if result != chr(code)]
    unsafe[changed] = UNSAFE
    return unsafe
