"""Formulas as KaTeX writes them, in three forms, and what extractors make of them: LaTeX, by itself or by KaTeX.

python -m benchmarks.structure FOLDER KATEX

KATEX is its npm package unpacked; node runs it. The formulas are those of the pages of FOLDER. Without the source
in a formula, LaTeX counts as right where KaTeX makes the same MathML of it.
"""

import html
import json
import re
import subprocess
from pathlib import Path

from benchmarks.structure import IN_PROSE, extractors

FORMULAS = 1000  # at the most
RENDER = """
const katex = require(process.argv[1] + '/dist/katex.js');
const out = [];
for (const [tex, display] of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
  try {
    out.push(['htmlAndMathml', 'mathml'].map(output =>
      katex.renderToString(tex, {output, displayMode: display, throwOnError: true, strict: false})));
  } catch (error) { out.push(null); }
}
console.log(JSON.stringify(out));
"""


def rendered(formulas: list[tuple[str, bool]], katex: Path) -> list[list[str] | None]:
    """Return each formula as KaTeX's HTML and as MathML, or None where KaTeX doesn't know it."""
    command = ["node", "-e", RENDER, str(katex.resolve())]
    said = subprocess.run(
        command, input=json.dumps(formulas), capture_output=True, text=True, check=True
    ).stdout
    return json.loads(said)


def page_with(formula: str) -> str:
    return f"<body><main><p>Let it be said of {formula} that it holds for all of these numbers.</p></main></body>"


def latex_in(text: str) -> str:
    match = re.search(r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$", text, re.DOTALL)
    return (match[1] or match[2]).strip() if match else ""


def bare(mathml: str) -> str:
    """Return MathML without its source."""
    return re.sub(r"<annotation.*?</annotation>", "", mathml, flags=re.DOTALL)


def same_form(mathml: str) -> str:
    """Return MathML by which formulas are compared: without attributes and without what groups only."""
    return re.sub(
        r"</?(?:mrow|mstyle|mpadded|semantics|math|span)>",
        "",
        re.sub(r"<(/?\w+)[^>]*>", r"<\1>", bare(mathml)),
    )


def by_katex(pages: list[str], katex: Path) -> list[dict[str, str | float]]:
    found = [
        (html.unescape(a or b), bool(b))
        for page in pages
        if 'class="math' in page
        for a, b in IN_PROSE.findall(page)
    ][:FORMULAS]
    known = [
        (tex, both, display)
        for (tex, display), both in zip(found, rendered(found, katex), strict=True)
        if both
    ]
    rows = list[dict[str, str | float]]()
    for name, one in extractors().items():
        texts = [[one.extract(page_with(form)) for form in (*both, bare(both[1]))] for _, both, _ in known]
        sources = [
            sum(
                squeezed(tex) == squeezed(latex_in(text[k]))
                for (tex, _, _), text in zip(known, texts, strict=True)
            )
            for k in (0, 1)
        ]
        again = rendered(
            [(latex_in(text[2]) or "?", display) for (_, _, display), text in zip(known, texts, strict=True)],
            katex,
        )
        back = sum(
            bool(new) and same_form(new[1]) == same_form(both[1])
            for (_, both, _), new in zip(known, again, strict=True)
        )
        shares = [f"{count / max(1, len(known)):.3f}" for count in (*sources, back)]
        rows.append(
            {
                "extractor": name,
                f"KaTeX's HTML, {len(known):,}": shares[0],
                "MathML with source": shares[1],
                "MathML without": shares[2],
            }
        )
    return rows


def squeezed(tex: str) -> str:
    return "".join(tex.split())
