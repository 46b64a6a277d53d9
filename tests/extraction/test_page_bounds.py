"""Hostile pages cost bounded memory and time: each is refused with a reason, or extracted, and no real page is."""

import pytest
from bombs import run_bounded
from fastwarc.warc import ArchiveIterator, WarcRecordType
from growth import grows_linearly

from zyda_flows.tasks.extraction.decoding import as_utf8, decode_page
from zyda_flows.tasks.extraction.nesting import measure_page
from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text
from zyda_flows.tasks.limits import limits, replaced_limits

BEFORE = "<p>Some words before it.</p>"
MOST = 3_000_000  # characters of a page that is timed
WORST = {
    "body": lambda n: "<body'" * n,
    "BODY": lambda n: "<BODY " * n,
    "signs": lambda n: "<table><tr><td><code>a</code>" + "&lt;" * n + "<td>b<tr><td>c<td>d</table>",
    "sup": lambda n: "10<sup>" * n,
    "spaces in sup": lambda n: "10<sup>1" + " " * n,
    "style of a formula": lambda n: r"<math alttext='{\displaystyle" + " " * n + "'>x</math>",
    "dollars": lambda n: "<math alttext='" + "$" * n + "'>x</math>",
    "row of MathML": lambda n: "<math><mi>α</mi>" + "<mi>x</mi>" * n + "</math>",
    "word of MathML": lambda n: "<math><mi>" + "αx" * n + "</mi></math>",
    "table of MathML": lambda n: "<math><mtable>" + "<mtr><mtd><mi>x</mi></mtd></mtr>" * n + "</math>",
    "formulas": lambda n: "<math><mi>x</mi></math>" * n,
    "scripts of formulas": lambda n: "<script type=math/tex>x</script>" * n,
    "pictures of formulas": lambda n: "<img class=math alt='x'>" * n,
    "inline code": lambda n: "<code>x</code> " * n,
    "fences": lambda n: "<pre>" + "` `` ```" * n + "</pre>",
    "blocks of code": lambda n: "<pre>x</pre>" * n,
    "numbered code": lambda n: "<pre>" + "<span class=ln>1</span>\n" * n + "</pre>",
    "classes of code": lambda n: "<pre class='" + "code " * n + "'>a</pre>",
    "spaces in a class": lambda n: "<pre class='code" + " " * n + "1'>a</pre>",
    "style of a cell": lambda n: "<table><tr><td style='" + "display " * n + "'>a<td>b<tr><td>c<td>d</table>",
    "rows": lambda n: "<table>" + "<tr><td>a<td>b" * n + "</table>",
    "cells": lambda n: "<table><tr>" + "<td>a" * n + "<tr><td>b</table>",
    "spans": lambda n: "<table>" + "<tr><td colspan=200 rowspan=60000>a<td>b" * n + "</table>",
    "rows that span": lambda n: "<table><tr><td>x" + "<td rowspan=65000>a" * 190 + "<tr><td>b" * n + "</table>",
    "paragraphs of a cell": lambda n: "<table><tr><td>a<td>" + "<p>b" * n + "<tr><td>c<td>d</table>",
    "tables": lambda n: "<table><tr><th>a<th>b<tr><td>c<td>d</table>" * n,
    "items": lambda n: "<div><div><div><ol start=3>" + "<li>a" * n + "</ol>",
    "items far in": lambda n: "<ul><li>a" * 150 + "<li>b" * n,
    "lists": lambda n: "<ol start=2><li>a</ol>" * n,
    "list tags": lambda n: "<ol><ol start " * n,
    "dates": lambda n: "<p>On <time>1</time> it " * n,
    "ends in comments": lambda n: "<p>a <time>b<!--</time>-->c</time> d " * n,
    "labels": lambda n: "<p>a <label>b</label> c " * n,
    "open buttons": lambda n: "<button " * n,
    "lone characters": lambda n: "<b>猫</b>" * n,
    "a long reference": lambda n: "<b>&#" + "0" * n + "29483;</b>",
    "references": lambda n: "&#x0000" * n + "<b>猫</b>",
    "marks": lambda n: "\ufdd0o1;" * n + "<pre>x</pre>",
    "comments": lambda n: "<!--" * n,
    "CDATA": lambda n: "<svg>" + "<![CDATA[" * n,
    "drawings": lambda n: "<svg><path/></svg>" * n,
    "scripts": lambda n: "<script>" * n,
    "entities": lambda n: "&amp" * n,
    "headings with links": lambda n: "<pre>x</pre>" + "<h2>a<a class=headerlink>¶</a></h2>" * n,
}  # fmt: skip
REFUSED = {
    "nesting": "<div>" * 2_000_000,
    "nesting in a drawing": "<svg>" + "<wbr>" * 2_000_000,
    "nesting in a formula": "<math>" + "<mrow>" * 1_500_000,
    "nesting after a drawing": "<svg></svg>" + "<g>" * 2_000_000,
    "nesting of lists": "<ul><li>" * 1_000_000,
    "nesting in a table": "<table><tr><td>" * 700_000,
    "formatting": "".join(f"<p><b id={i}></p>" for i in range(500_000)),
    "tags": "<i></i>" * 1_600_000,
    "attributes": "<p " + "".join(f"a{i} " for i in range(1_000_000)) + ">x",
    "attributes of many tags": ("<p " + "".join(f"a{i} " for i in range(4000)) + ">x") * 400,
    "attributes of bodies": "".join(f"<body a{i}=1>" for i in range(700_000)),
    "bodies": "<body '" * 1_500_000,
    "too long": "x" * (13 << 20),
}
BOMBS = {
    **{
        name: WORST[name](20_000)
        for name in ("rows that span", "items far in", "spans", "tables", "cells", "fences")
    },
    "attributes below the bound": "<p " + "".join(f"a{i} " for i in range(10_000)) + ">x",
    "options": "<p>x<select>" + "<option>x" * 100_000,
    "spans of columns": "<table>" + "<tr><td colspan=1000 rowspan=65534>b<td>c" * 20_000,
    "a long attribute": "<p title='" + "x " * 5_000_000 + "'>x",
    "entities without end": "&CounterClockwiseContourIntegral" * 100_000,
    "NUL": "\0" * 10_000_000,
}


def outcome(extract, page):
    """Return the length of a text, or why there is none."""
    try:
        return len(extract(page))
    except ValueError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_time_grows_with_the_size_of_a_page(name):
    def both(page):
        return outcome(main_content, page), outcome(structured_text, page)

    assert grows_linearly(both, lambda n: BEFORE + WORST[name](n)[:MOST], 200)


@pytest.mark.slow
@pytest.mark.parametrize("extract", [main_content, structured_text])
def test_hostile_pages_stay_within_their_limits(extract):
    pages = {name: BEFORE + page for name, page in {**REFUSED, **BOMBS}.items()}
    run = run_bounded(lambda: {name: outcome(extract, page) for name, page in pages.items()}, cpu_seconds=100)
    assert {name for name, result in run.result.items() if isinstance(result, str)} == {*REFUSED}
    assert max(run.result[name] for name in BOMBS) < 4_000_000


def test_scripts_after_a_drawing_are_no_markup():
    script = "<script>x = '<p " + "a " * 600 + "><div><div><div><div>'</script>"
    drawing = (
        "<svg viewBox=x><title>t</title><g><path d=x></g><![CDATA[ <g> ]]><use/></svg><math><mi>x</mi></math>"
    )
    with replaced_limits(html_depth=6, html_tags=40):
        measure_page(f"<main>{drawing}{drawing}{script}<p>text")
        with pytest.raises(ValueError, match="deep"):
            measure_page(f"<main>{drawing}<svg>{script}<p>text")


def test_attributes_are_limited_by_their_cost():
    many = "<p " + "".join(f"a{i}=x " for i in range(4000)) + ">text"
    assert measure_page(many).html == many
    with pytest.raises(ValueError, match="attributes cost too much"):
        measure_page(many * 40)


def test_real_pages_are_accepted(shared):
    with (shared / "web/pages/pages.warc.gz").open("rb") as file:
        records = ArchiveIterator(file, record_types=WarcRecordType.response)
        pages = [decode_page(record.reader.read(), record.http_charset) for record in records]
    assert len(pages) > 300
    with replaced_limits(html_work=limits().html_work // 10, html_tags=limits().html_tags // 10):
        for page in pages:
            measure_page(page)


@pytest.mark.parametrize(
    "head",
    [
        "<!--",
        "<script>",
        "<meta ",
        "<meta charset=",
        "<meta content='charset= ",
        "<?xml encoding=",
        '<meta a="',
    ],
)
def test_time_to_find_an_encoding_grows_with_the_size(head):
    with replaced_limits(html_head=1 << 22):
        assert grows_linearly(
            lambda page: as_utf8(page, None), lambda n: head.encode() * min(n, 1 << 19) + b"charset", 500
        )


def many(tag, count):
    return "".join(f"<{tag} id={i}>" for i in range(count))


@pytest.mark.parametrize(
    "page",
    [
        f"<div>{many('font', 400)}</div>" + "<p>x</p>" * 20_000,
        f"<p>{many('b', 200)}" + "<p>word" * 30_000,
        f"<table>{many('u', 300)}" + "<tr><td>x" * 20_000,
        f"<p>{many('em', 400)}" + "x<hr>" * 20_000,
    ],
    ids=["closed by a block", "closed by the next paragraph", "in cells", "around rules"],
)
def test_reopened_formatting_is_counted(page):
    """The standard reopens unclosed formatting in each following block: 200 kB can become millions of elements."""
    with pytest.raises(ValueError, match="tags with the formatting that blocks open again"):
        main_content(page)


def test_closed_and_inline_formatting_is_not_counted_again():
    page = f"<p>{many('b', 300)}{'<i>word</i> ' * 20_000}{'</b>' * 300}</p>" + "<p>word</p>" * 2_000
    assert main_content(page).count("word") == 22_000
