"""Pages are extracted as Markdown with their code, tables, formulas, headings and lists."""

import json
import subprocess
import sys

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from small_corpus import REPOSITORY

from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text

PROSE = "<p>Words that stand around what is tested, so that it is a page.</p>"
WORDS = "Words that stand around what is tested, so that it is a page."


def around(html):
    return f"<!doctype html><html><body><main>{PROSE}{html}</main></body></html>"


def written(html):
    text = structured_text(around(html))
    assert text.startswith(WORDS)
    return text.removeprefix(WORDS).strip("\n")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>Title <em>two</em></h2><p>one<p>two", "## Title two\n\none\n\ntwo"),
        ("<p>a &lt;b&gt; &amp;amp; &quot;c&quot;</p>", 'a <b> &amp; "c"'),
        ("<p>one<br>two</p>", "one\ntwo"),
        ("<p># of users<p>#tag<p>```<p>`", "\\# of users\n\n#tag\n\n\\```\n\n`"),
        ("<h2># of users</h2><p>a", "## # of users\n\na"),
        (
            "<p>10<sup>6</sup> km<sup>2</sup>, <i>x</i><sup class=a>&minus;1</sup>, (a)<sup> 2 </sup>",
            "10^6 km^2, x^−1, (a)^2",
        ),
        ("<p>1<sup>st</sup> page<sup>1</sup> of 2005<sup><a href=#a>3</a></sup>", "1st page1 of 20053"),
    ],
)
def test_headings_and_paragraphs(html, expected):
    assert written(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<ul><li>a<ol><li>b<li>c</ol><li>d</ul>", "- a\n  1. b\n  2. c\n- d"),
        ("<ol><li><p>a<p>b</ol>", "1. a\n\n   b"),
        ("<ul><li>a<pre>x\n  y</pre></ul>", "- a\n\n  ```\n  x\n    y\n  ```"),
        (
            "<ul><li>a<pre>x</pre><pre>y</pre><p>b</ul>",
            "- a\n\n  ```\n  x\n  ```\n\n  ```\n  y\n  ```\n\n  b",
        ),
        (
            "<pre>x</pre><dl><dt><b>a</b><span class=classifier>int</span><dd>b</dl>",
            "```\nx\n```\n\na : int\nb",
        ),
        ("<p>a</p><div class=navfooter><table><tr><th>Prev<th>Next<tr><td>b<td>c</table></div>", "a"),
    ],
)
def test_lists_nest_and_are_numbered(html, expected):
    assert written(html) == expected


def test_code_in_a_cell_is_separated_from_surrounding_words():
    text = written("<table><tr><th>k<th>v<tr><td>a<pre>x\ny</pre>b<td>c</table>")
    assert text == "| k | v |\n| --- | --- |\n| a<br>```<br>x<br>y<br>```<br>b | c |"


def test_lists_of_a_page_without_layout_are_kept():
    assert structured_text("<body><ul><li>a<li>b</ul><p>c") == "- a\n- b\n\nc"


CODE = "if x:\n    y = '<'\n\n\treturn"
ESCAPED = "if x:\n    y = '&lt;'\n\n\treturn"


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<pre>{}</pre>", ""),
        ('<pre><code class="language-python">{}</code></pre>', "python"),
        ('<pre class="lang-js"><code>{}</code></pre>', "javascript"),
        ('<pre class="brush: js; gutter: false">{}</pre>', "javascript"),
        ('<pre data-lang="rust">{}</pre>', "rust"),
        ('<pre class="sourceCode haskell"><code>{}</code></pre>', "haskell"),
        ('<pre><code class="hljs cpp">{}</code></pre>', "cpp"),
        (
            '<div class="highlight-python3 notranslate"><div class="highlight"><pre>{}</pre></div></div>',
            "python",
        ),
        ('<div class="highlight-default notranslate"><div class="highlight"><pre>{}</pre></div></div>', ""),
        ('<div class="highlight highlight-source-shell"><pre>{}</pre></div>', "shell"),
        (
            '<div class="language-ruby highlighter-rouge"><div class="highlight"><pre>{}</pre></div></div>',
            "ruby",
        ),
        ('<div class="mw-highlight mw-highlight-lang-lua"><pre>{}</pre></div>', "lua"),
    ],
)
def test_code_is_kept_with_its_language(html, language):
    assert written(html.format(ESCAPED)) == f"```{language}\n{CODE}\n```"


@pytest.mark.parametrize(
    "html",
    [
        '<pre><span class="linenos">1 </span>a\n<span class="linenos">2 </span>  b</pre>',
        '<table class="highlighttable"><tr><td class="linenos"><pre>1\n2</pre></td>'
        '<td class="code"><pre>a\n  b\n</pre></td></tr></table>',
        '<table class="lntable"><tr><td class="lntd"><pre><span class="lnt">1\n</span><span class="lnt">2\n</span>'
        '</pre></td><td class="lntd"><pre>a\n  b</pre></td></tr></table>',
        '<table><tr><td class="blob-num" data-line-number="1"></td><td class="blob-code">a</td></tr>'
        '<tr><td class="blob-num" data-line-number="2"></td><td class="blob-code">  b</td></tr></table>',
        '<pre><button class="copy">Copy</button>a<br>  b</pre>',
        '<pre><ol class="linenums"><li>a</li><li>  b</li></ol></pre>',
        "<pre><code><div>a</div><div>  b</div></code></pre>",
    ],
)
def test_line_numbers_and_buttons_of_highlighters_are_removed(html):
    assert written(html) == "```\na\n  b\n```"


def test_a_fence_is_longer_than_any_in_the_code():
    assert written("<pre>```\na\n```</pre>") == "````\n```\na\n```\n````"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>call <code>f(x)</code> now", "call `f(x)` now"),
        ("<p>a tick <code>a`b</code>", "a tick `` a`b ``"),
        ("<p>none <code></code> here", "none here"),
        ("<p><tt>a</tt> and <kbd>b</kbd>", "`a` and `b`"),
    ],
)
def test_inline_code_is_in_backticks(html, expected):
    assert written(html).replace("  ", " ") == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            "<table><caption>Of two<tr><th>a<th>b<tr><td>1 | 2<td><code>x</code></table>",
            "Of two\n\n| a | b |\n| --- | --- |\n| 1 \\| 2 | `x` |",
        ),
        ("<table><tr><td>a<td>b<tr><td>c<td><p>d<p>e</table>", "| a | b |\n| --- | --- |\n| c | d<br>e |"),
        (
            "<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>",
            "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n|  | 4 | 5 |",
        ),
        ("<table role=presentation><tr><td>left<td>right<tr><td>a<td>b</table>", "left\nright\na\nb"),
        ("<table><tr><td><p>all<td></table>", "all"),
        (
            "<table><tr><td>menu<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>",
            "menu\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        (
            "<table><tr><th>a<th>b<tr><td>x<td><math alttext='x|y'><mi>x</mi></math></table>",
            "| a | b |\n| --- | --- |\n| x | $x\\|y$ |",
        ),
    ],
)
def test_tables_are_kept_and_layout_tables_are_text(html, expected):
    assert written(html) == expected


SOURCE = '<annotation encoding="application/x-tex">\\frac{a}{b}</annotation>'
MATHML = f"<math><semantics><mfrac><mi>a</mi><mi>b</mi></mfrac>{SOURCE}</semantics></math>"
KATEX = f'<span class="katex"><span class="katex-mathml">{MATHML}</span><span class="katex-html" aria-hidden="true">ab</span></span>'


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (f"<p>is {MATHML}.", r"is $\frac{a}{b}$."),
        (f"<p>is {KATEX}.", r"is $\frac{a}{b}$."),
        (f'<p>is</p><span class="katex-display">{KATEX}</span>', "is\n\n$$\\frac{a}{b}$$"),
        ("<p>is <math alttext='x^2'><mi>x</mi></math>.", "is $x^2$."),
        ("<p>is <script type='math/tex'>a<b</script>.", "is $a<b$."),
        (
            "<p>is <span class=MathJax_Preview>a</span><span class=MathJax>a</span><script type='math/tex'>a</script>.",
            "is $a$.",
        ),
        ("<p>is</p><script type='math/tex; mode=display'>a</script>", "is\n\n$$a$$"),
        (
            "<p>is <mjx-container><mjx-math aria-hidden=true>?</mjx-math><mjx-assistive-mml>"
            "<math><msup><mi>x</mi><mn>2</mn></msup></math></mjx-assistive-mml></mjx-container>.",
            "is $x^{2}$.",
        ),
        (
            "<p>is <span class=mwe-math-element><span style='display:none'><math><mi>x</mi></math></span>"
            "<img class=mwe-math-fallback-image-inline aria-hidden=true alt='{\\displaystyle x}'></span>.",
            "is $x$.",
        ),
        ("<p>is <img class=mwe-math-fallback-image-inline alt='{\\displaystyle x_{1}}'>.", "is $x_{1}$."),
        ("<p>is</p><div class=math><img class=math src=x alt='a+b'></div>", "is\n\n$$a+b$$"),
        (r"<p>is \(a+b\) and \[c\].", r"is \(a+b\) and \[c\]."),
    ],
)
def test_formulas_become_latex_once(html, expected):
    assert " ".join(written(html).split(" ")).replace("  ", " ") == expected


@pytest.mark.parametrize(
    ("mathml", "latex"),
    [
        ("<mfrac><mn>1</mn><msqrt><mi>α</mi></msqrt></mfrac>", r"\frac{1}{\sqrt{\alpha}}"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", r"\sqrt[3]{x}"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x_{i}^{2}"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>0</mn></mrow><mi>n</mi></munderover><msub><mi>a</mi><mi>i</mi></msub>",
            r"\sum_{i = 0}^{n}a_{i}",
        ),
        ("<mi>sin</mi><mo>&#x2061;</mo><mi>x</mi>", r"\sin x"),
        ("<mover><mi>v</mi><mo>→</mo></mover>", r"\vec{v}"),
        ("<mi mathvariant='double-struck'>R</mi><mo>∈</mo><mi>ε</mi>", r"\mathbb{R} \in \varepsilon"),
        ("<mtext>if </mtext><mi>x</mi><mo>≤</mo><mn>1</mn>", r"\text{if }x \leq 1"),
        (
            "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd><mn>0</mn></mtd><mtd><mn>1</mn></mtd></mtr></mtable>",
            r"\begin{matrix} 1 & 0 \\ 0 & 1 \end{matrix}",
        ),
    ],
)
def test_mathml_without_a_source_is_converted(mathml, latex):
    assert written(f"<p>is <math>{mathml}</math>") == f"is ${latex}$"


def test_navigation_is_removed():
    page = around("<pre>x</pre>").replace("<main>", "<nav><ul><li><a href=/>Home</a></ul></nav><main>")
    page = page.replace("</main>", "</main><footer><p>Imprint, cookies</p></footer>")
    assert structured_text(page) == f"{WORDS}\n\n```\nx\n```"


def test_code_in_navigation_is_removed():
    page = around("<p>end").replace(
        "<main>", "<nav><p>see <pre>x</pre><table><tr><th>a<th>b<tr><td>c<td>d</table></nav><main>"
    )
    assert structured_text(page) == f"{WORDS}\n\nend"


def test_text_like_marks_is_kept_as_text():
    text = written("<p>\ufdd0o0;a\ufdd0c0; &#xFDD0;o0; &#64976;o0;<pre>x</pre>")
    assert text.count("```") == 2
    assert "\ufdd0" not in text
    assert "o0;a" in text


HOSTILE = {
    "divs": "<div>" * 200_000,
    "tables": "<table>" * 200_000,
    "cells": "<table><tr><td>" * 100_000,
    "math": "<math>" * 200_000,
    "roots": "<p>x<math>" + "<msqrt>" * 300 + "<mi>x</mi>",
    "bold": "".join(f"<p><b id={i}></p>" for i in range(50_000)),
    "attributes": "<p " + "".join(f"a{i} " for i in range(50_000)) + ">x",
    "bodies": "".join(f"<body a{i}=1>" for i in range(50_000)),
    "options": "<p>x<select>" + "<option>x" * 50_000,
    "hidden depth": "<div><object></div></object>" * 50_000,
    "self-closed": "<div/>" * 100_000,
    "in a drawing": "<svg><desc>" + "<foo/>" * 100_000,
    "entities": "&amp" * 500_000,
    "one attribute": "<p title='" + "x " * 1_000_000 + "'>x",
    "NUL": "\0" * 1_000_000,
    "odd characters": "\ufdd0\ufffe\U0010ffff\u202e" * 100_000,
    "script": "<script>" + "<" * 1_000_000,
    "comment": "<!--" + "-" * 1_000_000,
    "half a character": "<p>\ud800",
    "blocks": "<div class=highlight>" + "<pre>a</pre>" * 5000,
    "spans": "<table>" + "<tr><td colspan=1000 rowspan=65000>b<td>c" * 1000,
}
ALL = """
import json, sys, time
from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text
for name, page in json.load(open(sys.argv[1])).items():
    for extract in main_content, structured_text:
        start = time.process_time()
        try:
            said = str(len(extract(page)))
        except ValueError as error:
            said = f"ValueError: {error}"
        print(json.dumps([name, said, time.process_time() - start]))
"""


def test_hostile_pages_do_not_end_the_process(tmp_path):
    (tmp_path / "pages.json").write_text(json.dumps(HOSTILE))
    command = [sys.executable, "-c", ALL, str(tmp_path / "pages.json")]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    results = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(results) == 2 * len(HOSTILE)
    refused = {name for name, result, _ in results if result.startswith("ValueError")}
    assert refused == {"divs", "tables", "cells", "math", "bold", "attributes", "bodies", "hidden depth", "self-closed", "in a drawing"}  # fmt: skip


@pytest.mark.parametrize("extract", [main_content, structured_text])
@pytest.mark.parametrize(
    "page", ["", "x", "<", "<pre>", "<table>", "<math>", "</body>", "<body", "\0", "&#0;"]
)
def test_fragments_of_pages_are_extracted(extract, page):
    assert isinstance(extract(page), str)


def test_main_content_of_real_pages_is_as_good_as_resiliparse(shared):
    folder = shared / "web/pages"
    truth = {
        address.strip(): record for address, record in json.loads((folder / "truth.json").read_text()).items()
    }
    scores = dict.fromkeys([main_content, structured_text], 0.0)
    with (folder / "pages.warc.gz").open("rb") as file:
        records = ArchiveIterator(file, record_types=WarcRecordType.response)
        pages = [(record.headers["WARC-Target-URI"], record.reader.read()) for record in records][::5]
    for extract in scores:
        right = wrong = missed = 0
        for address, content in pages:
            text = extract(bytes_to_str(content, detect_encoding(content)))
            right += sum(string in text for string in truth[address]["with"])
            missed += sum(string not in text for string in truth[address]["with"])
            wrong += sum(string in text for string in truth[address]["without"])
        scores[extract] = 2 * right / (2 * right + wrong + missed)
    assert len(pages) >= 60
    assert scores[main_content] > 0.8
    assert scores[structured_text] >= scores[main_content]
