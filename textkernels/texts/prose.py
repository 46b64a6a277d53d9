"""Statistics of prose by which Gopher, C4, FineWeb, RefinedWeb and StarCoder let documents go.

They are those of datatrove's filters, of DCLM for RefinedWeb, and of The Stack for code. Words are tokens of
spaCy's English tokenizer, but for `removed_words`. Columns out, a row a document:

gopher-quality
    words             tokens that are not all punctuation
    mean_word_length  of these
    hashes, ellipses  of the text, for each token
    bullet_lines, ellipsis_lines  share of the lines that begin with a bullet or end with an ellipsis
    alphabetic_words  share of the tokens that have a letter
    stop_words        how many of eight words there are
gopher-repetition
    empty             1 for a text of no character, or 0
    duplicate_paragraphs, duplicate_lines  share of them that stood before
    duplicate_paragraph_characters, duplicate_line_characters  their characters, as a share of the text's
    top_2_grams ...   characters of the most frequent n-gram, all times, as a share
    duplicate_5_grams ...  characters of n-grams that stood before, as a share
c4
    lorem_ipsum, curly_brackets  lines that let the document go
    sentences         of the lines that are kept
fineweb
    line_punctuation  share of the lines with text that end a sentence
    short_lines       share of these of at most 30 characters
    duplicate_line_characters  characters of these that stood before, as a share
    new_lines         for each token
refinedweb-lines
    removed_words     share of the words that DCLM's rules for lines take away; words stand between ASCII's white
                      space and begin with a letter or digit, as DCLM counts them by fastText
code
    max_line_length, mean_line_length  characters; what follows the last new line is a line if it is not empty
    alphanumeric      share of the characters that are letters or digits

Where there is nothing to be shared or averaged, the value is 0.
"""

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from textkernels.buffers import roomy_buffers
from textkernels.rules import c4_lines, grams, lines, quality
from textkernels.rules.breaks import line_breaks
from textkernels.rules.tokens import tokenize
from textkernels.texts.english import token_classes, token_rules
from textkernels.texts.line_rules import refined_words

BLOCK = 1 << 18  # bytes of text whose tokens stay in the processor's cache


def _schema(shares: str, counts: str = "") -> pa.Schema:
    names = shares.split() + counts.split()
    return pa.schema([(name, pa.int64() if name in counts.split() else pa.float64()) for name in names])


SETS = {
    "gopher-quality": pa.schema(
        [
            ("words", pa.int64()), ("mean_word_length", pa.float64()), ("hashes", pa.float64()),
            ("ellipses", pa.float64()), ("bullet_lines", pa.float64()), ("ellipsis_lines", pa.float64()),
            ("alphabetic_words", pa.float64()), ("stop_words", pa.int64()),
        ]
    ),
    "gopher-repetition": _schema(
        """empty duplicate_paragraphs duplicate_paragraph_characters duplicate_lines duplicate_line_characters
        top_2_grams top_3_grams top_4_grams duplicate_5_grams duplicate_6_grams duplicate_7_grams duplicate_8_grams
        duplicate_9_grams duplicate_10_grams"""
    ),
    "c4": _schema("", "lorem_ipsum curly_brackets sentences"),
    "fineweb": _schema("line_punctuation short_lines duplicate_line_characters new_lines"),
    "refinedweb-lines": _schema("removed_words"),
    "code": _schema("mean_line_length alphanumeric", "max_line_length"),
}  # fmt: skip
OF_TOKENS = {"gopher-quality", "gopher-repetition", "c4", "fineweb"}
OF_LINES = {"gopher-repetition", "fineweb", "code"}

Counts = NDArray[np.int64]


class Counter:
    """Counts blocks of documents one after another, in memory that is used again."""

    def __init__(self, sets: Collection[str], c4_terminal: bool) -> None:
        self.sets, self.c4_terminal = frozenset(sets), c4_terminal
        self.classes, self.rules = token_classes(), token_rules()
        self.line_table = lines.LineTable()
        self.tokens, self.hashes = np.empty((BLOCK, 4), np.uint32), np.empty(BLOCK, np.uint64)
        self.others, self.other_hashes = np.empty((1024, 4), np.uint32), np.empty(1024, np.uint64)

    def counts(self, data: NDArray[np.uint8], offsets: Counts) -> dict[str, Counts]:
        """Return what is counted of a block, a row a document."""
        ends, found = np.zeros(len(offsets), np.int64), dict[str, Counts]()
        breaks = line_breaks(data, offsets)
        if self.sets & OF_TOKENS:
            self.tokens, self.hashes = tokenize(
                data, offsets, self.classes, self.rules, self.tokens, self.hashes, ends
            )
            found["tokens"] = np.diff(ends)[:, None]
        if "gopher-quality" in self.sets:
            found["quality"] = quality.count_quality(data, offsets, self.classes, self.tokens, ends, breaks)
        if "gopher-repetition" in self.sets:
            found["grams"] = grams.count_grams(self.tokens, self.hashes, ends)
        if "c4" in self.sets:
            found["c4"] = c4_lines.count_c4(
                data, offsets, self.classes, self.c4_terminal, self.tokens, ends, self._retokenize, breaks
            )
        if self.sets & OF_LINES:
            found["lines"] = lines.count_lines(data, offsets, self.classes, self.line_table, breaks)
        if "refinedweb-lines" in self.sets:
            found["refined"] = refined_words(data, offsets, breaks)
        return found

    def _retokenize(self, data: NDArray[np.uint8], offsets: Counts) -> tuple[NDArray[np.uint32], Counts]:
        ends = np.zeros(len(offsets), np.int64)
        self.others, self.other_hashes = tokenize(
            data, offsets, self.classes, self.rules, self.others, self.other_hashes, ends
        )
        return self.others, ends


def measured(
    texts: pa.LargeStringArray, sets: Collection[str], c4_terminal: bool = False
) -> dict[str, pa.Table]:
    """Return the SETS asked for, each with a row a text.

    c4_terminal: C4 keeps only lines that end in a terminal punctuation mark, as in its paper.
    """
    if unknown := set(sets) - set(SETS):
        raise ValueError(f"no such statistics: {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    data, offsets = roomy_buffers(texts)
    counter = Counter(sets, c4_terminal)
    blocks = [counter.counts(data, block) for block in _blocks(offsets)] or [counter.counts(data, offsets)]
    counts = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return {name: pa.table(_columns(name, counts), schema=SETS[name]) for name in SETS if name in sets}


def _blocks(offsets: Counts) -> Iterator[Counts]:
    """Cut documents into blocks of about BLOCK bytes; yield the offsets of each."""
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, "right")) - 1)
        yield offsets[first : last + 1]
        first = last


def _share(part: Counts, whole: Counts) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def _columns(name: str, counts: dict[str, Counts]) -> list[NDArray[np.generic]]:
    """Return the columns of a set."""
    if name == "c4":
        return list(counts["c4"].T)
    if name == "refinedweb-lines":
        before, after = counts["refined"].T
        return [_share(before - after, before)]
    if name == "gopher-quality":
        of = dict(zip(quality.QUALITY, counts["quality"].T, strict=True))
        tokens, all_lines = of["tokens"], of["lines"]
        return [
            of["words"], _share(of["word_characters"], of["words"]), _share(of["hashes"], tokens),
            _share(of["ellipses"], tokens), _share(of["bullet_lines"], all_lines),
            _share(of["ellipsis_lines"], all_lines), _share(of["alphabetic_words"], tokens), of["stop_words"],
        ]  # fmt: skip
    of = dict(zip(lines.LINES, counts["lines"].T, strict=True))
    characters = of["characters"]
    if name == "gopher-repetition":
        return [
            (characters == 0).astype(np.float64),
            _share(of["duplicate_paragraphs"], of["paragraphs"]),
            _share(of["duplicate_paragraph_characters"], characters),
            _share(of["duplicate_lines"], of["lines"]),
            _share(of["duplicate_line_characters"], characters),
            *(_share(grams, characters) for grams in counts["grams"].T),
        ]
    of_lines = characters - of["new_lines"]
    if name == "fineweb":
        return [
            _share(of["terminal_lines"], of["text_lines"]),
            _share(of["short_lines"], of["text_lines"]),
            _share(of["duplicate_text_characters"], of_lines),
            _share(of["new_lines"], counts["tokens"][:, 0]),
        ]
    return [
        _share(of_lines, of["split_lines"]),
        _share(of["alphanumeric"], characters),
        of["max_line_length"],
    ]
