"""Test the Markdown of artifacts: bars, durations, cells, links and paragraphs."""

import html
import re

import pytest
from small_corpus import build_here

from zyda_flows.flows.reporting.markdown import bar, duration, table, unwrap, without_code


def test_bars_are_full_only_at_100_per_cent():
    assert [bar(part, 4) for part in (0, 0.5, 0.999, 1)] == ["░░░░", "██░░", "███░", "████"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (3600, "1 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds, text):
    assert duration(seconds) == text


def test_bars_and_line_breaks_are_escaped_in_cells():
    assert table(["a"], [["x | y\nz"]]).splitlines()[2] == "| x \\| y z |"


@pytest.mark.parametrize(
    "link",
    [
        "[x](javascript:alert(1))", "[x]( JavaScript:alert(1))", "[x](java&#115;cript:alert(1))", "[x](<javascript:a>)",
        "[x](<java\tscript:a>)", "<javascript:alert(1)>", "[x][1]\n\n[1]: javascript:alert(1)", "[x](data:text/html,a)",
        "[x](vbscript:a)", "[x](\njavascript:a)", "![x](javascript:a)", "[x](file:///etc/passwd)",
    ],
)  # fmt: skip
def test_links_that_run_code_are_removed(link):
    assert not re.search(
        r"script:|data:text|file:", html.unescape(without_code(link)).replace("\t", ""), re.IGNORECASE
    )


@pytest.mark.parametrize(
    "text", ["[a](/runs) [b](https://x.y/z) ![c](data:image/svg+xml;base64,PHN2) [d](#e) <a@b> 1 < x: y > 2"]
)
def test_other_links_are_kept(text):
    assert without_code(text) == text


def test_paragraphs_are_unwrapped_and_blocks_are_not(corpus):
    recipe = corpus.load()
    build_here(recipe)
    text = "One\ntwo.\n\n- three\n  four\n- five\n\n```yaml\na: 1\nb: 2\n```\n\n| a |\n|---|\n| b |\nAfter\nit.\n"
    assert unwrap(text) == (
        "One two.\n\n- three four\n- five\n\n```yaml\na: 1\nb: 2\n```\n\n| a |\n|---|\n| b |\nAfter it.\n"
    )
