"""The statistics of Zyda-1's filter (Zyphra's Zyda_processing, `preprocess_and_filter.py` and `filtering.py`).

Patterns are counted in the text before cleaning; lengths and runs after it. The patterns are regular expressions in
Zyda-1, and so they are here: in `<?xml version=` the `<` is optional.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.texts.counting import statistics
from zyda_flows.textkernels.texts.patterns import Patterns

Columns = dict[str, NDArray[np.float64]]

PATTERNS = {
    "xml": "xml", "xml_declarations": "<?xml version=", "lorem_ipsum": "lorem ipsum", "https_share": "https://",
    "less_than_share": "<", "json_keys_share": '":', "www_share": "www.",
}  # fmt: skip
COUNTS_OF_LISTS = ("zh_porn", "sexual")
SHARE = "_share"


@lru_cache(maxsize=8)
def patterns(expressions: tuple[str, ...]) -> Patterns:
    """Return patterns that are compiled once for all texts of a process."""
    return Patterns(expressions)


def character_statistics(
    original: pa.LargeStringArray, cleaned_texts: pa.LargeStringArray, is_changed: NDArray[np.bool_]
) -> Columns:
    """Return the statistics of the characters of texts, (n,) float64 each.

    original: the texts before cleaning. cleaned_texts: the texts after it. is_changed: the texts that differ, (n,).
    """
    counted = statistics(original)
    columns = {name: counted.column(name).to_numpy().astype(np.float64) for name in counted.column_names}
    columns["length"] = columns.pop("characters")
    if is_changed.any():
        cleaned = statistics(cleaned_texts.filter(pa.array(is_changed)))
        for name, count_name in (("length", "characters"), ("runs", "runs")):
            columns[name][is_changed] = cleaned.column(count_name).to_numpy()
    return columns


def pattern_statistics(
    original: pa.LargeStringArray, lengths: NDArray[np.float64], terms: Mapping[str, Sequence[str]]
) -> Columns:
    """Return how often the patterns and the terms of lists occur, or their share, (n,) float64 each.

    A share is the number of occurrences divided by the number of characters. lengths: characters of the texts after
    cleaning. terms: regular expressions, by the name of their list.
    """
    lists = list(terms.values())
    counts = patterns(
        (*PATTERNS.values(), *(term for terms_of_list in lists for term in terms_of_list))
    ).count(original)
    some = np.maximum(lengths, 1)
    own, list_counts = counts[:, : len(PATTERNS)], counts[:, len(PATTERNS) :]
    columns = {name: own[:, i] / (some if name.endswith(SHARE) else 1) for i, name in enumerate(PATTERNS)}
    ends = np.cumsum([0, *map(len, lists)])
    for name, start, stop in zip(terms, ends, ends[1:], strict=False):
        occurring = list_counts[:, start:stop].sum(axis=1)
        if name in COUNTS_OF_LISTS:
            columns[name] = occurring.astype(np.float64)
        columns[f"{name}{SHARE}"] = occurring / some
    return columns
