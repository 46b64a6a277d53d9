"""Copies: whether another text has the words of a text, and its sentences in their order.

Words are compared after NFKC and in lower case, without ordinary punctuation. A symbol (`<`, `%`, an emoji) is
a word, and so is each Chinese character. A sentence ends with `.`, `!` or `?`, with an empty line, or where the
next line begins with a mark such as `-`, `#` or `|`. The sentences of two texts are compared in two ways: with
joined lines, and so that a sentence also ends where the next line begins with no lower-case letter.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple
from unicodedata import category, is_normalized, normalize

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.pieces import pieces_of

CHINESE = re.compile("([\u3400-\u9fff\u3007])")
END = re.compile(  # of a sentence, with the space after it
    r"(?<![.!\u2026])[.!\u2026]++[\"'\u201d\u2019\u00bb)\]*_`]*+\s|\u3002"
    r"|\n[ \t\r]*+(?=\n|[^\w\s\"'\u201c\u2018\u00ab(]|\d+[.)])"
)
LINE = re.compile(r"\n[^\S\n]*+(?=[^\sa-z\u00df-\u00ff])")
OPERATOR = re.compile(r"(?<=\S) [*/-] (?=\S)|(?<=\w)[*/](?=\w)")
OPERATORS = str.maketrans("*/-", "\u2217\u2215\u2212")  # in formulas; otherwise they are punctuation
MARK, LINE_MARK = "\0", "\1"  # the end of a sentence, and the end of a line that may be
SYMBOLS, MARKDOWN = "?!%&@\u00a7^", "|`"  # words and ordinary punctuation, against their Unicode categories


def characters() -> dict[int, str]:
    """Return what stands for the characters of the first plane: spaces for punctuation, spaces around symbols."""
    table = dict[int, str]()
    for code in range(0x10000):
        sign, kind = chr(code), category(chr(code))
        if (kind in ("Sm", "Sc", "So") or sign in SYMBOLS) and sign not in MARKDOWN:
            table[code] = f" {sign} "
        elif (kind[0] == "P" or sign in MARKDOWN) and sign != "#":  # C# is not C
            table[code] = " "
        elif kind == "Cf" or sign == "\ufe0f":  # invisible characters
            table[code] = ""
    return table


CHARACTERS = characters()


class Content(NamedTuple):
    """The words and sentences of a text.

    words: how often the text has each. sequence: (1,), a hash of all words in their order; (0,) if there are none.
    sentences, lines: (s,), hashes in their order, with joined lines and with ends of lines as ends of sentences.
    """

    words: Counter[str]
    sequence: NDArray[np.uint64]
    sentences: NDArray[np.uint64]
    lines: NDArray[np.uint64]


def content_of(text: str) -> Content:
    """Return the words and sentences of a text."""
    words, sequence = Counter[str](), blake2b(digest_size=8)
    sentences, lines = bytearray(), bytearray()
    for piece in pieces_of(text):
        marked = marked_text(piece)
        own = [*split_at_marks(marked.replace(LINE_MARK, " "))]
        words.update(chain.from_iterable(map(str.split, own)))
        for sentence in own:
            sequence.update(encoded(f"{sentence} "))
        sentences += hashes_of(own)
        lines += hashes_of(split_at_marks(marked.replace(LINE_MARK, MARK)))
    whole = sequence.digest() if words else b""
    return Content(words, *(np.frombuffer(bytes(hashes), np.uint64) for hashes in (whole, sentences, lines)))


def marked_text(text: str) -> str:
    """Return the words of a text with spaces between them, MARK after sentences and LINE_MARK after some lines."""
    text = (
        text.replace(MARK, " ").replace(LINE_MARK, " ").replace("?", "?.")
    )  # `?` is a word, and ends a sentence
    if not text.isascii():
        text = text.replace("\uff1f", "?\u3002").replace(
            "\uff01", "\u3002"
        )  # Chinese question and exclamation marks
        text = CHINESE.sub(r" \1 ", text if is_normalized("NFKC", text) else normalize("NFKC", text))
    text = OPERATOR.sub(lambda match: match[0].translate(OPERATORS), f"{text}\n")
    return LINE.sub(LINE_MARK, MARK.join(END.split(text))).translate(CHARACTERS).lower()


def split_at_marks(marked: str) -> Iterator[str]:
    """Yield the sentences of a marked text, with one space between words."""
    for part in marked.split(MARK):
        if words := part.split():
            yield " ".join(words)


def hashes_of(sentences: Iterable[str]) -> bytes:
    return b"".join(blake2b(encoded(sentence), digest_size=8).digest() for sentence in sentences)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def lacking_words(own: Content, other: Content) -> Counter[str]:
    """Return the words that another text has less often, with the difference."""
    return own.words - other.words


def is_copied(own: Content, other: Content) -> bool:
    """Return whether another text has the words of a text in order, or its sentences and others between them."""
    return any(is_within(one, another) for one, another in zip(own[1:], other[1:], strict=True))


def is_within(own: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:
    """Return whether the values are among others in the same order."""
    others = iter(other.tolist())
    return len(own) <= len(other) and all(value in others for value in own.tolist())


def changed_sentence(text: str, other: str) -> str:
    """Return the first sentence of a text that another text lacks, or has before an earlier one; "" if none."""
    own, others = (split_at_marks(marked_text(each).replace(LINE_MARK, " ")) for each in (text, other))
    return next((sentence for sentence in own if sentence not in others), "")
