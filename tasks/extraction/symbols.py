# ruff: noqa: RUF001, SIM905
"""The LaTeX names of characters in formulas, from the tables of unicode-math and KaTeX."""

import unicodedata

INVISIBLE = dict.fromkeys("\u2061\u2062\u2063\u2064", "")  # applied, times, comma, plus
NAMED = r"""
∑\sum ∏\prod ∐\coprod ∫\int ∬\iint ∭\iiint ∮\oint ⋃\bigcup ⋂\bigcap ⋁\bigvee ⋀\bigwedge ⨁\bigoplus
⨂\bigotimes ±\pm ∓\mp ×\times ÷\div ⋅\cdot ∗* ∘\circ ∙\bullet ≤\leq ≥\geq ≠\neq ≈\approx ≡\equiv ∼\sim
≃\simeq ≅\cong ≪\ll ≫\gg ∝\propto ∈\in ∉\notin ∋\ni ⊂\subset ⊃\supset ⊆\subseteq ⊇\supseteq ∪\cup ∩\cap
∖\setminus ∅\emptyset ∞\infty ∂\partial ∇\nabla ∀\forall ∃\exists ¬\neg ∧\land ∨\lor →\to ←\leftarrow
↔\leftrightarrow ⇒\Rightarrow ⇐\Leftarrow ⇔\Leftrightarrow ↦\mapsto ↑\uparrow ↓\downarrow ⟶\longrightarrow
⟵\longleftarrow ⟹\Longrightarrow ⟺\Longleftrightarrow …\ldots ⋯\cdots ⋮\vdots ⋱\ddots ′' ″'' ⟨\langle
⟩\rangle ⌊\lfloor ⌋\rfloor ⌈\lceil ⌉\rceil ∥\parallel ∣| ℝ\mathbb{R} ℕ\mathbb{N} ℤ\mathbb{Z} ℚ\mathbb{Q}
ℂ\mathbb{C} ℓ\ell ℏ\hbar ℜ\Re ℑ\Im ℵ\aleph ∠\angle ⊥\perp ⊤\top ⊢\vdash ⊨\models ⊕\oplus ⊗\otimes ⊖\ominus
⊙\odot √\surd °^{\circ} †\dagger ‡\ddagger ≺\prec ≻\succ ≐\doteq ∴\therefore ∵\because −- ‖\| ≔:= {\{ }\}
%\% &\& #\# $\$ _\_ \\backslash ϵ\epsilon ϑ\vartheta φ\varphi ϕ\phi ϱ\varrho ϖ\varpi ε\varepsilon
"""
SYMBOLS = (
    {name[0]: name[1:] for name in NAMED.split()}
    | INVISIBLE
    | {"\xa0": r"\ ", "\u2009": r"\,", "\u200a": r"\,", "\u2003": r"\quad"}
)
FUNCTIONS = {
    *"""
Pr arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln
log max min sec sin sinh sup tan tanh
""".split()
}
# Operators that are written with a space on both sides.
SPACED = {
    *r"""
+ - := < = > \Leftarrow \Leftrightarrow \Rightarrow \approx \cap \cdot \cong \cup \div \doteq \equiv \geq
\gg \in \land \leftarrow \leftrightarrow \leq \ll \longrightarrow \lor \mapsto \mid \models \mp \neq \notin
\oplus \otimes \perp \pm \propto \setminus \sim \simeq \subset \subseteq \supset \supseteq \times \to \vdash
""".split()
}
# Operators whose indices are limits.
LIMITED = tuple(
    r"\sum \prod \coprod \int \big \lim \max \min \sup \inf \oint \operatorname \det \gcd \Pr \iint".split()
)
OVER = {
    name[0]: name[1:]
    for name in """
ˉbar ¯overline ―overline ‾overline _overline ^hat ˆhat ̂hat ~tilde ˜tilde →vec ⃗vec ˙dot ¨ddot ⏞overbrace ˇcheck
˘breve ´acute `grave -bar −bar
""".split()
}
UNDER = {name[0]: name[1:] for name in "⏟underbrace _underline ̲underline ―underline ¯underline".split()}
LETTERS = {
    "bold": "mathbf",
    "double-struck": "mathbb",
    "script": "mathcal",
    "fraktur": "mathfrak",
    "normal": "mathrm",
    "sans-serif": "mathsf",
    "monospace": "mathtt",
    "bold-italic": "boldsymbol",
}
LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))  # Greek letters without a name in LaTeX


def symbol(character: str) -> str:
    """Return the LaTeX of a character, or the character itself if it has no name in LaTeX."""
    if character in SYMBOLS:
        return SYMBOLS[character]
    if "\u0370" <= character <= "\u03ff":
        return greek(character)
    return character


def greek(character: str) -> str:
    if character in LATIN:
        return LATIN[character]
    name = unicodedata.name(character, "").split()
    if len(name) != 4 or name[0] != "GREEK" or name[2] != "LETTER":
        return character
    letter = name[3].lower().replace("lamda", "lambda")
    return "\\" + (letter.capitalize() if name[1] == "CAPITAL" else letter)
