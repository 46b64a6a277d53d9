"""The script in which a text is written."""

import unicodedata
from functools import cache

import pyarrow as pa
import pytest
import regex

from zyda_flows.textkernels.texts.scripts import script_of_texts

SCRIPTS = [
    "Adlm",
    "Arab",
    "Armn",
    "Beng",
    "Bopo",
    "Cans",
    "Cher",
    "Copt",
    "Cyrl",
    "Deva",
    "Ethi",
    "Geor",
    "Goth",
    "Grek",
    "Gujr",
    "Guru",
    "Hang",
    "Hani",
    "Hebr",
    "Java",
    "Khmr",
    "Knda",
    "Laoo",
    "Latn",
    "Lisu",
    "Mand",
    "Mlym",
    "Mong",
    "Mtei",
    "Mymr",
    "Nkoo",
    "Ogam",
    "Olck",
    "Orya",
    "Runr",
    "Sinh",
    "Sund",
    "Syrc",
    "Tale",
    "Taml",
    "Telu",
    "Tfng",
    "Thaa",
    "Thai",
    "Tibt",
    "Vaii",
    "Yiii",
]


@cache
def known_letters():
    return "".join(chr(code) for code in range(0x110000) if unicodedata.category(chr(code)).startswith("L"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_of_letters_equal_unicode(script):
    letter = regex.compile(rf"[\p{{L}}&&\p{{sc={script}}}]", regex.V1)
    letters = letter.findall(known_letters())
    assert letters
    # Of two lengths: ASCII is read in blocks.
    for texts in (letters, [f"12 {one * 20} 3" for one in letters]):
        assert set(script_of_texts(pa.array(texts, pa.large_string())).to_pylist()) == {script}


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("東京へ行きます", "Jpan"),
        ("コーヒー", "Jpan"),
        ("我去北京大学图书馆，然后回家吃饭睡觉看书写字の", "Hani"),
        ("서울 사람들 大學校", "Hang"),
        ("Москва, Moscow и СССР тогда", "Cyrl"),
        ("Москва, the capital of Russia", "Latn"),
        ("Ein längerer Text, der keinen anderen Buchstaben hat.", "Latn"),
        ("हिन्दी में", "Deva"),
        ("", None),
        ("123 ... \N{GRINNING FACE} €", None),
        (None, None),
    ],
)
def test_script_has_most_letters(text, script):
    assert script_of_texts(pa.array([text], pa.large_string())).to_pylist() == [script]


def test_slice_of_a_column_has_the_scripts_of_its_texts():
    texts = pa.array(["a", "ж", "1", "中"], pa.large_string())
    assert script_of_texts(texts[1:]).to_pylist() == ["Cyrl", None, "Hani"]
