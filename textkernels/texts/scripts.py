"""The scripts in which texts are written, by their names in ISO 15924."""

import unicodedata
from functools import lru_cache

import numpy as np
import pyarrow as pa
from fontTools.unicodedata import Scripts
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers, text_buffers
from zyda_flows.textkernels.rules.characters import CODE_POINTS
from zyda_flows.textkernels.rules.letters import count_letters

COMMON_SCRIPTS = {
    "Zyyy",
    "Zinh",
    "Zzzz",
}  # Unicode's values for characters of many scripts, or of none
KANA_SHARE = (
    0.05  # least share of kana in Japanese text, among kana and Han; a Chinese text may have one or two kana
)


@lru_cache(maxsize=1)
def scripts_of_letters() -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Return the script of each code point, (0x110000,) uint8, 0 if it is no letter; and the scripts' names."""
    names = ("", *sorted(set(Scripts.VALUES) - COMMON_SCRIPTS))
    numbers = {name: number for number, name in enumerate(names)}
    scripts = np.zeros(CODE_POINTS, np.uint8)
    for first, end, name in zip(
        Scripts.RANGES, [*Scripts.RANGES[1:], CODE_POINTS], Scripts.VALUES, strict=True
    ):
        for code in range(first, end) if name in numbers else ():
            if unicodedata.category(chr(code)).startswith("L"):
                scripts[code] = numbers[name]
    return scripts, names


def script_of_texts(texts: pa.LargeStringArray) -> pa.StringArray:
    """Return the script of most letters of each text: `Latn`, `Cyrl`, `Arab`, `Deva` and so on, of about 170.

    Kana with Han characters are `Jpan`, Han characters alone `Hani`. A text without letters is null.
    """
    data, offsets = text_buffers(texts)
    check_buffers(data, offsets)
    scripts, names = scripts_of_letters()
    counts = np.zeros((len(offsets) - 1, len(names)), np.int64)
    count_letters(data, offsets, scripts, names.index("Latn"), counts)
    counts[:, 0] = 0
    japanese = [names.index(name) for name in ("Hira", "Kana", "Hani")]
    kana, all_ = counts[:, japanese[:2]].sum(axis=1), counts[:, japanese].sum(axis=1)
    is_japanese = (kana > 0) & (kana >= KANA_SHARE * all_)
    counts[np.ix_(is_japanese, japanese)] = 0
    counts = np.column_stack([counts, np.where(is_japanese, all_, 0)])
    found = counts.argmax(axis=1)
    return pa.array([*names, "Jpan"], pa.string()).take(pa.array(found, mask=counts.max(axis=1) == 0))
