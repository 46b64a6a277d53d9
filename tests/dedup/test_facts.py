"""Facts of texts: a changed fact is found, and a text in other words with the same facts lacks nothing."""

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.dedup.facts import facts_of, lacking


@pytest.mark.parametrize(
    ("text", "kept", "expected"),
    [
        ("The test took 5 km.", "The test took 6 km.", {"number": ("5 km",)}),
        ("It weighs 5 kg.", "It weighs 5 g.", {"number": ("5 kg",)}),
        ("It costs $1,000.", "It costs $100.", {"number": ("$1000",)}),
        ("It fell by -3 points.", "It fell by 3 points.", {"number": ("-3",)}),
        ("on 2020-01-02", "on 2020-01-03", {"number": ("2020-01-02",)}),
        ("at 10:30", "at 10.30", {"number": ("10:30",)}),
        ("Python 3.11.7", "Python 3.11.9", {"number": ("3.11.7",)}),
        ("two of them", "three of them", {"number": ("two",)}),
        ("er hat zwölf Äpfel", "er hat elf Äpfel", {"number": ("zwölf",)}),
        ("\u0663 people", "\u0664 people", {"number": ("\u0663",)}),
        ("他有三个", "他有五个", {"number": ("三",)}),
        ("他在2020年来", "她在2021年来", {"number": ("2020",)}),
        ("彼は3.5%使う", "彼は3.7%使う", {"number": ("3.5 %",)}),
        ("2020년에 왔다", "2021년에 갔다", {"number": ("2020",)}),
        ("使用Python编程", "使用Java编程", {"name": ("Python",)}),
        ("10\u2075 atoms", "105 atoms", {"number": ("10", "5")}),
        ("1\u00bd cups", "11/2 cups", {"number": ("1", "1\u20442")}),
        ("twenty-one men", "twenty-two men", {"number": ("twenty-one",)}),
        ("the fourth man", "the fifth man", {"number": ("fourth",)}),
        ("it was .5 here", "it was .6 here", {"number": (".5",)}),
        ("\u20b9500 here", "\u20a9500 here", {"number": ("\u20b9500",)}),
        ("at 10:30 pm", "at 10:30 am", {"number": ("10:30 pm",)}),
        ("It is allowed.", "It is not allowed.", {"negation": ("+not",)}),
        ("It isn't allowed.", "It is allowed.", {"negation": ("isn't",)}),
        ("Das ist kein Hund.", "Das ist Hund.", {"negation": ("kein",)}),
        ("Il ne dort pas.", "Il dort.", {"negation": ("ne", "pas")}),
        ("Se puede entrar sin llave.", "Se puede entrar con llave.", {"negation": ("sin",)}),
        ("我不去", "我去", {"negation": ("不",)}),
        ("It runs before lunch.", "It runs after lunch.", {"negation": ("before", "+after")}),
        (
            "use ConvertTo-SecureString",
            "use ConvertFrom-SecureString",
            {"identifier": ("ConvertTo-SecureString",)},
        ),
        ("call max_size()", "call min_size()", {"identifier": ("max_size()",)}),
        ("with --force", "with --dry-run", {"identifier": ("--force",)}),
        ("import os.path here", "import os.stat here", {"identifier": ("os.path",)}),
        ("uses getValue now", "uses setValue now", {"identifier": ("getValue",)}),
        ("a sha256 digest", "a sha512 digest", {"identifier": ("sha256",)}),
        ("we met Alice there", "we met Carol there", {"name": ("Alice",)}),
        ("Alice left.", "Carol left.", {"name": ("Alice",)}),
        ("we left. Alice stayed.", "we left. Carol stayed.", {"name": ("Alice",)}),
        ("made by NASA", "made by ESA", {"name": ("NASA",)}),
        ("他读《红楼梦》", "他读《水浒传》", {"name": ("红楼梦",)}),
        ("by J. Smith", "by K. Smith", {"name": ("J",)}),
        ("in /usr/lib/a.txt now", "in /usr/lib/b.txt now", {"identifier": ("usr/lib/a.txt",)}),
        ("costs 100 dollars", "costs 100 euros", {"number": ("100 dollars",)}),
        ("it is \u20135 now", "it is 5 now", {"number": ("-5",)}),
        ("if a == b then", "if a != b then", {"identifier": ("==",)}),
        ("from Paris to Paris", "from Paris to town", {"name": ("Paris",)}),
        ("a rope of five metres", "a rope of five kilometres", {"number": ("m",)}),
        ("it takes two days", "it takes two weeks", {"number": ("day",)}),
        ("the price in pounds", "the price in francs", {"number": ("pounds",)}),
        ("it opens on monday", "it opens on tuesday", {"number": ("monday",)}),
        ("er hat zweiunddreißig", "er hat dreiundzwanzig", {"number": ("zweiunddreißig",)}),
        ("am vierten Tag", "am achten Tag", {"number": ("vierten",)}),
        ("il a soixante-dix ans", "il a quatre-vingts ans", {"number": ("soixante-dix",)}),
        ("la quinzième fois", "la seizième fois", {"number": ("quinzième",)}),
        ("tiene doscientas", "tiene trescientas", {"number": ("doscientas",)}),
        ("hay veintidós", "hay veinticinco", {"number": ("veintidós",)}),
        ("el martes que viene", "el jueves que viene", {"number": ("martes",)}),
        ("a dozen eggs", "a score eggs", {"number": ("dozen",)}),
        ("see section iv here", "see section vi here", {"number": ("iv",)}),
        ("they must stay", "they may stay", {"negation": ("must", "+may")}),
        ("sie müssen gehen", "sie dürfen gehen", {"negation": ("müssen", "+dürfen")}),
        ("open until noon", "open from noon", {"negation": ("until", "+from")}),
        ("all of it is new", "some of it is new", {"negation": ("all", "+some")}),
        ("it is for us", "it is only for us", {"negation": ("+only",)}),
        ("if a < b here", "if a > b here", {"identifier": ("<",)}),
        ("a \U0001f44d here", "a \U0001f44e here", {"identifier": ("\U0001f44d",)}),
        ("no, it is safe", "no, it is not safe", {"negation": ("+not",)}),
        ("not here, and cannot go", "not here, and go", {"negation": ("cannot",)}),
    ],
)
def test_changed_fact_is_found(text, kept, expected):
    assert lacking(text, kept) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("However, the server has 1,000 users.", "But there are 1000 users of that server."),
        ("Alice saw 5 km of road in Paris.", "In Paris, 5km of road were seen by Alice."),
        ("Servers are fast. They cost $5.", "Fast servers cost $5, but not less."[:23]),
        ("\uff11\uff12 pages", "pages: 12"),
        ("La maison a 3 portes.", "Cette maison a 3 portes et un toit."),
        ("", "Anything with 5 facts."),
    ],
)
def test_texts_in_other_words_with_the_same_facts_lack_nothing(text, kept):
    assert lacking(text, kept) == {}


def test_facts_of_the_kept_text_may_be_more():
    assert lacking("He has 5 dogs.", "He has 5 dogs and 7 cats in Rome with is_open().") == {}


@given(st.text(max_size=200), st.integers(0, 10**9), st.text(max_size=200))
def test_number_between_any_two_texts_is_found(before, number, after):
    text = f"{before} {number}  {after}"
    assert "".join(lacking(text, f"{before} {after}").get("number", ())).count(str(number)) >= 1


@given(st.text(max_size=300))
def test_text_lacks_nothing_of_itself(text):
    assert lacking(text, text) == {}


@pytest.mark.parametrize(
    "piece",
    ["1", "1,", "a.b", "-", "A ", "《", "a'", " ", "1 k", "$ ", "n't ", "(*", "A\n", "--a", "\u2044 1"],
)
def test_time_is_linear_in_the_length_of_the_text(piece):
    small, large = (seconds_of(piece * (count // len(piece))) for count in (50_000, 200_000))
    assert large < 6 * max(0.02, small)


def seconds_of(text):
    """Return the CPU seconds of the facts of a text."""
    start = time.process_time()
    facts_of(text)
    return time.process_time() - start


def test_facts_do_not_depend_on_the_hashes_of_texts():
    """The order of a Python set of texts differs between processes."""
    program = (
        "from zyda_flows.tasks.dedup.facts import lacking\n"
        "own = 'This is direct, valid, able, possible and complete; do not write it, and never stop.'\n"
        "other = 'This is indirect, invalid, unable, impossible and incomplete; write it, and always start.'\n"
        "print(lacking(own, other), lacking(other, own))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(outputs) == 1
    assert b"+invalid" in outputs.pop()
