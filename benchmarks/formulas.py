"""Measure how extractors write formulas that KaTeX rendered, in three forms, as LaTeX.

The formulas are those of the pages in FOLDER, as for `benchmarks.structure`. KATEX is KaTeX's unpacked npm
package; node runs it. If a rendered formula has no LaTeX source in it, an answer is right if KaTeX makes the same
MathML of it.
"""

import html
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import InputFolder, Table, benchmark, run_tool
from benchmarks.structure import FORMULA, extractors, read_pages

FORMULAS = 1000  # at most
RENDER = """
const katex = require(process.argv[1] + '/dist/katex.js');
const out = [];
for (const [tex, display] of JSON.parse(require('fs').readFileSync('formulas.json', 'utf8'))) {
  try {
    out.push(['htmlAndMathml', 'mathml'].map(output =>
      katex.renderToString(tex, {output, displayMode: display, throwOnError: true, strict: false})));
  } catch (error) { out.push(null); }
}
console.log(JSON.stringify(out));
"""


def render(formulas: list[tuple[str, bool]], katex: Path) -> list[list[str] | None]:
    """Return each formula as KaTeX's HTML and as MathML, or None if KaTeX cannot parse it."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "formulas.json").write_text(json.dumps(formulas))
        return json.loads(run_tool(["node", "-e", RENDER, katex.resolve()], Path(scratch)))


def latex_in(extract: Any, formula: str) -> str:
    """Return the LaTeX that an extractor writes for a formula in a sentence."""
    text = extract(
        f"<body><main><p>We know of {formula} that it holds for all of these numbers.</p></main></body>"
    )
    match = re.search(r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$", text, re.DOTALL)
    return (match[1] or match[2]).strip() if match else ""


def without_source(mathml: str) -> str:
    return re.sub(r"<annotation.*?</annotation>", "", mathml, flags=re.DOTALL)


def normal_form(mathml: str) -> str:
    """Return MathML without attributes and without elements that only group."""
    bare = re.sub(r"<(/?\w+)[^>]*>", r"<\1>", without_source(mathml))
    return re.sub(r"</?(?:mrow|mstyle|mpadded|semantics|math|span)>", "", bare)


def formulas_of(pages: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield (LaTeX, whether it is displayed)."""
    for page in pages:
        if 'class="math' in page:
            yield from ((html.unescape(a or b), bool(b)) for a, b in FORMULA.findall(page))


def without_spaces(tex: str) -> str:
    return "".join(tex.split())


@benchmark("formulas", as_worker=False)
def measure(folder: InputFolder, katex: InputFolder) -> Iterator[Table]:
    formulas = [*formulas_of(read_pages(folder))][:FORMULAS]
    known = [(*pair, forms) for pair, forms in zip(formulas, render(formulas, katex), strict=True) if forms]
    rows = []
    for name, extractor in extractors().items():
        right = [0, 0, 0]
        answers = list[tuple[str, bool]]()
        for tex, display, (both, mathml) in known:
            for form, source in enumerate((both, mathml)):
                right[form] += without_spaces(tex) == without_spaces(latex_in(extractor.extract, source))
            answers.append((latex_in(extractor.extract, without_source(mathml)) or "?", display))
        for (_, _, (_, mathml)), again in zip(known, render(answers, katex), strict=True):
            right[2] += bool(again) and normal_form(again[1]) == normal_form(mathml)
        forms = (f"KaTeX's HTML, {len(known):,}", "MathML with source", "MathML without source")
        shares = (f"{count / max(1, len(known)):.3f}" for count in right)
        rows.append({"extractor": name, **dict(zip(forms, shares, strict=True))})
    yield Table("Formulas", rows)


if __name__ == "__main__":
    measure.main()
