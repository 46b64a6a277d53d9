"""LaTeX and e-prints take time in proportion to their size."""

from contextlib import suppress

import pytest
from growth import grows_linearly

from zyda_flows.tasks.extraction.eprints import NoLatex, latex_of
from zyda_flows.tasks.extraction.latex import text_of_latex

DOUBLES = r"\def\aa{b}\def\ab{\aa\aa}"
WORST = {
    "title and spaces": lambda n: "\\title" + " " * n + "\\begin{document}a",
    "titles without end": lambda n: "\\title[" * n + "\\begin{document}a",
    "newcommand and spaces": lambda n: "\\newcommand" + " " * n,
    "newcommands without names": lambda n: "\\newcommand{ " * n,
    "newcommands without end": lambda n: "\\newcommand{\\a}{" * n,
    "macros times commands": lambda n: "".join(f"\\def\\{letters(i)}{{b}}" for i in range(n)) + "\\zz" * n,
    "macros of one prefix": lambda n: "\\def\\a{b}" + "\\a" * n,
    "definitions without body": lambda n: "\\def\\a" * n,
    "definitions with delimiters": lambda n: "\\def\\a#1;{x}" + "\\a b" * n,
    "optional arguments": lambda n: "\\newcommand{\\a}[1][x]{#1}" + "\\a[" * n,
    "arguments": lambda n: "\\newcommand{\\a}[1]{#1}" + "\\a{" * n,
    "nested arguments": lambda n: "\\newcommand{\\a}[1]{#1}" + "\\a{" * n + "}" * n,
    "doubled macros": lambda n: DOUBLES + "\\ab " * n,
    "empty macros": lambda n: "\\def\\a{}" + "\\a" * n,
    "conditions without end": lambda n: "\\iffalse " * n,
    "ends without conditions": lambda n: "\\fi\\else " * n,
    "conditions": lambda n: "\\if 0 a\\fi " * n,
    "nested conditions": lambda n: "\\iftrue " * n + "\\fi " * n,
    "conditions of macros": lambda n: "\\def\\a{\\iffalse b\\else c\\fi}" + "\\a" * n,
    "cases": lambda n: "\\ifcase 3 " + "\\or a" * n + "\\fi",
    "comparisons": lambda n: "\\ifnum" + "1" * n + "\\fi",
    "row ends": lambda n: "\\begin{tabular}{l}" + "\\\\[" * n + "\\end{tabular}",
    "line ends": lambda n: "\\\\[" * n,
    "cells": lambda n: "\\begin{tabular}{l}" + "a&" * n + "\\end{tabular}",
    "rules": lambda n: "\\begin{tabular}{l}" + "\\cline(" * n + "\\cmidrule[" * n + "\\end{tabular}",
    "spans": lambda n: "\\begin{tabular}{l}" + "\\multicolumn{" * n + "\\end{tabular}",
    "tables in cells": lambda n: "\\begin{tabular}{l}" + "\\begin{tabular}{l} a & b \\end{tabular} &" * n + "\\end{tabular}",
    "tables without end": lambda n: "\\begin{tabular}{l}" * n,
    "captions in tables": lambda n: "\\begin{longtable}{l}" + "\\caption{a" * n + "\\end{longtable}",
    "deluxe tables": lambda n: "\\begin{deluxetable}{l}" + "\\startdata \\tablehead" * n + "\\end{deluxetable}",
    "heads of tables": lambda n: "\\begin{longtable}{l}" + "a \\endhead b \\endfirsthead" * n + "\\end{longtable}",
    "lists": lambda n: "\\begin{itemize}" + "\\item a" * n + "\\end{itemize}",
    "lists without end": lambda n: "\\begin{itemize}\\item " * n,
    "equations": lambda n: "\\begin{equation}a\\end{equation}" * n,
    "equations without end": lambda n: "\\begin{equation}" * n,
    "stars": lambda n: "\\begin{equation" + "*" * n + "}",
    "environments": lambda n: "\\begin{a" * n,
    "environments of the author": lambda n: "\\newenvironment{a}{b}{c}" + "\\begin{a}d\\end{a}" * n,
    "formulas": lambda n: "$a$ " * n,
    "dollars": lambda n: "$" * n,
    "escaped dollars": lambda n: "$" + "\\$" * n,
    "paragraphs in formulas": lambda n: "$a\n\n" * n,
    "brackets of formulas": lambda n: "\\[" * n + "\\(" * n,
    "ensured formulas": lambda n: "$" + "\\ensuremath{" * n + "$" + "\\ensuremath{" + "{a}" * n,
    "tabbing": lambda n: "\\begin{tabbing}" + "a \\kill\n" * n + "a" * n + "\\end{tabbing}",
    "labels": lambda n: "$" + "\\label{" * n + "$",
    "inline code": lambda n: "\\verb|" * n,
    "inline code with many marks": lambda n: "".join(f"\\verb{chr(0x4E00 + i % 20000)}" for i in range(n)),
    "code": lambda n: "\\begin{verbatim}" * n,
    "code of many kinds": lambda n: "\\begin{verbatim}\\begin{lstlisting}\\begin{comment}" * n,
    "options of code": lambda n: "\\begin{lstlisting}[" + "language=" * n + "\n\\end{lstlisting}",
    "braces in options of code": lambda n: "\\begin{lstlisting}[" + "{" * n + "\n\\end{lstlisting}",
    "spaces in code": lambda n: "\\begin{verbatim}" + "a" + " " * n + "b\\end{verbatim}",
    "addresses": lambda n: "\\url{" * n,
    "comments": lambda n: "%" * n + "\n",
    "comment lines": lambda n: "a %\n % \n" * n,
    "spaces": lambda n: " " * n + "a",
    "spaces and line ends": lambda n: "a" + " \n" * n + "b",
    "tabs": lambda n: "a\n" + "\t" * n + "b",
    "accents": lambda n: "\\'" * n,
    "accents and spaces": lambda n: "\\'" + " " * n + "{" * n,
    "nested accents": lambda n: "\\'{" * n,
    "braces": lambda n: "{" * n,
    "emphasis without end": lambda n: "\\emph{" * n,
    "headings without end": lambda n: "\\section{" * n,
    "headings": lambda n: "\\section{a}" * n,
    "options": lambda n: "\\a[" * n,
    "many options": lambda n: "\\a" + "[b]" * n,
    "options of items": lambda n: "\\item[" * n,
    "citations": lambda n: "(\\cite{a}" * n,
    "references in brackets": lambda n: "(" + "\\ref{a}, " * n,
    "quantities": lambda n: "\\SI{" * n,
    "a long quantity": lambda n: "\\SI{" + "1 " * n + "}{" + "\\kilo" * n + "}",
    "lists of quantities": lambda n: "\\SIlist{1;2}{\\m}" * n,
    "theorems": lambda n: "\\newtheorem{a}{b}" * n + "\\begin{a}[c]d\\end{a}" * n,
    "theorems without end": lambda n: "\\newtheorem{" * n,
    "algorithms": lambda n: "\\begin{algorithmic}" + "\\If{" * n + "\\end{algorithmic}",
    "algorithms with blocks": lambda n: "\\begin{algorithm}" + "\\If{a}{b}\\;" * n + "\\end{algorithm}",
    "nested blocks": lambda n: "\\begin{algorithm}" + "\\If{a}{" * n + "}" * n + "\\end{algorithm}",
    "lengths": lambda n: "\\vskip" + " " * n + "\\vskip 1" * n,
    "aliases": lambda n: "\\let\\a\\b\\let\\b\\a" * n,
    "shorthands": lambda n: "\\usepackage[german]{babel}\\begin{document}" + '"' * n,
    "languages": lambda n: "\\usepackage[" * n + "\\begin{document}a",
    "abstracts": lambda n: "\\begin{abstract}" * n + "\\begin{document}a",
    "names of commands": lambda n: "\\csname " * n,
    "titles of theorems": lambda n: "\\declaretheorem[" + "name" * n + "]{a}",
    "wide tables": lambda n: "\\begin{tabular}{" + ">{" * n + "\\end{tabular}",
}  # fmt: skip


def letters(number):
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def converted(latex):
    """Extract a text; refusing it is an answer, too."""
    with suppress(ValueError):
        text_of_latex(latex)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORST)
def test_latex_takes_time_in_proportion(kind):
    assert grows_linearly(converted, WORST[kind], 2_000)


HEAD = b"\\documentclass{a}\\begin{document}"
WORST_FILES = {
    "inline code": lambda n: b"\\verb|" * n,
    "inputs": lambda n: b"\\input{" * n,
    "missing inputs": lambda n: b"\\input{a}" * n,
    "inputs and spaces": lambda n: b"\\input" + b" " * n,
    "imports": lambda n: b"\\import{a" * n + b"\\subimport{a}{" * n,
    "addresses": lambda n: b"\\url{" * n,
    "code": lambda n: b"\\begin{verbatim}\\begin{lstlisting}" * n,
    "comments": lambda n: b"%\n" * n,
    "encodings": lambda n: b"\\inputencoding{latin1}\xe4" * n,
    "CJK": lambda n: b"\\begin{CJK}[" * n + b"\xe4",
    "packages": lambda n: b"\\usepackage[a" * n + b"\\usepackage[a]{b" * n,
    "ends": lambda n: b"\\end{document}\\begin{document}" * n,
    "high bytes": lambda n: b"\xe4" * n,
}


@pytest.mark.parametrize("kind", WORST_FILES)
def test_eprints_take_time_in_proportion(kind):
    assert grows_linearly(latex_of, lambda n: {"main.tex": HEAD + WORST_FILES[kind](n)}, 2_000)


@pytest.mark.parametrize(
    "form", [lambda n: b"\n" * n, lambda n: b"<!--" * n, lambda n: b"%" * n, lambda n: b"PK\3\4" * n]
)
def test_kinds_of_files_are_found_in_proportion(form):
    def kinds_of(files):
        with pytest.raises(NoLatex):
            latex_of(files)

    assert grows_linearly(kinds_of, lambda n: {"a": form(n), "00README.XXX": b" a" * 9_000}, 200_000)


def test_many_files_take_time_in_proportion():
    def files(n):
        return {"main.tex": HEAD + b"\\input{b}" * 900, "b.tex": b"c"} | {f"{i}.tex": b"a" for i in range(n)}

    assert grows_linearly(latex_of, files, 500)
