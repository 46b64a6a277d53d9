"""Counts of expressions in texts equal Python's findall and Zyda-1's published code."""

import pickle
import re
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules.sequences import count_string
from zyda_flows.textkernels.texts import patterns
from zyda_flows.textkernels.texts.patterns import Patterns
from zyda_flows.textkernels.texts.word_lists import word_list

# Differences between Python's expressions and Hyperscan's: white space, words, cases, repeats, ends, empty matches.
EXPRESSIONS = [
    "apple", "a", "", " ", "<", "\n", "\0", "é", "ss", "\ud800", "漢字", r"Vol\.", r"www.", r"<\?x|y", "(?i)kiss", "(?i)É",
    r"\s", r"a\sb", r"\S\S", r"\w+", r"\W", r"\d{2,}", r"\bcat\b", r"^a", r"a$", r"(?m)^a", r"(?m)a$", r"a\Z", r"a$\n",
    r"a.b", r"(?s)a.b", " . . .", " [^ ] [^ ] [^ ]", " ...", "....", "[^a]b", "[^\\v]b", "[a-cé]x", "[[:alpha:]]", "a{,2}b",
    "a{2,}", "(?i:\u017f)", "(?i)[^s]", "(?i)[k-m]", "(?i)[\u212aé]", r"\x1cb", r"(a)\1", r"(?<!a)b", r"(?=ab)", r"a(?!b)", "a*", "(?:)", "x?",
    "a|", "(?P<one>a)(?P=one)", "(a)?(?(1)b|c)", "(?>a+)b", "a++", "a*?b", "(?x) a  b # and so on", "(?a)\\S",
    r"(?a)\w", "a{9}", "(?:ab){12,40}", "[\ud800-\udfff]", "\u2028", r"[\s\S]é", r"[^\W\d_]+", ", ..,,? ..,", r"\|\s*$",
    "x" * 70, "." * 65, "." * 40, "[^x]" * 60, "(?i)x" + "y" * 40, "\\.\\.", "\r\n", "#", "-", "&&", "a" * 1000,
]  # fmt: skip
TEXTS = [
    "", "apple apple", "aaaa", "a\n", "a\na\n", "a\nb a\x1cb a\x85b a\u2003b a b", "straße \u017f\u017f SS Kiss KI\u017fS ki\u017fs",
    "é É e\u0301 漢字漢字 🙂", " . . . . . . .", " a b c d e f", " 漢 é 🙂 a b\nc", "a1 12 ٣٣ 123", "cat cats\xa0cat",
    "\0\0a\0", "\x0b\x0c\x0bb", "www.a www\n www", "Vol. Vol, Vol.", "abababababababababababababababab", "x" * 200,
    "| \n", "|\u2003\x1c\n", "|\n\n a", ", ab,cd, ab,,cd, .", "ab" * 3000, "\u2028\u2029\r\n", "<?x y <?x",
    "a" * 3000, "\U0010ffff" * 70, "aab aaab bb", "[:alpha:] l] a]", "a{,2}b",
]  # fmt: skip
CHARACTERS = [
    *"aabbkKsS \n.|1_",
    "\x0b",
    "\x1c",
    "\x85",
    "é",
    "É",
    "\u017f",
    "\u212a",
    "İ",
    "ß",
    "漢",
    "٣",
    "\u2003",
    "🙂",
]
ATOMS = st.sampled_from(
    [*"aabks .1", "é", "\u017f", "\u212a", "漢", "🙂", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"\b", r"\B", "^", "$", r"\Z", r"\A",
     "[ab]", "[^ab]", "[^a]", r"[\sk]", r"[^\s1]", r"[^\W\d]", "[a-é]", "[^é]", r"\.", r"\n", r"\|", "(?=a)", "(?!s)"]
)  # fmt: skip
EXPRESSION = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{,2}", "{1,3}", "*?", "++", "{3,}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
        inner.map(lambda one: f"(?i:{one})"),
        inner.map(lambda one: f"(?s-i:{one})"),
    ),
    max_leaves=8,
)
FLAGS = st.sampled_from(["", "", "", "(?i)", "(?m)", "(?s)", "(?x)", "(?a)"])


def column(*texts):
    return pa.array(texts, pa.large_string())


def plainly(expressions, texts):
    return [[len(re.findall(expression, text)) for expression in expressions] for text in texts]


@pytest.fixture
def without_hyperscan(monkeypatch):
    monkeypatch.setitem(sys.modules, "hyperscan", None)  # as on machines without its wheel
    patterns.scanner.cache_clear()
    yield
    patterns.scanner.cache_clear()


@pytest.fixture(params=["with hyperscan", "without"])
def either(request):
    if request.param == "without":
        request.getfixturevalue("without_hyperscan")


@pytest.mark.usefixtures("either")
@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_hostile_expressions():
    counted = Patterns(tuple(EXPRESSIONS)).count(column(*TEXTS)).tolist()
    for text, found, expected in zip(TEXTS, counted, plainly(EXPRESSIONS, TEXTS), strict=True):
        assert dict(zip(EXPRESSIONS, found, strict=True)) == dict(zip(EXPRESSIONS, expected, strict=True)), (
            text
        )


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(
    st.lists(st.tuples(FLAGS, EXPRESSION).map("".join), min_size=1, max_size=4),
    st.lists(st.text(st.sampled_from(CHARACTERS), max_size=30), min_size=1, max_size=8),
)
def test_any_expression(expressions, texts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        found = Patterns(tuple(expressions)).count(column(*texts)).tolist()
        assert found == plainly(expressions, texts)


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from(CHARACTERS), max_size=9), max_size=6), st.integers(0, 3))
def test_any_strings_in_a_part_of_a_column(strings, skipped):
    expressions = [re.escape(string) for string in strings]
    texts = [" ".join(strings[number:] * 2) for number in range(6)]
    assert Patterns(tuple(expressions)).count(column(*texts)[skipped:]).tolist() == plainly(
        expressions, texts[skipped:]
    )


def test_no_texts_and_no_expressions():
    assert Patterns(()).count(column("a", "b")).shape == (2, 0)
    assert Patterns(("a", ". .")).count(column()).shape == (0, 2)


def test_sequences_beyond_the_limit_are_counted_by_python():
    expressions = tuple(f"{'. ' * 20}{letter}" for letter in "abcdefgh")
    texts = ["x " * 20 + letter for letter in "abcdefgh"]
    assert (Patterns(expressions).count(column(*texts)) == np.eye(8)).all()


@pytest.mark.parametrize("expression", ["(", "a{2}{3}", r"\R", "[", "*"])
def test_invalid_expression_raises(expression):
    with pytest.raises(re.error):
        Patterns(("a", expression))


def test_pickled_patterns_are_compiled_again():
    given_ = Patterns(("apple", r"\s", " . ."))
    assert given_.count(column("apple . . ")).tolist() == [[1, 3, 1]]
    again = pickle.loads(pickle.dumps(given_))
    assert again == given_
    assert "compiled" not in vars(again)
    assert again.count(column("apple . . ")).tolist() == [[1, 3, 1]]


@pytest.mark.usefixtures("without_hyperscan")
def test_missing_hyperscan_is_logged_once(caplog):
    for _ in range(2):
        assert Patterns(("apple", "a.*e")).count(column("an apple")).tolist() == [[1, 1]]
    assert [record.message for record in caplog.records if record.name == "textkernels"] == [
        "Hyperscan is not installed: patterns are counted without it, with equal counts, but slower."
    ]


def test_counts_equal_the_published_code(judged):
    said, texts = judged.rows, judged.texts
    columns = dict[str, list[str]]()
    for name in (name.removeprefix("count ") for name in said[0] if name.startswith("count ")):
        file = judged.folder / "word-lists" / name
        columns[name] = list(word_list(file.read_bytes(), name)) if file.is_file() else [name]
    counts = Patterns(tuple(term for terms in columns.values() for term in terms)).count(texts)
    start = 0
    for name, terms in columns.items():
        found = counts[:, start : start + len(terms)].sum(1).tolist()
        assert found == [row[f"count {name}"] for row in said], name
        start += len(terms)


WORD_LISTS = {
    "a.json": (b'["apple", "pear", "apple"]', ("apple", "pear")),
    "b.json": (b'{"about": "fruit", "words": [" apple ", "p\\u00e9ar"]}', (" apple ", "péar")),
    "c.txt": (b"# fruit\napple\r\n\n  \n pear \n#\nquince\napple", ("apple", " pear ", "quince")),
    "d.txt": (b"\xef\xbb\xbfapple\n", ("apple",)),
    "E.JSON": ('\ufeff["漢"]'.encode(), ("漢",)),
    "f": (b'["apple"]\n', ('["apple"]',)),
}
BAD_WORD_LISTS = {
    "a.txt": (b"", "expected at least one term"),
    "b.txt": (b"# apple\n\n", "expected at least one term"),
    "c.txt": (b"caf\xe9", "expected UTF-8"),
    "d.json": (b"apple", "expected JSON"),
    "e.json": (b"[]", "expected at least one term"),
    "f.json": (b'"apple"', "expected a list of strings"),
    "g.json": (b'{"a": ["b"], "c": ["d"]}', "expected a list of strings"),
    "h.json": (b'{"a": "b"}', "expected a list of strings"),
    "i.json": (b'["apple", 3]', "characters, got 3"),
    "j.json": (b'["apple", ""]', "characters, got ''"),
    "k.json": (b'["\\ud800"]', "one or more characters"),
    "l.json": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", WORD_LISTS)
def test_word_list_is_read(name):
    content, terms = WORD_LISTS[name]
    assert word_list(content, name) == terms


@pytest.mark.parametrize("name", BAD_WORD_LISTS)
def test_invalid_word_list_raises(name):
    content, why = BAD_WORD_LISTS[name]
    with pytest.raises(ValueError, match=why):
        word_list(content, name)
    with pytest.raises(ValueError, match=f"word list {name}: "):
        word_list(content, name)


@settings(deadline=None)
@given(
    st.lists(st.text("ab<é", max_size=300), min_size=1, max_size=3), st.text("ab<é", min_size=1, max_size=4)
)
def test_counts_of_strings_equal_python(texts, string):
    data, ends = text_buffers(pa.array(texts, pa.large_string()))
    times = count_string(data, ends, np.arange(len(texts)), string.encode())
    assert times.tolist() == [text.count(string) for text in texts]
