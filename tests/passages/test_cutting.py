"""What is cut: sets of bytes by plain sets, owners, borders of segments and blocks; no passage disappears."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passages_here import search_here

from zyda_flows.tasks.passages import spans
from zyda_flows.tasks.passages.cutting import cut_of_part, cut_spans, without_spans
from zyda_flows.tasks.recipe.passages import LongPassages, RepeatedLines

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=6)
LEAST = 20
PIECES = st.sampled_from(
    ["One sentence that is shared by many. ", "Another one of them! ", "x" * 25, "漢字仮名交じり文" * 4, "e\u0301" * 15,
     "\r\n", "\n\n", "ab ", "| a | b |\n|---|---|\n| " + "c" * 30 + " | d |\n", "```\n" + "code();\n" * 4 + "```\n", "Own."]
)  # fmt: skip
TEXTS = st.lists(st.lists(PIECES, max_size=7).map("".join), max_size=4)


def as_spans(intervals):
    starts, sizes = np.array([*intervals, (0, 0)], np.int64).T
    return spans.union(starts, starts + sizes)


def as_set(found):
    return {
        byte for start, stop in zip(found.starts, found.stops, strict=True) for byte in range(start, stop)
    }


@given(INTERVALS, INTERVALS, st.integers(0, 50))
def test_sets_of_bytes(a, b, place):
    left, right = as_spans(a), as_spans(b)
    assert as_set(left) == {byte for start, size in a for byte in range(start, start + size)}
    assert as_set(spans.both(left, right)) == as_set(left) | as_set(right)
    assert as_set(spans.without(left, right)) == as_set(left) - as_set(right)
    assert bool(spans.covered(left, np.array([place]))[0]) == (place in as_set(left))
    assert int(spans.bytes_before(left, np.array([place]))[0]) == len([x for x in as_set(left) if x < place])
    assert as_set(spans.divided(left, np.array([place]))) == as_set(left)


def cut_here(sources, part):
    """Return the texts of all sources after their cut, and before."""
    before, after = [], []
    for shard in search_here(sources, part):
        cut = cut_spans(shard.texts, [(part, cut_of_part(shard.marks, shard.units, part))])
        before.append(shard.texts.to_pylist())
        after.append(without_spans(shard.texts, cut).to_pylist())
    return before, after


def windows_in(texts, length):
    return {text[i : i + length] for text in texts for i in range(len(text) - length + 1)}


@settings(deadline=None, max_examples=80)
@given(
    st.lists(TEXTS, min_size=1, max_size=3),
    st.sampled_from(["exact", "sentence", "line", "paragraph"]),
    st.booleans(),
    st.sampled_from([0, 3, 100]),
)
def test_no_repeated_passage_disappears(sources, cut, within, gap):
    part = LongPassages(length=LEAST, cut=cut, within=within, gap=gap)
    before, after = cut_here(sources, part)
    everything = [text for texts in before for text in texts]
    counts = {}
    for number, text in enumerate(everything):
        for window in windows_in([text], LEAST):
            counts.setdefault(window, set()).add(number)
    repeated = {window for window, documents in counts.items() if len(documents) > 1}
    assert repeated <= windows_in([text for texts in after for text in texts], LEAST)


def test_exactly_the_other_copies_are_cut():
    shared = "0123456789" * 3
    part = LongPassages(length=20)
    _, after = cut_here([[f"A{shared}B", "C" + shared], [f"D{shared}E"]], part)
    assert after == [[f"A{shared}B", "C"], ["DE"]]
    _, after = cut_here([[f"A{shared}B", "C" + shared]], LongPassages(length=20, keep="none"))
    assert after == [["AB", "C"]]
    before, after = cut_here([[f"A{shared}B", "C" + shared]], LongPassages(length=20, keep="all"))
    assert after == before


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ("exact", "First. Begin  end. Last.\nNext line.\n\nPara."),
        ("sentence", "First. Last.\nNext line.\n\nPara."),
        ("line", "Next line.\n\nPara."),
        ("paragraph", "Para."),
    ],
)
def test_grown_to_segments(cut, expected):
    shared = "a passage of thirty characters"
    text = f"First. Begin {shared} end. Last.\nNext line.\n\nPara."
    _, after = cut_here([[shared], [text]], LongPassages(length=20, cut=cut))
    assert after == [[shared], [expected]]


@pytest.mark.parametrize(
    ("cut", "left"), [("sentence", "Own.\n\nMore."), ("line", "Own.\nMore."), ("paragraph", "Own.\n\nMore.")]
)
def test_the_end_of_a_segment_before_a_passage_does_not_count_as_touched(cut, left):
    shared = "\n\na passage of thirty characters\n\n"
    _, after = cut_here([[f"One.{shared}Two."], [f"Own.{shared}More."]], LongPassages(length=20, cut=cut))
    assert after[1] == [left]


def test_growth_stops_at_owned_bytes():
    first, second = "the first passage is thirty ch", "the second passage is forty ch"
    texts = [[first], [f"Own {first} and {second} more"], [second]]
    _, after = cut_here(texts, LongPassages(length=20, cut="paragraph"))
    assert after == [[first], [f"{second} more"], [""]]


def test_code_is_cut_as_a_whole_or_not():
    code = "```\n" + "call(some, thing);\n" * 3 + "```\n"
    part = LongPassages(length=20)
    _, after = cut_here(
        [
            [f"A\n{code}B\n"],
            [f"C\n{code}D\n"],
            ["```\nmine();\ncall(some, thing);\ncall(some, thing);\n```\n"],
        ],
        part,
    )
    assert after[1] == ["CD\n"]  # the line feed before the block is shared too
    assert after[2] == ["```\nmine();\ncall(some, thing);\ncall(some, thing);\n```\n"]
    _, after = cut_here(
        [[f"A\n{code}B\n"], [f"C\n{code[:-6]}x\n```\nD"]], LongPassages(length=20, markdown=False)
    )
    assert after[1][0].count("call") == 0


def test_gaps_are_cut_within_a_text_only():
    one, two = "1" * 10 + "2" * 15, "3" * 10 + "4" * 15
    sources = [[one, two], [f"{one}--{two}", two]]
    _, after = cut_here(sources, LongPassages(length=20, gap=2))
    assert after[1] == ["", ""]
    _, after = cut_here(sources, LongPassages(length=20, gap=1))
    assert after[1] == ["--", ""]


@pytest.mark.parametrize("between", ["漢字", "🙂e", "\r\n"])
def test_gaps_are_counted_in_characters(between):
    one, two = "1" * 10 + "2" * 15, "3" * 10 + "4" * 15
    sources = [[one, two], [f"{one}{between}{two}", "another"]]
    assert cut_here(sources, LongPassages(length=20, gap=2))[1][1] == ["", "another"]
    assert cut_here(sources, LongPassages(length=20, gap=1))[1][1] == [between, "another"]


def test_lines_are_cut_with_their_line_feeds():
    part = RepeatedLines.model_validate({"lines": {"in_documents": 3}})
    _, after = cut_here([["menu\nA\n", "B\nmenu\n"], ["menu\nC\nmenu", "menus"]], part)
    assert after == [["menu\nA\n", "B\n"], ["C\n", "menus"]]
