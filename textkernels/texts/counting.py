"""The statistics by which Zyda-1 removes documents (Zyphra's Zyda_processing, `filtering.py`).

Columns of the result, with a row for each document:

    characters        code points
    mean_word_length  of words separated by white space, `-`, `/`, backslash and `.`; empty words count
    symbols           share of the characters that are neither of a word nor white space
    digits            share of the characters that are decimal digits
    runs              number of runs of at least LEAST_RUN of one character of a word

Shares of a text without characters are 0.
"""

import pyarrow as pa

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.counts import (
    Statistic,
    count_statistic,
    counts_by_name,
    share_statistic,
    statistics_table,
)
from zyda_flows.textkernels.rules.characters import count
from zyda_flows.textkernels.texts.classes import character_classes

STATISTICS = {
    "characters": count_statistic("characters"),
    "mean_word_length": Statistic(
        pa.float64(), lambda counts: (counts["characters"] - counts["cuts"]) / (counts["cuts"] + 1)
    ),
    "symbols": share_statistic("others", "characters"),
    "digits": share_statistic("digits", "characters"),
    "runs": count_statistic("runs"),
}


def statistics(texts: pa.LargeStringArray) -> pa.Table:
    """Return the STATISTICS of each text."""
    return statistics_table(STATISTICS, counts_by_name(count(*text_buffers(texts), character_classes())))
