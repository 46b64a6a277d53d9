"""Coverage: whether the word lists of `tasks.dedup.facts` are of the languages of a text.

The lists are of English, German, French, Spanish and Chinese. In a text of another language, negations and number
words are not found, so it must not be removed for its meaning. A text is covered if less than UNCOVERED_SHARE of
it is in other languages. These parts count as other languages:

- letters of all scripts but Latin and Han, and Han if the text is Japanese (`KANA_SHARE`);
- the Latin letters of each window of about WINDOW bytes that is in another language.

A window is in another language if

- it has more function words of one of the other languages of languages.toml than of each covered language; or
- it has accented letters, and a share of less than ACCENTED_SHARE of function words of covered languages; or
- it is prose (PROSE_WORDS words, nearly all of it lower-case letters of ASCII) with a share of less than
  PROSE_SHARE.

So a text without function words, such as a title, a table or code, is covered if it is ASCII. Short texts in
neighbouring languages are unsure: of texts of about 100 characters, 20 % of the Catalan, Galician and Portuguese
were covered, and none of about 1,000 characters (messages of GTK and Vim in 100 languages). A letter of another
script than Latin counts as LETTER_WEIGHT Latin letters.
"""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.signatures.shingles import word_hashes
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules.letters import count_letters
from zyda_flows.textkernels.texts.scripts import KANA_SHARE, scripts_of_letters

UNCOVERED_SHARE = 0.2  # an issue asks for a quarter; the windows at the borders of languages are unsure
WINDOW, BATCH = 256, 1 << 20  # bytes; characters that are counted at a time
ACCENTED, ACCENTED_SHARE = 0.015, 0.1  # least share of accented letters among Latin letters; see above
PROSE_WORDS, PROSE_BYTES, PROSE_SHARE = 20, 0.93, 0.08
LETTER_WEIGHT = 3
LOWER = b"abcdefghijklmnopqrstuvwxyz"
PLAIN, ASCII_LETTERS = (
    np.isin(np.arange(256), np.frombuffer(kind, np.uint8))
    for kind in (b" \n\r\t" + LOWER, LOWER + LOWER.upper())
)


class FunctionWords(NamedTuple):
    """Function words, and the languages that have them; the first `covered` languages are covered.

    hashes: (w,), ascending. languages: (w, l), whether a word is of a language.
    """

    hashes: NDArray[np.uint64]
    languages: NDArray[np.bool_]
    covered: int


@lru_cache(maxsize=1)
def function_words() -> FunctionWords:
    lists = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    languages = [*lists["covered"].values(), *lists["others"].values()]
    # Single ASCII letters are left out: they are the names of variables.
    words = [[word for word in line.split() if len(word) > 1 or not word.isascii()] for line in languages]
    distinct = sorted({word for line in words for word in line})
    hashes, _ = word_hashes(pa.array(distinct, pa.large_string()))
    order = np.argsort(hashes)
    table = np.array([[word in set(line) for line in words] for word in distinct])
    return FunctionWords(hashes[order], table[order], len(lists["covered"]))


def is_covered(text: str) -> bool:
    """Return whether the word lists of facts cover the languages of a text."""
    scripts, names = scripts_of_letters()
    letters, uncovered_latin = np.zeros(len(names), np.int64), 0
    for windows in windows_of(text):
        data, offsets = text_buffers(windows)
        counts = np.zeros((len(windows), len(names)), np.int64)
        count_letters(data, offsets, scripts, names.index("Latn"), counts)
        letters += counts.sum(axis=0)
        latin = counts[:, names.index("Latn")]
        uncovered_latin += int(latin[is_other_language(windows, latin)].sum())
    weights = np.array([0, *(1 if name == "Latn" else LETTER_WEIGHT for name in names[1:])])
    weighed = dict(zip(names, (letters * weights).tolist(), strict=True))
    kana, han = weighed["Hira"] + weighed["Kana"], weighed["Hani"]
    is_japanese = kana > 0 and kana >= KANA_SHARE * (kana + han)
    total = sum(weighed.values())
    uncovered = total - weighed["Latn"] - (0 if is_japanese else han) + uncovered_latin
    return uncovered < UNCOVERED_SHARE * total or not uncovered


def windows_of(text: str) -> Iterator[pa.LargeStringArray]:
    """Yield the windows of a text, cut at ASCII spaces, BATCH characters of the text at a time."""
    for start in range(0, len(text), BATCH):
        data = text[start : start + BATCH].encode("utf-8", "replace")
        codes = np.frombuffer(data, np.uint8)
        spaces = np.flatnonzero((codes == ord(" ")) | (codes == ord("\n")))
        after = np.searchsorted(spaces, np.arange(WINDOW, len(codes), WINDOW))
        cuts = np.unique(spaces[after[after < len(spaces)]])
        offsets = np.concatenate([[0], cuts[cuts > 0], [len(codes)]]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        yield pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def is_other_language(windows: pa.LargeStringArray, latin: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the windows in languages without word lists: (n,) bool. latin: (n,), the Latin letters of each."""
    known = function_words()
    hashes, ends = word_hashes(windows)
    places = np.minimum(np.searchsorted(known.hashes, hashes), len(known.hashes) - 1)
    is_known = known.hashes[places] == hashes
    found = np.zeros((len(hashes) + 1, known.languages.shape[1]), np.uint8)
    found[:-1][is_known] = known.languages[places[is_known]]
    is_of_covered = np.any(found[:, : known.covered], axis=1, keepdims=True)
    hits, covered = sums(found, ends), sums(is_of_covered, ends)[:, 0]
    words = np.maximum(1, np.diff(ends))
    best, best_other = hits[:, : known.covered].max(axis=1), hits[:, known.covered :].max(axis=1)
    data, offsets = text_buffers(windows)
    codes = np.append(data[: offsets[-1]], np.uint8(0))
    accented = latin - sums(ASCII_LETTERS[codes], offsets)
    is_plain = sums(PLAIN[codes], offsets) >= PROSE_BYTES * np.diff(offsets)
    return (
        (best_other > best)
        | ((accented > ACCENTED * latin) & (covered < ACCENTED_SHARE * words))
        | ((words >= PROSE_WORDS) & is_plain & (covered < PROSE_SHARE * words))
    )


def sums(values: NDArray[np.generic], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add values[ends[i]:ends[i + 1]] for each i. values: a row more than the last end, which is not added."""
    added: NDArray[np.int64] = np.add.reduceat(values, ends[:-1], axis=0, dtype=np.int64)
    added[np.diff(ends) == 0] = 0
    return added
