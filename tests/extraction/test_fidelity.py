"""Texts keep the numbers of lists and the indentation of code, and omit links for editing."""

import pytest

from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text

PAGE = "<!doctype html><html><body><div><main><div><div><p>Words before it.</p>{}</div></div></main></div></body></html>"
EXTRACTORS = pytest.mark.parametrize("extract", [main_content, structured_text])


def lines(extract, html):
    first, *others = [line.strip() for line in extract(PAGE.format(html)).split("\n") if line.strip()]
    assert first == "Words before it."
    return others


@EXTRACTORS
@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ol start=5><li>a<li>b</ol>", ["5. a", "6. b"]),
        ("<OL START='05'><LI>a<li>b</OL>", ["5. a", "6. b"]),
        ('<ol start="-1"><li>a<li>b<li>c</ol>', ["-1. a", "0. b", "1. c"]),
        ("<ol><li value=3>a<li>b<li class=x value='10'>c<li>d</ol>", ["3. a", "4. b", "10. c", "11. d"]),
        ("<ol reversed><li>a<li>b<li>c</ol>", ["3. a", "2. b", "1. c"]),
        ("<ol reversed start=9><li>a<li>b</ol>", ["9. a", "8. b"]),
        ('<ol start=5 data-start=7><li data-value="3">a<li>b</ol>', ["5. a", "6. b"]),
        ('<ol start=5 data-reversed reversed-x><li>a<li class="b"value=9>b</ol>', ["5. a", "9. b"]),
        ("<ol start=5><li>a<ol start=3><li>x<li>y</ol><li>b</ol>", ["5. a", "3. x", "4. y", "6. b"]),
        ("<ol start=2><li>a<ul><li value=7>x</ul><li>b</ol>", ["2. a", "* x", "3. b"]),
        ("<ol><li>a<li>b</ol><ol start=3><li>c</ol>", ["1. a", "2. b", "3. c"]),
        ("<ol start=5><li><p>a</p><li><b>b</b> 7</ol>", ["5. a", "6. b 7"]),
        ("<ol start=x><li>a</ol><ol start=99999999999><li>b</ol>", ["1. a", "999999999. b"]),
    ],
)
def test_items_have_the_numbers_of_the_page(extract, html, expected):
    items = [line.replace("• ", "* ").replace("- x", "* x") for line in lines(extract, html)]
    assert items == expected


@EXTRACTORS
@pytest.mark.parametrize(
    "link",
    [
        "<span class=mw-editsection><span class=mw-editsection-bracket>[</span><a href=x>edit</a>]</span>",
        '<span class="mw-editsection"> [<a>Bearbeiten</a> | <a>Quelltext bearbeiten</a>]</span>',
        "<span class=editsection>[<a href=x>編集</a>]</span>",
    ],
)
def test_edit_links_of_headings_are_removed(extract, link):
    html = f"<h2><span class=mw-headline>Title</span>{link}</h2><p>Text.</p><h3>Other{link}</h3><p>More."
    assert [line.strip("# ") for line in lines(extract, html)] == ["Title", "Text.", "Other", "More."]


@pytest.mark.parametrize(
    "code",
    ["<pre>if x:\n    y | z\n\n\treturn</pre>", "<pre><code>if x:<br>    y | z<br><br>\treturn</code></pre>"],
)
def test_code_in_cells_keeps_its_indentation(code):
    text = structured_text(PAGE.format(f"<table><tr><th>a  b<th>c<tr><td>1<td>{code}<p>and   more</table>"))
    cell = "```<br>if x:<br>    y \\| z<br><br>\treturn<br>```<br>and more"
    assert text.endswith(f"| a b | c |\n| --- | --- |\n| 1 | {cell} |")


@EXTRACTORS
def test_entities_and_word_break_opportunities_are_unchanged(extract):
    html = "<p>a<wbr>b soft\xadhyphen &shy;x &nbsp;y &lt;tag&gt; &copy; &#x1F600; &hellip; <q>c</q> H<sub>2</sub>O"
    assert lines(extract, html) == ["ab soft\xadhyphen \xadx \xa0y <tag> © 😀 … c H2O"]


def test_breaks_in_cells_separate_lines():
    text = structured_text(PAGE.format("<table><tr><td>a<br>b<td>c<tr><td>e<wbr>f<td>g&shy;h</table>"))
    assert text.endswith("| a<br>b | c |\n| --- | --- |\n| ef | g\xadh |")
