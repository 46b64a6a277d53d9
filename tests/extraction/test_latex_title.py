"""The title of an e-print, which most authors give before the document begins."""

import pytest

from tasks.extraction.latex import text_of_latex

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
