"""The commands and environments of LaTeX, by what becomes of them in a text."""

import re

MATH = {
    "equation", "align", "gather", "multline", "eqnarray", "flalign", "alignat", "displaymath", "math", "dmath",
}  # fmt: skip
CODE = {"verbatim", "Verbatim", "lstlisting", "minted", "alltt"}
TABULARS = {"tabular", "tabularx", "tabulary", "longtable", "tabu"}
LISTS = {"itemize": "- ", "enumerate": "1. ", "description": "- ", "compactitem": "- ", "compactenum": "1. "}
DROPPED = {
    "tikzpicture",
    "thebibliography",
    "comment",
    "filecontents",
    "CCSXML",
    "keywords",
    "picture",
    "pspicture",
}
HEADINGS = {
    "title": "# ", "part": "# ", "chapter": "# ", "section": "## ", "subsection": "### ", "subsubsection": "#### ",
    "paragraph": "##### ", "subparagraph": "###### ",
}  # fmt: skip
# Commands whose arguments are no text: how many of them.
ARGUMENTS = {
    "label": 1, "ref": 1, "eqref": 1, "autoref": 1, "cref": 1, "Cref": 1, "pageref": 1, "nameref": 1,
    "bibliography": 1, "bibliographystyle": 1, "vspace": 1, "hspace": 1, "includegraphics": 1, "setlength": 2,
    "addtolength": 2, "setcounter": 2, "addtocounter": 2, "pagestyle": 1, "thispagestyle": 1, "usepackage": 1,
    "documentclass": 1, "input": 1,
    "include": 1, "graphicspath": 1, "color": 1, "textcolor": 1, "colorbox": 1, "definecolor": 3, "fontsize": 2,
    "selectfont": 0, "raisebox": 1, "resizebox": 2, "scalebox": 1, "multirow": 2, "rule": 2, "newtheorem": 2,
    "hypersetup": 1, "cline": 1, "cmidrule": 1, "rowcolor": 1, "cellcolor": 1, "phantom": 1, "vphantom": 1,
    "hphantom": 1, "index": 1, "glsresetall": 0, "newenvironment": 3, "renewenvironment": 3, "linespread": 1,
    "captionsetup": 1, "affiliation": 1, "email": 1, "institute": 1, "thanks": 1, "orcid": 1, "author": 1,
    "date": 1, "address": 1, "ccsdesc": 1, "href": 1, "multicolumn": 2, "parbox": 1, "begingroup": 0,
    "hyphenation": 1, "arrayrulecolor": 1, "pdfoutput": 0, "let": 0,
}  # fmt: skip
DEFINITIONS = {"newcommand", "renewcommand", "providecommand", "def", "gdef", "edef", "DeclareMathOperator"}
# Environments that begin with arguments that are no text: how many.
OF_ENVIRONMENTS = {
    "minipage": 1, "wrapfigure": 2, "wraptable": 2, "subfigure": 1, "subtable": 1, "multicols": 1, "adjustbox": 1,
    "spacing": 1, "adjustwidth": 2, "floatingfigure": 1, "threeparttable": 0, "list": 2, "minipage*": 1,
}  # fmt: skip
STATEMENTS = {
    "theorem", "lemma", "proposition", "corollary", "definition", "remark", "example", "proof", "claim",
    "conjecture",
}  # fmt: skip
CITES = re.compile(r"[a-zA-Z]*cite[a-zA-Z]*|nocite")
WORDS = {
    "ldots": "…", "dots": "…", "textendash": "–", "textemdash": "—", "textquoteright": "’", "textquoteleft":
    "‘", "textquotedblleft": "“", "textquotedblright": "”", "ss": "ß", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ",
    "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "S": "§", "P": "¶",
    "copyright": "©", "textregistered": "®", "texttrademark": "™", "pounds": "£", "euro": "€", "textbackslash":
    "\\", "textasciitilde": "~", "textasciicircum": "^", "textbar": "|", "textless": "<", "textgreater": ">",
    "LaTeX": "LaTeX", "TeX": "TeX", "quad": " ", "qquad": " ", "newline": "\n", "par": "\n\n", "linebreak":
    "\n", "slash": "/", "textdegree": "°", "textmu": "µ", "textunderscore": "_", "newblock": " ", "hfill": " ",
    "hskip": " ",
}  # fmt: skip
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
}  # fmt: skip
ACCENT_WORDS = {
    "c": "\u0327",
    "v": "\u030c",
    "u": "\u0306",
    "H": "\u030b",
    "k": "\u0328",
    "r": "\u030a",
    "d": "\u0323",
}
SYMBOLS = {"\\": "\n", ",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "!": "", "/": "", "-": "", "@": ""}
QUOTES = (("``", "“"), ("''", "”"), ("---", "—"), ("--", "–"))
