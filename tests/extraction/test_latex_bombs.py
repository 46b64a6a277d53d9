"""LaTeX that grows without a bound is rejected with little memory and time."""

import pytest
from bombs import run_bounded

from zyda_flows.tasks.extraction.latex import text_of_latex
from zyda_flows.tasks.limits import replaced_limits

LAUGHS = r"\def\a{lol}" + "".join(
    rf"\def\{b}{{\{a}\{a}\{a}\{a}}}" for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
)
TOO_DEEP, NO_END, MACROS, CELLS = (
    "nested (too deep|deeper)",
    "do not close",
    "macros add more",
    "tables have more",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latex", "reason"),
    [
        (LAUGHS + r"\l", MACROS),
        (r"\newcommand{\a}[1]{#1#1}" + r"\a{" * 30 + "x" + "}" * 30, f"{MACROS}|{TOO_DEEP}"),
        (r"\newcommand{\a}[1]{\b{#1 #1}}\newcommand{\b}[1]{\a{#1 #1}}\a{x}", NO_END),
        (r"\def\a{\b}\def\b{\a}\a", TOO_DEEP),
        (r"\newenvironment{a}{\begin{b}}{}\newenvironment{b}{\begin{a}}{}\begin{a}", TOO_DEEP),
        (r"\def\a#1{\b#1}\def\b#1{\a#1}\a x", TOO_DEEP),
        (r"\def\x{\csname x\endcsname}\x", TOO_DEEP),
        (r"\def\a{}" + r"\a" * 300_000, MACROS),
        (r"\begin{tabular}{l}\multicolumn{1000000}{c}{a} \\ b\end{tabular}" * 3, CELLS),
        (r"\begin{tabular}{l}\multicolumn{999999999}{c}{a}\end{tabular}", CELLS),
        (r"\begin{tabular}{l}" + "a&" * 10_000 + r"\\" + r"a\\" * 7_000 + r"\end{tabular}", CELLS),
        (r"\begin{tabular}{l}" + "&" * 2_000_000 + r"\end{tabular}", CELLS),
        (r"\begin{tabular}{l}" * 30_000, f"{NO_END}|{TOO_DEEP}"),
        (r"\begin{itemize}\item " * 30_000, f"{NO_END}|{TOO_DEEP}"),
        (r"\begin{algorithm}" + r"\If{a}{" * 50_000 + "}" * 50_000 + r"\end{algorithm}", NO_END),
        (r"\footnote{" * 5_000 + "}" * 5_000, f"{NO_END}|{TOO_DEEP}"),
    ],
    ids=range(16),
)  # fmt: skip
def test_growing_latex_is_rejected(latex, reason):
    def refused():
        with pytest.raises(ValueError, match=reason):
            text_of_latex(latex)

    assert run_bounded(refused, cpu_seconds=20, resident=1 << 30).cpu_seconds < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "latex",
    [
        "{" * 1_000_000, "}" * 1_000_000, r"\begin{a}" * 50_000 + r"\end{a}" * 50_000, r"\item " * 50_000,
        "$a$" * 50_000, r"\begin{equation}a\end{equation}" * 30_000, r"\par" * 50_000, r"\iftrue " * 50_000,
        r"\verb|a|" * 30_000, r"\cite{a}" * 50_000, r"\begin{tabular}{l}a&b\end{tabular}" * 10_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_many_elements_are_extracted(latex):
    run = run_bounded(lambda: len(text_of_latex(latex)), cpu_seconds=60, resident=1 << 30)
    assert run.result <= 30 * len(latex)


def test_limits_of_latex_are_read_from_the_record():
    with (
        replaced_limits(latex_cells=10),
        pytest.raises(ValueError, match="tables have more than 10 cells"),
    ):
        text_of_latex(r"\begin{tabular}{ll}a & b\\" + r"a & b\\" * 3 + r"\end{tabular}")
    with replaced_limits(latex_macro_characters=20), pytest.raises(ValueError, match="add more than 20"):
        text_of_latex(r"\def\a{b}\a\a")
    with replaced_limits(latex_depth=5), pytest.raises(ValueError, match="deeper than 5"):
        text_of_latex(r"\footnote{" * 10 + "}" * 10)
