# ruff: noqa: SIM905
"""Tables of the commands and environments of LaTeX, by the way in which they become text."""

MATH = {
    "equation", "align", "gather", "multline", "eqnarray", "flalign", "alignat", "displaymath", "math",
    "dmath",
    "IEEEeqnarray", "xalignat", "xxalignat", "dgroup", "empheq", "subeqnarray",
}  # fmt: skip
CODE = {
    "verbatim", "verbatim*", "Verbatim", "Verbatim*", "BVerbatim", "LVerbatim", "lstlisting", "minted",
    "alltt",
}  # fmt: skip
TABULARS = {
    "tabular", "tabularx", "tabulary", "longtable", "tabu", "longtabu", "supertabular", "xtabular",
    "mpsupertabular",
    "deluxetable", "tblr", "longtblr", "ltablex", "xltabular", "NiceTabular",
}  # fmt: skip
LISTS = {
    "itemize": "- ", "enumerate": "1. ", "description": "- ", "compactitem": "- ", "compactenum": "1. ",
    "asparaenum": "1. ", "asparaitem": "- ", "inparaitem*": "- ", "tablenotes": "- ", "compactdesc": "- ",
    "dinglist": "- ",
}  # fmt: skip
DROPPED = {
    "tikzpicture", "thebibliography", "comment", "filecontents", "CCSXML", "keywords", "picture", "pspicture",
    "references", "biblist", "pgfpicture", "asy", "luacode", "tikzcd", "feynman", "fmffile",
    "IEEEkeywords",
}  # fmt: skip
HEADINGS = {
    "title": "# ", "part": "# ", "chapter": "# ", "section": "## ", "subsection": "### ",
    "subsubsection": "#### ",
    "paragraph": "##### ", "subparagraph": "###### ",
}  # fmt: skip
# Commands whose arguments are not text, and the number of the arguments.
ARGUMENTS = {
    "label": 1, "ref": 1, "eqref": 1, "autoref": 1, "cref": 1, "Cref": 1, "pageref": 1, "nameref": 1,
    "bibliography": 1, "bibliographystyle": 1, "vspace": 1, "hspace": 1, "includegraphics": 1, "setlength": 2,
    "addtolength": 2, "setcounter": 2, "addtocounter": 2, "pagestyle": 1, "thispagestyle": 1, "usepackage": 1,
    "documentclass": 1, "input": 1,
    "include": 1, "graphicspath": 1, "color": 1, "textcolor": 1, "colorbox": 1, "definecolor": 3,
    "fontsize": 2,
    "selectfont": 0, "raisebox": 1, "resizebox": 2, "scalebox": 1, "multirow": 2, "rule": 2, "newtheorem": 2,
    "hypersetup": 1, "cline": 1, "cmidrule": 1, "rowcolor": 1, "cellcolor": 1, "phantom": 1, "vphantom": 1,
    "hphantom": 1, "index": 1, "glsresetall": 0, "newenvironment": 3, "renewenvironment": 3, "linespread": 1,
    "captionsetup": 1, "affiliation": 1, "email": 1, "institute": 1, "thanks": 1, "orcid": 1, "author": 1,
    "date": 1, "address": 1, "ccsdesc": 1, "href": 1, "multicolumn": 2, "parbox": 1, "begingroup": 0,
    "hyphenation": 1, "arrayrulecolor": 1, "pdfoutput": 0, "labelcref": 1, "vref": 1, "subref": 1,
    "Autoref": 1,
    "crefrange": 2, "Crefrange": 2, "addbibresource": 1, "printbibliography": 0, "rotatebox": 1,
    "lstinputlisting": 1, "verbatiminput": 1, "inputminted": 2, "lstset": 1, "sisetup": 1, "tikzset": 1,
    "pgfplotsset": 1, "theoremstyle": 1, "numberwithin": 2, "allowdisplaybreaks": 0, "hypertarget": 1,
    "hyperlink": 1, "hyperref": 0, "addcontentsline": 3, "markboth": 2, "markright": 1, "setlist": 1,
    "titlerunning": 1, "authorrunning": 1, "inst": 1, "offprints": 1, "received": 1, "accepted": 1,
    "affil": 1, "affiliations": 1, "altaffiliation": 1, "altaffiltext": 2, "altaffilmark": 1,
    "correspondingauthor": 1,
    "collaboration": 1, "homepage": 1, "preprint": 1, "pacs": 1, "shorttitle": 1, "shortauthors": 1,
    "fntext": 1,
    "cortext": 1, "corref": 1, "fnref": 1, "ead": 1, "IEEEauthorblockN": 1, "IEEEauthorblockA": 1,
    "IEEEmembership": 1, "IEEEcompsocitemizethanks": 1, "IEEEoverridecommandlockouts": 0, "orcidID": 1,
    "eid": 1,
    "journal": 1, "jmlrheading": 6, "icmlauthor": 2, "icmlaffiliation": 2, "icmlcorrespondingauthor": 2,
    "icmlkeywords": 1, "acmConference": 3, "acmDOI": 1, "acmISBN": 1, "acmYear": 1, "acmJournal": 1,
    "setcopyright": 1,
    "copyrightyear": 1, "bibinfo": 2, "subjclass": 1, "captionof": 1, "todo": 1, "arabic": 1, "alph": 1,
    "Alph": 1, "roman": 1,
    "Roman": 1, "fnsymbol": 1, "newcolumntype": 2, "crefname": 3,
    "Crefname": 3, "enlargethispage": 1, "pagenumbering": 1, "setstretch": 1, "includeonly": 1,
    "includepdf": 1, "includesvg": 1, "epsfig": 1, "psfig": 1, "epsfbox": 1, "plotone": 1, "plottwo": 2,
    "bibitem": 1, "usetikzlibrary": 1, "PassOptionsToPackage": 2, "RequirePackage": 1,
    "DeclareGraphicsExtensions": 1, "newcounter": 1, "stepcounter": 1, "refstepcounter": 1, "newlength": 1,
    "settowidth": 2, "inputencoding": 1, "selectlanguage": 1, "foreignlanguage": 1, "pgfkeys": 1,
    "SetKwInOut": 2, "SetKwInput": 2, "SetKw": 2, "SetKwData": 2, "SetKwFor": 4, "SetAlCapSkip": 1,
    "newunicodechar": 2, "DeclareUnicodeCharacter": 2, "tablewidth": 1, "tabletypesize": 1,
    "tablecolumns": 1, "bibpunct": 6, "setcitestyle": 1, "doublespacing": 0,
}  # fmt: skip
# Commands whose arguments precede the text that they format.
BEFORE_TEXT = {
    "color", "textcolor", "colorbox", "fontsize", "scalebox", "resizebox", "raisebox", "rotatebox", "href",
    "parbox",
    "multicolumn", "multirow", "foreignlanguage", "selectlanguage", "hypertarget", "hyperlink", "hyperref",
    "cellcolor",
    "rowcolor", "selectfont", "captionof",
}  # fmt: skip
# Environments that begin with arguments that are not text, and the number of the arguments.
ENVIRONMENT_ARGUMENTS = {
    "minipage": 1, "wrapfigure": 2, "wraptable": 2, "subfigure": 1, "subtable": 1, "multicols": 1,
    "adjustbox": 1,
    "spacing": 1, "adjustwidth": 2, "CJK": 2, "otherlanguage": 1, "textblock": 1, "turn": 1, "rotate": 1,
    "tcolorbox": 0, "mdframed": 0, "column": 1, "block": 1, "varwidth": 1, "resizebox": 2,
    "beamercolorbox": 1,
    "savebox": 1, "lrbox": 1, "IEEEbiography": 1, "landscape": 0, "subequations": 0,
    "trivlist": 0, "enumerate*": 0, "foreignquote": 1, "longrotatetable": 0,
    "floatingfigure": 1, "threeparttable": 0, "list": 2, "minipage*": 1,
}  # fmt: skip
THEOREM_TITLES = {
    name: name.capitalize()
    for name in "theorem lemma proposition corollary definition remark example proof claim conjecture".split()
}
# Letters and symbols. TeX removes the spaces after them, so `Stra\ss e` is one word.
LETTERS = {
    "ss": "ß", "SS": "SS", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å",
    "AA": "Å",
    "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "dh": "ð", "DH": "Ð", "dj": "đ", "DJ": "Đ", "ng": "ŋ",
    "NG": "Ŋ", "th": "þ",
    "TH": "Þ", "ij": "ĳ", "IJ": "Ĳ", "ohorn": "ơ", "OHORN": "Ơ", "uhorn": "ư", "UHORN": "Ư", "S": "§",
    "P": "¶",
    "dag": "†", "ddag": "‡", "textdagger": "†", "textdaggerdbl": "‡", "textsection": "§",
    "textparagraph": "¶",
    "copyright": "©", "textcopyright": "©", "pounds": "£", "textsterling": "£", "euro": "€", "texteuro": "€",
    "EUR": "€", "textcent": "¢", "textyen": "¥", "textcurrency": "¤", "textendash": "–", "textemdash": "—",
    "textquoteright": "’", "textquoteleft": "‘", "textquotedblleft": "“", "textquotedblright": "”",
    "textquotesingle": "'", "textquotedbl": '"', "lq": "‘", "rq": "’", "quotesinglbase": "‚",
    "quotedblbase": "„",
    "glqq": "„", "grqq": "“", "glq": "‚", "grq": "‘", "flqq": "«", "frqq": "»", "flq": "‹", "frq": "›",
    "guillemotleft": "«", "guillemotright": "»", "guillemetleft": "«", "guillemetright": "»",
    "guilsinglleft": "‹",
    "guilsinglright": "›", "og": "« ", "fg": " »", "textexclamdown": "¡", "textquestiondown": "¿",
    "textordfeminine": "ª", "textordmasculine": "º", "textbackslash": "\\", "textasciitilde": "~",
    "textasciicircum": "^", "textasciigrave": "`", "textbar": "|", "textless": "<", "textgreater": ">",
    "textbraceleft": "{", "textbraceright": "}", "textdollar": "$", "textpercent": "%", "textampersand": "&",
    "textunderscore": "_", "textbullet": "•", "textperiodcentered": "·", "textdegree": "°", "textmu": "µ",
    "textohm": "Ω", "textcelsius": "°C", "textnumero": "№", "No": "№", "textpm": "±", "texttimes": "×",
    "textdiv": "÷",
    "textminus": "−", "textonehalf": "½", "textonequarter": "¼", "textthreequarters": "¾",
    "textonesuperior": "¹",
    "texttwosuperior": "²", "textthreesuperior": "³", "textperthousand": "‰", "textrightarrow": "→",
    "textleftarrow": "←", "textinterrobang": "‽", "arcsec": "″", "arcmin": "′", "arcdeg": "°", "degr": "°",
    "micron": "µm", "sun": "☉",
    "textalpha": "α", "textbeta": "β", "textgamma": "γ",
}  # fmt: skip
CYRILLIC = (
    "a а b б v в g г d д e е yo ё zh ж z з i и ishrt й k к l л m м n н o о p п r р s с t т u у f ф "
    "h х c ц ch ч sh ш shch щ hrdsn ъ ery ы sftsn ь erev э yu ю ya я ie є ii і yi ї dje ђ gup ґ "
    "ushrt ў je ј lje љ nje њ tshe ћ dzhe џ"
).split()
LETTERS |= {f"cyr{name}": letter for name, letter in zip(CYRILLIC[::2], CYRILLIC[1::2], strict=True)}
LETTERS |= {name.upper(): letter.upper() for name, letter in LETTERS.items() if name.startswith("cyr")}
# Words and spaces. A space after them is kept although TeX removes it, because authors usually mean it.
WORDS = {
    "ldots": "…", "dots": "…", "dotsc": "…", "textellipsis": "…", "LaTeX": "LaTeX", "TeX": "TeX",
    "LaTeXe": "LaTeX2e",
    "BibTeX": "BibTeX", "XeTeX": "XeTeX", "LuaTeX": "LuaTeX", "AmS": "AMS", "textregistered": "®",
    "texttrademark": "™", "quad": " ", "qquad": " ", "newline": "\n", "par": "\n\n", "linebreak": "\n",
    "slash": "/", "newblock": " ", "hfill": " ", "space": " ", "enspace": " ", "enskip": " ", "null": "",
    "@": "",
    "thinspace": " ",
    "nobreakspace": " ", "tableofcontents": "", "bigskip": "\n\n", "medskip": "\n\n", "smallskip": "\n\n",
    "tabularnewline": "\n", "and": " and ", "endgraf": "\n\n", "vfill": "\n\n", "newpage": "\n\n",
    "clearpage": "\n\n", "pagebreak": "\n\n",
}  # fmt: skip
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
}  # fmt: skip
ACCENT_WORDS = {
    "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a", "d": "\u0323",
    "b": "\u0331", "h": "\u0309", "t": "\u0361", "G": "\u030f", "cyrbreve": "\u0306",
}  # fmt: skip
# Shorthands of babel that begin with a quotation mark, and the languages that have them.
SHORTHANDS = {
    '"`': "„", "\"'": "“", '"<': "«", '">': "»", '"=': "-", '"~': "-", '"-': "", '""': "", '"|': "", '"/': "/",
    '"---': " —", '"--~': " —", '"--*': "— ",
}  # fmt: skip
UMLAUTS = {
    '"a': "ä", '"o': "ö", '"u': "ü", '"A': "Ä", '"O': "Ö", '"U': "Ü", '"e': "ë", '"i': "ï", '"E': "Ë", '"I': "Ï",
    '"s': "ß", '"z': "ß", '"S': "SS", '"Z': "SZ", '"c': "c", '"f': "f", '"l': "l", '"m': "m", '"n': "n", '"p': "p",
}  # fmt: skip
UMLAUT_LANGUAGES = {
    "german", "ngerman", "germanb", "austrian", "naustrian", "swissgerman", "nswissgerman", "dutch",
    "estonian",
    "icelandic", "afrikaans",
}  # fmt: skip
SHORTHAND_LANGUAGES = UMLAUT_LANGUAGES | {
    "russian", "ukrainian", "bulgarian", "belarusian", "serbianc", "slovene", "croatian", "serbian",
    "czech", "slovak",
    "danish", "swedish", "finnish", "norsk", "nynorsk", "polish",
}  # fmt: skip
SYMBOLS = {"\\": "\n", ",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "!": "", "/": "", "-": "", "@": ""}
# Ligatures and characters that are removed, by a string that they contain.
QUOTES = {
    "`": (("``", "“"), ("?`", "¿"), ("!`", "¡")),
    "''": (("''", "”"),),
    "--": (("---", "—"), ("--", "–")),
    "<<": (("<<", "«"),),
    ">>": ((">>", "»"),),
    "{": (("{", ""),),
    "}": (("}", ""),),
    "~": (("~", " "),),
    "&": (("&", " "),),
}
# Commands whose redefinitions by the author are ignored.
BUILT_IN_COMMANDS = {
    *HEADINGS, *ARGUMENTS, "item", "caption", "footnote", "begin", "end", "verb", "lstinline", "url", "href",
    "emph", "textbf", "textit", "maketitle", "documentclass", "hline", "multicolumn", "par", "abstract",
    "input",
    "include",
} - {"phantom", "color", "email", "rule", "inst", "pacs"}  # fmt: skip
ENVIRONMENTS = {
    *MATH, *CODE, *TABULARS, *LISTS, *DROPPED, *THEOREM_TITLES, "abstract", "figure", "table", "document",
    "algorithm",
    "algorithmic", "quote", "quotation", "center",
}  # fmt: skip
# Commands of formulas and fonts whose argument can be without braces.
TAKES_ARGUMENT = set(
    """mathbf mathrm mathcal mathbb mathfrak mathsf mathit mathtt mathscr boldsymbol bm pmb hat tilde bar vec
    dot ddot overline underline widehat widetilde sqrt text mbox operatorname textbf textit
    texttt emph textsc""".split()
)
