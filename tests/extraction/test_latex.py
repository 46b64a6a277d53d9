"""LaTeX of an e-print as Markdown."""

import pytest

from zyda_flows.tasks.extraction.eprints import latex_of
from zyda_flows.tasks.extraction.latex import text_of_latex

BODY = r"\begin{document}\maketitle Words of it.\end{document}"


@pytest.mark.parametrize(
    ("preamble", "heading"),
    [
        (r"\documentclass{article}\title{A {\em new} way\thanks{of mine}}" + "\n", "# A new way"),
        ("% \\title{not this}\n\\title[short]{But\nthis}\n", "# But this"),
        ("\\title{It has no end\n", None), ("", None), ("\\titleformat{x}\n", None),
    ],
)  # fmt: skip
def test_title_of_the_preamble_is_the_first_heading(preamble, heading):
    assert text_of_latex(preamble + BODY) == (f"{heading}\n\n" if heading else "") + "Words of it.\n"


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\section{One}\label{a} \subsection*{Two} Words", "## One\n\n### Two\n\nWords"),
        (r"\emph{a} \textbf{more} of~it --- 50\% of ``it'', \'etudes", "a more of it — 50% of “it”, études"),
        ("a % a comment\n  b\\% c", "a b% c"), ("a %b\n% c\n \n d %e\n\nf", "a\n\nd\n\nf"),
        ("a \\emph{ b } {} c  d", "a b c d"),
        (r"seen \cite{x} by \citet[p.~3]{y}, in Figure~\ref{f}.", "seen by, in Figure."),
        (r"seen (\citealp{x}, \cite{y}) in [\ref{a}; \ref{b}] and~\cite{x} , too", "seen in and, too"),
        (r"a \citep[see][]{x}, \citep[see][p.~3]{y} b", "a, b"),
        ("\\begin{itemize}\\item Code:\n\\begin{verbatim}\na:\n  b\n\n  c\n\\end{verbatim}\n\\item d\\end{itemize}",
         "- Code:\n\n  ```\n  a:\n    b\n\n    c\n  ```\n- d"),
        (r"We have \begin{inparaenum}[(a)]\item one, \item two\end{inparaenum}", "We have\n\n- one,\n- two"),
        (r"\lstinline{int x}, \lstinline[language=C]|a|, \mintinline{python}{f(x)} b", "`int x`, `a`, `f(x)` b"),
        (r"a \begin{minipage}{0.4\linewidth}b\end{minipage} c", "a\n\nb\n\nc"),
        ("\\begin{figure}[t]\\caption{A.}\\end{figure}\nb \\begin{proof}[of 1] $x$.\\end{proof}c", "A.\n\nb\n\nProof (of 1). $x$.\n\nc"),
        (r"\newcommand\eg{e.g.}\def\yy#1{Y#1}\newcommand{\z}[2][x]{#1} Text \eg", "Text e.g."),
        ("It costs $5.\n\nThen $x$ and \\iffalse no \\fi $a + % no\n b$", "It costs $5.\n\nThen $x$ and $a + b$"),
        (r"see \href{x}{it} now \label{y} and \textcolor{red}{this}", "see it now and this"),
        ("\\cite{x} said\n\n\\begin{verbatim}\n```a\n\\end{verbatim}", "said\n\n````\n```a\n````"),
        (r"\begin{itemize}\item a\item b\end{itemize}", "- a\n- b"),
        (r"\begin{enumerate}\item a\item b\end{enumerate}", "1. a\n1. b"),
        (r"$x\in A$ and \[ a = b \]", "$x\\in A$ and\n\n$$\na = b\n$$"),
        (r"\begin{tabular}{l|r}\hline a & b \\ 1 & 2 | 3 \\ \end{tabular}",
         "| a | b |\n| --- | --- |\n| 1 | 2 \\| 3 |"),
        (r"\begin{tabular}{lll}\multicolumn{2}{c}{a} & b \\ \cmidrule(lr){1-2} c & d & e\end{tabular}",
         "| a |  | b |\n| --- | --- | --- |\n| c | d | e |"),
        (r"\begin{tabular}{ll}M & \begin{tabular}[c]{@{}l@{}}Top 1\\ acc\end{tabular} \\ A & 3\end{tabular}",
         "| M | Top 1 acc |\n| --- | --- |\n| A | 3 |"),
        (r"\begin{tabular*}[t]{5cm}{l @{} r}a & b \\ \cline{1-2} \end{tabular*}", "| a | b |\n| --- | --- |"),
        ("\\begin{verbatim}\ndef f(x):\n    return x % 2\n\\end{verbatim}",
         "```\ndef f(x):\n    return x % 2\n```"),
        ("\\begin{verbatim}\na:\n\n    b\n\\end{verbatim}", "```\na:\n\n    b\n```"),
        (r"\newcommand{\R}{\mathbb{R}}\newcommand{\us}{Zyda}\us has $\R$", "Zyda has $\\mathbb{R}$"),
        (r"a\begin{thebibliography}{9}\bibitem{x} Gone.\end{thebibliography}", "a"),
        ("}a{", "a"), ("$a", "$a"), (r"\begin{itemize}\item a", "- a"), ("", ""), ("%", ""),
    ],
)  # fmt: skip
def test_latex_is_markdown(latex, text):
    assert text_of_latex(latex).rstrip() == text


def test_circular_macros_raise():
    with pytest.raises(ValueError, match="nested deeper than 200"):
        text_of_latex(r"\newcommand{\a}{\b}\newcommand{\b}{\a}\a")


def test_unclosed_braces_and_lists_are_fast():
    assert text_of_latex(r"\emph{" * 100_000 + "a") == "a\n"
    with pytest.raises((ValueError, RecursionError)):
        text_of_latex(r"\begin{itemize}\item " * 10_000)
    assert text_of_latex(r"\iffalse " * 100_000 + "a") == "a\n"
    cells = r"\begin{tabular}{l}" * 300
    with pytest.raises((ValueError, RecursionError)):
        text_of_latex(r"\begin{tabular}{l} a & " + cells)


INPUT = {"b.tex": b"INPUTTED"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r"a % \input{b}" + "\nb \\input{b}", "a %\nb INPUTTED"),
        (r"\url{http://a/b%20c} \verb|50% off| 10\% \\% no", r"\url{http://a/b%20c} \verb|50% off| 10\% \\%"),
        ("\\begin{verbatim}\n10 % 3 \\input{b}\n\\end{verbatim} % no", "\\begin{verbatim}\n10 % 3 \\input{b}\n\\end{verbatim} %"),
        (r"% \begin{verbatim}" + "\n\\input b", "%\nINPUTTED"),
        (r"\def\bv{\begin{verbatim}}\input{b}", r"\def\bv{\begin{verbatim}}INPUTTED"),
        ("a\r\n\r\nb", "a\n\nb"),
    ],
)  # fmt: skip
def test_comments_and_inputs_in_code_are_ignored(body, expected):
    head = "\\documentclass{a}\n\\begin{document}\n"
    latex, main = latex_of({"main.tex": (head + body).encode(), **INPUT})
    assert (latex, main) == (head + expected, "main.tex")
