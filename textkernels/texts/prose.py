"""Statistics of prose by which Gopher, C4, FineWeb, RefinedWeb and StarCoder remove documents.

They follow datatrove's filters, DCLM for RefinedWeb, and The Stack for code. Words are tokens of
spaCy's English tokenizer, except for `removed_words`. Columns of the results, with a row for each document:

gopher-quality
    words             tokens that are not all punctuation
    mean_word_length  of these
    hashes, ellipses  number in the text, divided by the number of tokens
    bullet_lines, ellipsis_lines  share of the lines that begin with a bullet or end with an ellipsis
    alphabetic_words  share of the tokens that have a letter
    stop_words        how many of eight words occur
gopher-repetition
    empty             1 for a text of no character, or 0
    duplicate_paragraphs, duplicate_lines  share of them that are repetitions
    duplicate_paragraph_characters, duplicate_line_characters  their characters, as a share of the text's
    top_2_grams ...   characters of all occurrences of the most frequent n-gram, as a share
    duplicate_5_grams ...  characters of repeated n-grams, as a share
c4
    lorem_ipsum, curly_brackets  lines for which the document is removed
    sentences         of the lines that are kept
fineweb
    line_punctuation  share of the lines with text that end a sentence
    short_lines       share of these of at most 30 characters
    duplicate_line_characters  characters of repetitions of these, as a share
    new_lines         divided by the number of tokens
fineweb-2
    the columns of gopher-repetition, fineweb and gopher-quality that FineWeb-2 uses, except
    stop_words        how many different words of the list for the text's language occur
refinedweb-lines
    removed_words     share of the words that DCLM's rules for lines remove; words are separated by ASCII's white
                      space and begin with a letter or digit, as DCLM counts them by fastText
code
    max_line_length, mean_line_length  characters; the text after the last new line is a line if it is not empty
    alphanumeric      share of the characters that are letters or digits

A share or mean with the denominator 0 is 0.
"""

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import roomy_buffers
from zyda_flows.textkernels.counts import (
    Counts,
    Statistic,
    concatenate_counts,
    count_statistic,
    counts_by_name,
    named_counts,
    share_statistic,
    statistics_table,
)
from zyda_flows.textkernels.rules import c4_lines, grams, lines, quality
from zyda_flows.textkernels.rules.breaks import line_breaks
from zyda_flows.textkernels.rules.quality import WordLists
from zyda_flows.textkernels.rules.tokens import tokenize
from zyda_flows.textkernels.texts.english import token_classes, token_rules
from zyda_flows.textkernels.texts.line_rules import refined_words

TOKENS = named_counts("tokens")
Places = NDArray[np.int64]
BLOCK = 1 << 18  # bytes of text whose tokens stay in the processor's cache


GRAM_SHARES = {name: share_statistic(name, "characters") for name in grams.GRAMS.names or ()}
QUALITY_STATISTICS = {
    "words": count_statistic("words"),
    "mean_word_length": share_statistic("word_characters", "words"),
    "hashes": share_statistic("hashes", "tokens"),
    "ellipses": share_statistic("ellipses", "tokens"),
    "bullet_lines": share_statistic("bullet_lines", "all_lines"),
    "ellipsis_lines": share_statistic("ellipsis_lines", "all_lines"),
    "alphabetic_words": share_statistic("alphabetic_words", "tokens"),
}
EMPTY = Statistic(pa.float64(), lambda counts: (counts["characters"] == 0).astype(np.float64))
# The statistics of each set, computed from the counts of its KERNELS.
SETS = {
    "gopher-quality": {**QUALITY_STATISTICS, "stop_words": count_statistic("stop_words")},
    "gopher-repetition": {
        "empty": EMPTY,
        "duplicate_paragraphs": share_statistic("duplicate_paragraphs", "paragraphs"),
        "duplicate_paragraph_characters": share_statistic("duplicate_paragraph_characters", "characters"),
        "duplicate_lines": share_statistic("duplicate_lines", "lines"),
        "duplicate_line_characters": share_statistic("duplicate_line_characters", "characters"),
        **GRAM_SHARES,
    },
    "c4": {name: count_statistic(name) for name in ("lorem_ipsum", "curly_brackets", "sentences")},
    "fineweb": {
        "line_punctuation": share_statistic("terminal_lines", "text_lines"),
        "short_lines": share_statistic("short_lines", "text_lines"),
        "duplicate_line_characters": share_statistic("duplicate_text_characters", "line_characters"),
        "new_lines": share_statistic("new_lines", "tokens"),
    },
    "fineweb-2": {
        "empty": EMPTY,
        "duplicate_lines": share_statistic("duplicate_lines", "lines"),
        **GRAM_SHARES,
        "line_punctuation": share_statistic("terminal_lines", "text_lines"),
        "duplicate_line_characters": share_statistic("duplicate_text_characters", "line_characters"),
        "new_lines": share_statistic("new_lines", "tokens"),
        **QUALITY_STATISTICS,
        "stop_words": count_statistic("listed_words"),
    },
    "refinedweb-lines": {"removed_words": share_statistic("removed_words", "words")},
    "code": {
        "mean_line_length": share_statistic("line_characters", "split_lines"),
        "alphanumeric": share_statistic("alphanumeric", "characters"),
        "max_line_length": count_statistic("max_line_length"),
    },
}
KERNELS = {
    "gopher-quality": ("quality",),
    "gopher-repetition": ("lines", "grams"),
    "c4": ("c4",),
    "fineweb": ("lines", "tokens"),
    "fineweb-2": ("quality", "lines", "grams", "tokens", "listed"),
    "refinedweb-lines": ("refined",),
    "code": ("lines",),
}
TOKEN_KERNELS = {"tokens", "quality", "grams", "c4", "listed"}  # the kernels that read tokens


class Counter:
    """Count blocks of documents in turn, in memory that is reused."""

    def __init__(self, sets: Collection[str], c4_terminal: bool, lists: WordLists) -> None:
        self.kernels, self.c4_terminal = {kernel for name in sets for kernel in KERNELS[name]}, c4_terminal
        self.lists = lists
        self.classes, self.rules = token_classes(), token_rules()
        self.line_table = lines.LineTable()
        self.tokens, self.hashes = np.empty((BLOCK, 4), np.uint32), np.empty(BLOCK, np.uint64)
        self.others, self.other_hashes = np.empty((1024, 4), np.uint32), np.empty(1024, np.uint64)

    def counts(self, data: NDArray[np.uint8], offsets: Places, list_of: Places) -> dict[str, Counts]:
        """Return the counts of each kernel for a block, (n,). list_of: the word list of each document, (n,)."""
        ends, found = np.zeros(len(offsets), np.int64), dict[str, Counts]()
        breaks = line_breaks(data, offsets)
        if self.kernels & TOKEN_KERNELS:
            self.tokens, self.hashes = tokenize(
                data, offsets, self.classes, self.rules, self.tokens, self.hashes, ends
            )
            found["tokens"] = np.diff(ends).view(TOKENS)
        if "quality" in self.kernels:
            found["quality"] = quality.count_quality(data, offsets, self.classes, self.tokens, ends, breaks)
        if "listed" in self.kernels:
            found["listed"] = quality.count_listed(self.hashes, ends, self.lists, list_of)
        if "grams" in self.kernels:
            found["grams"] = grams.count_grams(self.tokens, self.hashes, ends)
        if "c4" in self.kernels:
            found["c4"] = c4_lines.count_c4(
                data, offsets, self.classes, self.c4_terminal, self.tokens, ends, self._retokenize, breaks
            )
        if "lines" in self.kernels:
            found["lines"] = lines.count_lines(data, offsets, self.classes, self.line_table, breaks)
        if "refined" in self.kernels:
            found["refined"] = refined_words(data, offsets, breaks)
        return found

    def _retokenize(self, data: NDArray[np.uint8], offsets: Places) -> tuple[NDArray[np.uint32], Places]:
        ends = np.zeros(len(offsets), np.int64)
        self.others, self.other_hashes = tokenize(
            data, offsets, self.classes, self.rules, self.others, self.other_hashes, ends
        )
        return self.others, ends


def measure_texts(
    texts: pa.LargeStringArray,
    sets: Collection[str],
    c4_terminal: bool = False,
    lists: WordLists | None = None,
    list_of: Places | None = None,
) -> dict[str, pa.Table]:
    """Return some of the SETS, each with a row for each text. Raises ValueError for an unknown set.

    c4_terminal: C4 keeps only lines that end in a terminal punctuation mark, as in its paper. lists, list_of: for
    fineweb-2, lists of stop words, and the index of the list for each text, (n,) int64, or -1.
    """
    if unknown := set(sets) - set(SETS):
        raise ValueError(f"unknown statistics {', '.join(sorted(unknown))}; use {', '.join(SETS)}")
    data, offsets = roomy_buffers(texts)
    counter = Counter(sets, c4_terminal, lists or WordLists(()))
    list_of = np.full(len(texts), -1) if list_of is None else list_of
    blocks = [
        counter.counts(data, offsets[first : last + 1], list_of[first:last])
        for first, last in _blocks(offsets)
    ] or [counter.counts(data, offsets, list_of)]
    counts = {name: concatenate_counts([block[name] for block in blocks]) for name in blocks[0]}
    return {
        name: statistics_table(statistics, counts_by_name(*(counts[kernel] for kernel in KERNELS[name])))
        for name, statistics in SETS.items()
        if name in sets
    }


def _blocks(offsets: Places) -> Iterator[tuple[int, int]]:
    """Cut documents into blocks of about BLOCK bytes; yield the begin and end of each."""
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, "right")) - 1)
        yield first, last
        first = last
