"""The prose of Markdown: blocks are recognised, and cleaning lines does not change them."""

import random
from functools import partial

import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from zyda_flows.textkernels.texts.line_rules import without_c4_lines, without_refinedweb_lines
from zyda_flows.textkernels.texts.markdown import prose, with_clean_prose

BLOCKS = [
    "```\nif x:\n\n    y = 1\n```", "````py\n```\n# a\n```\n````", "- item\n  ```\n  x\n  ```", "| a | b |\n| --- | --- |\n| c | d |",
    "# Head of `this`", "###### Six levels of it", "| no | table |", "#hashtag of a line", "a # b | c ` d", "####### seven of them",
    "1. one\n2. two", "Two lines\nof words", "> `quoted` words",
]  # fmt: skip
BY_LINE = partial(without_c4_lines, terminal=False)


def column(*texts):
    return pa.array(texts, pa.large_string())


def prose_by_parser(text):
    """Return the lines that a Markdown parser puts into neither code nor tables."""
    lines = text.split("\n")
    for token in MarkdownIt().enable("table").parse(text):
        if token.type in {"fence", "table_open"}:
            for place in range(*token.map):
                lines[place] = None
        if token.type == "heading_open":
            lines[token.map[0]] = lines[token.map[0]].removeprefix(token.markup + " ")
    return [line.replace("`", "") for line in lines if line]


def test_blocks_equal_a_markdown_parser():
    chance = random.Random(7)
    texts = ["\n\n".join(chance.choices(BLOCKS, k=chance.randrange(1, 9))) for _ in range(300)]
    found = prose(column(*texts)).to_pylist()
    assert [[line for line in text.split("\n") if line] for text in found] == list(
        map(prose_by_parser, texts)
    )
    assert not any("\n\n\n" in text or text.startswith("\n") or text.endswith("\n") for text in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one $x$ two\n\n$$\\frac{a}{b}$$\n\nthree", "one $x$ two\n\nthree"),
        ("$$\na\n= b\n$$\nthree", "three"),
        ("$$ is money\n\nand words $$", "$$ is money\n\nand words $$"),
        ("$$\n```\nx\n```", "$$"),
        ("```\nopen to the end\n# a", "\nopen to the end\n# a"),
        ("words\n\n````\n```", "words\n\n\n"),
        ("", ""),
        ("\n\n", "\n\n"),
        ("| a | b |\n| --- | --- |", ""),
    ],
)
def test_unclosed_blocks_are_prose(text, expected):
    assert prose(column(text)).to_pylist() == [expected]


def test_slice_of_a_column_is_read_alone():
    texts = column("no", "```\nx\n```\n\nwords", "# a\n\nb", "no")
    assert prose(texts[1:3]).to_pylist() == ["words", "a\n\nb"]
    assert prose(texts[1:1]).to_pylist() == []


CODE = "```py\nif x:\n    return 1\n\n}\n```"
TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Some words of prose.\n\n{CODE}\n\nHome\n\nMore words of prose.", f"Some words of prose.\n\n{CODE}\n\nMore words of prose."),
        (f"# One\n\n{CODE}\n{TABLE}\n", f"# One\n\n{CODE}\n{TABLE}\n"),
        ("# One\n\nHome\n\n## Two\n\nSome words of prose.\n\n## Three\n\nHome\n\n# Four\n\nHome", "# One\n\n## Two\n\nSome words of prose."),
        ("- an item of words\n  ```\n  x\n  ```\n- Home", "- an item of words\n  ```\n  x\n  ```"),
        ("Some words of prose.\n\nHome", "Some words of prose."),
        (CODE, CODE),
        ("Home", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_rules_for_lines_keep_blocks_and_their_headings(text, expected):
    cleaned, is_changed = with_clean_prose(column(text), BY_LINE)
    assert cleaned.to_pylist() == [expected]
    assert is_changed.tolist() == [text != expected]


@pytest.mark.parametrize("clean", [BY_LINE, without_refinedweb_lines])
def test_cleaning_does_not_depend_on_other_texts(clean):
    chance = random.Random(11)
    blocks = [*BLOCKS, "Home", "Sign-in now", "Some words of prose.", CODE, "", "\n", "FACEBOOK", "3 likes"]
    texts = column(*("\n\n".join(chance.choices(blocks, k=chance.randrange(6))) for _ in range(200)))
    together, is_changed = with_clean_prose(texts, clean)
    alone = [with_clean_prose(texts[i : i + 1], clean) for i in range(len(texts))]
    assert together.to_pylist() == [one.to_pylist()[0] for one, _ in alone]
    assert is_changed.tolist() == [bool(by_itself[0]) for _, by_itself in alone]
