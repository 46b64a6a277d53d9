r"""LaTeX as authors write it: macros, conditionals, quantities, letters, theorems, algorithms, tables.

The texts are the output of LaTeX by the documentation of each package, with `^` for powers.
"""

import pytest

from zyda_flows.tasks.extraction.latex import text_of_latex


def same(latex, text):
    assert " ".join(text_of_latex(latex).split()) == text


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\newcommand{\x}[2][d]{(#1|#2)}\x{a} \x[b]{c} \x b", "(d|a) (b|c) (d|b)"),
        (r"\newcommand*\y[1]{(#1)}\y{a} \providecommand{\y}[1]{no}\y b \renewcommand\y[1]{#1!}\y{c}", "(a) (b) c!"),
        (r"\newcommand{\del}[1]{}\del{gone} \newcommand\m[2]{the #1-and-#2}\m{fast}{slow}", "the fast-and-slow"),
        (r"\def\z#1.{[#1]}\z ab. \def\w#1#2{#2#1}\w xy \def\q[#1]{q#1}\q[r] \def\p#1#2;{#2#1}\p a{b};", "[ ab] yx qr ba"),
        (r"\long\def\comment#1{}\comment{gone} kept \long\def\hide#1\endhide{}\hide gone \endhide too", "kept too"),
        (r"\DeclareMathOperator{\tr}{tr}\DeclareMathOperator*{\am}{arg\,max} $\tr A$ $\am_x$",
         r"$\operatorname{tr} A$ $\operatorname*{arg\,max}_x$"),
        (r"\let\oldphi\phi \let\phi\varphi \let\varphi\oldphi $\phi \varphi$", r"$\varphi \phi$"),
        (r"\newcommand{\us}{Zyda}\let\we=\us \we is", "Zyda is"),
        (r"\NewDocumentCommand{\foo}{s O{d} m}{\IfBooleanTF{#1}{star}{no}-#2-#3}\foo{a} \foo*[b]{c}", "no-d-a star-b-c"),
        (r"\NewDocumentCommand\bar{o m}{\IfNoValueTF{#1}{none}{#1}#2}\bar{x} \bar[y]{z}", "nonex yz"),
        (r"\newcommand{\norm}[1]{\lVert #1 \rVert}$\norm{x+\norm{y}}$", r"$\lVert x+\lVert y \rVert \rVert$"),
        (r"\newcommand{\vx}{xyz}$\mathbf\vx$ $a_\vx$", r"$\mathbf{xyz}$ $a_{xyz}$"),
        (r"\newcommand{\vc}[1]{\mathbf#1}$\vc a$ \def\al#1{\alpha}$\al{x}b$", r"$\mathbf a$ $\alpha b$"),
        (r"\def\be{\begin{equation}}\def\ee{\end{equation}} a \be x=1 \ee b", "a $$ x=1 $$ b"),
        (r"\newcommand{\bea}{\begin{eqnarray}}\newcommand{\eea}{\end{eqnarray}}\bea x &=& 1 \eea",
         r"$$ \begin{eqnarray} x &=& 1 \end{eqnarray} $$"),
        (r"\newcommand{\beq}[1]{\begin{equation}\label{#1}}\def\eeq{\end{equation}}\beq{a} y \eeq", "$$ y $$"),
        (r"\def\bi{\begin{itemize}}\def\ei{\end{itemize}}\bi\item a\item b\ei", "- a - b"),
        (r"\newenvironment{eqn}{\begin{equation}}{\end{equation}}\begin{eqn}x\end{eqn}", "$$ x $$"),
        (r"\newenvironment{note}[1]{Note #1: }{!}\begin{note}{3}abc\end{note}", "Note 3: abc!"),
        (r"\makeatletter\def\onedot{\futurelet\@let@token\@onedot}\def\@onedot{\ifx\@let@token.\else.\null\fi\xspace}"
         r"\def\eg{e.g\onedot}\def\etal{et al\@ifnextchar.{}{.\@}} see \eg this, \eg. Smith \etal. \etal{}",
         "see e.g. this, e.g. Smith et al. et al."),
        (r"\newcommand{\GeV}{\ensuremath{\mathrm{GeV}}}5 \GeV and $5\GeV$", r"5 $\mathrm{GeV}$ and $5\mathrm{GeV}$"),
        (r"\renewcommand{\section}[1]{broken}\section{Kept}\renewcommand{\P}{\mathbb{P}}$\P$", r"## Kept $\mathbb{P}$"),
        (r"\newcommand{\note}[1]{\textcolor{red}{#1}}A: \note{...b}", "A: ...b"),
        (r"\expandafter\def\csname a\endcsname{x}\def\b{y}\csname b\endcsname", "y"),
        (r"\def\us{Zyda}\par\us{} a\noindent\iffalse b\fi c\centering\newcommand{\x}{y}d", "Zyda acd"),
        (r"\DeclarePairedDelimiter{\abs}{\lvert}{\rvert}$\abs{x}$ $\abs*{y}$", r"$\lvert x \rvert$ $\lvert y \rvert$"),
    ],
)  # fmt: skip
def test_macros_are_expanded(latex, text):
    same(latex, text)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("Keep A.\n\\if 0\nsecret draft text.\n\\fi\nKeep B.", "Keep A. Keep B."),
        (r"A \iffalse b \else c \fi D \iftrue e \else f\fi G", "A c D e G"),
        (r"\newif\ifdraft \ifdraft no \else yes\fi \drafttrue \ifdraft on\fi \draftfalse\ifdraft no\fi", "yes on"),
        (r"\ifx\undefined\foo U\else D\fi \def\x{1}\ifx\x\empty E\else N\fi \ifx\x\x same\fi", "U N same"),
        (r"\ifnum 1<2 lt\else ge\fi \ifnum 1=2 no\fi \ifodd 3 odd\fi \def\n{2}\ifnum\n>1 more\fi", "lt odd more"),
        (r"\ifcase 1 a\or b\or c\fi \ifcase 7 a\or b\else c\fi", "b c"),
        (r"\if00 same\fi \if 1 hid\fi \if01 hid\fi \if ab no\else yes\fi", "same yes"),
        (r"\iffalse a \iftrue b \else c \fi d \else e \iffalse f \fi g \fi h", "e g h"),
        (r"a \begin{comment} hidden \end{comment} b", "a b"),
        (r"\excludecomment{secret}a \begin{secret}no\end{secret} b \includecomment{secret}\begin{secret}c\end{secret}", "a b c"),
        (r"$a \iff b$ \ifthenelse{\equal{a}{a}}{eq}{ne} \newboolean{x}\setboolean{x}{true}\ifthenelse{\boolean{x}}{t}{f}",
         r"$a \iff b$ eq t"),
        (r"\newtoggle{x}\iftoggle{x}{a}{b} \toggletrue{x}\iftoggle{x}{a}{b}", "b a"),
        (r"\newcommand{\hide}[1]{\iffalse #1\fi}a \hide{b} c", "a c"),
        (r"\ifpdf pdf\else ps\fi \ifmmode m\else t\fi \ifdefined\foo d\else u\fi", "pdf t u"),
        (r"A \string\end{document} B \string \emph{c}.", "A \\enddocument B \\emphc."),
        ("First.\n%\\end{document}\nSecond.\n\\end{document} gone", "First. Second."),
        ("\\begin{document}\\begin{lstlisting}\n\\end{document}\n\\end{lstlisting}\nB.\\verb|\\end{document}| C.\\end{document} no",
         "``` \\end{document} ``` B.`\\end{document}` C."),
        (r"\begin{document}a\begin{comment}\end{document}\end{comment}b\iffalse\end{document}\fi c\end{document}", "ab c"),
    ],
)  # fmt: skip
def test_only_hidden_text_is_removed(latex, text):
    same(latex, text)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\SI{5.2}{\kilo\gram}, \SIrange{1}{2}{\metre}, \numrange{10}{20}, \SI{10}{\percent}", "5.2 kg, 1 to 2 m, 10 to 20, 10 %"),
        (r"\SIlist{1;2;3}{\metre}, \SIlist{1;2}{\s}, \numlist{1;2;3}, \qtylist{4;5}{\kg}", "1, 2 and 3 m, 1 and 2 s, 1, 2 and 3, 4 and 5 kg"),
        (r"\num{1.2e-3} \num{1.2+-0.1} \num{1.23(4)} \num{-5} \num{.5} \num{2 x 3} \num{12345}",
         "1.2 × 10^-3 1.2 ± 0.1 1.23(4) -5 0.5 2 × 3 12345"),
        (r"\num[round-precision=2]{3.14} \SI[per-mode=symbol]{3}{\m\per\s} \qty{3}{\m\per\s}", "3.14 3 m/s 3 m/s"),
        (r"\ang{12.5} \ang{1;2;3} \ang{;;3} \SI{45}{\degree} \SI{20}{\degreeCelsius}", "12.5° 1°2′3″ 3″ 45° 20 °C"),
        (r"\qtyrange{1}{2}{\kilo\metre} \qtyproduct{2 x 3}{\cm} \SI{5}{\micro\metre} \SI{3}{\ohm}", "1 to 2 km 2 × 3 cm 5 µm 3 Ω"),
        (r"\SI{9.81}{\metre\per\second\squared} \SI{5}{\joule\per\mole\per\kelvin} \si{\per\s} \unit{\kg.m^2}",
         "9.81 m/s^2 5 J/(mol K) s^-1 kg m^2"),
        (r"\SI{2}{\square\metre} \SI{2}{\metre\cubed} \SI{1}{m.s^{-2}} \SI{1}{eV} \SI{4}{\raiseto{4}\m} \SI{4}{\m\tothe{5}}",
         "2 m^2 2 m^3 1 m s^-2 1 eV 4 m^4 4 m^5"),
        (r"\SI{3}{\metre\tothe} \SI{4}{\gram\of}", "3 m 4 g"),
        (r"\DeclareSIUnit\year{yr}\DeclareSIUnit{\parsec}{pc}\SI{3}{\year} \SI{4}{\mega\parsec} \SI{8}{}", "3 yr 4 Mpc 8"),
        (r"\SI{1}[\$]{\m} \SI{10}{\mega\hertz} \SI{5}{\kWh} \SI{1}{\GeV}", "1 m 10 MHz 5 kWh 1 GeV"),
        (r"\qty(a) and \SI alone", "(a) and alone"),
        (r"10\textsuperscript{6} 5\textsuperscript{th} A\textsuperscript{1}", "10^6 5th A1"),
    ],
)  # fmt: skip
def test_quantities_are_numbers_with_units(latex, text):
    same(latex, text)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\AA ngstr\"om, Stra\ss e, \O stergaard, \L ukasz, \oe uvre {\ss} \o{} \ae{}n", "Ångström, Straße, Østergaard, Łukasz, œuvre ß ø æn"),
        (r"\S 3 \P 4 \pounds 5 \textless 6 \dag\ \guillemotleft a\guillemotright", "§3 ¶4 £5 <6 † «a»"),
        (r"\'{\i}\'\i\^\j{} \c{c}\c c \v s\v{s} \"{\i} \'{e}\' e \~n\^o \H{o}\k{a}\u{g}\r{a}\d{a}", "ííĵ çç šš ï éé ñô őąğåạ"),
        (r"\'{\ae} \'{\^e} \d{\^o} \={a}\.z \~{} \^{} x\'{}y \v{C}ech Erd\H{o}s \'E", "ǽ ế ộ āż ~ ^ xy Čech Erdős É"),
        (r"\usepackage[ngerman]{babel}\begin{document}Stra\"se "+'"`Zitat"\' "Uber "a Kaffee"=Ersatz sch"-n "<x">', 'Strase'),
        (r"a---b -- c ``d'' f~g \% \& \# \$ \_ \{ \} x\,y a\-b ?`que !`hola <<oui>>", "a—b – c “d” f g % & # $ _ { } x y ab ¿que ¡hola «oui»"),
        (r"\CYRP\cyrr\cyri\cyrv\cyre\cyrt{} \textgreek{logos}", "Привет λογος"),
        (r"\begin{CJK*}{UTF8}{gbsn}中文\end{CJK*} \foreignlanguage{german}{Wort}", "中文 Wort"),
        (r"\texorpdfstring{$H_2$}{H2} \href{http://x.org/a%20b}{it} \url{http://x.org/a_b%20c} \footnote[3]{n}", "$H_2$ it http://x.org/a_b%20c (n)"),
        (r"\vskip 1cm a \parindent=0pt b \hskip 3pt plus 1pt c \kern-2pt d \baselineskip 20pt e", "a b c d e"),
        (r"\IEEEPARstart{T}{his} \lettrine[lines=2]{O}{nce} \hyperref[a]{here} \makebox[1in][l]{box} \rotatebox{90}{up}", "This Once here box up"),
        (r"U.S.\@ and \og a \fg{} \ion{Fe}{2} 5\arcsec \todo{b}\begin{tabbing} a \= b \\ c \> d \end{tabbing}",
         "U.S. and « a » Fe II 5″ a b c d"),
    ],
)  # fmt: skip
def test_letters_and_signs_are_converted(latex, text):
    if text == "Strase":
        latex, text = latex.replace(r"Stra\"se", 'Stra"se'), "Straße „Zitat“ Über ä Kaffee-Ersatz schn «x»"
    same(latex, text)


def test_shorthands_of_russian():
    russian = r"\usepackage[english,russian]{babel}\begin{document}"
    same(russian + '"<слово"> "--- тире, кое"=что "`а"\'', "«слово» — тире, кое-что „а“")
    same('a "-b" c', 'a "-b" c')


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\newtheorem{thm}{Theorem}\newtheorem{lem}[thm]{Lemma}\newtheorem*{rem}{Remark}\newtheorem{cor}{Corollary}[section]"
         r"\begin{thm}[Euler] a\end{thm}\begin{lem}b\end{lem}\begin{rem}c\end{rem}\begin{cor}d\end{cor}",
         "Theorem (Euler). a Lemma. b Remark. c Corollary. d"),
        (r"\declaretheorem[name=Satz]{satz}\spnewtheorem{fact}{Fact}{\bfseries}{\itshape}\begin{satz}a\end{satz}\begin{fact}b\end{fact}",
         "Satz. a Fact. b"),
        (r"\begin{algorithm}\caption{Euclid}\begin{algorithmic}[1]\Require $a,b$ \Procedure{Euclid}{$a,b$}\Comment{gcd}"
         r"\State $r\gets a$ \While{$r\not=0$} \State $a\gets b$ \EndWhile \If{$x$} \State y \ElsIf{z} \State w \Else"
         r" \State v \EndIf \State \Return $b$ \EndProcedure\end{algorithmic}\end{algorithm}",
         r"Euclid Require: $a,b$ procedure Euclid($a,b$) // gcd $r\gets a$ while $r\not=0$ do $a\gets b$ end while if $x$ then"
         r" y else if z then w else v end if return $b$ end procedure"),
        (r"\begin{algorithmic}\REQUIRE $n$ \STATE $y$ \IF{$n<0$} \STATE a \ELSE \STATE b \ENDIF \FOR{$i=1$ \TO $n$} \STATE c"
         r" \ENDFOR \RETURN $y$\end{algorithmic}",
         "Require: $n$ $y$ if $n<0$ then a else b end if for $i=1$ to $n$ do c end for return $y$"),
        (r"\begin{algorithm}\SetKwInOut{Given}{Given}\SetKw{Halt}{halt}\Given{a graph}\; \Halt now\;\end{algorithm}",
         "Given: a graph halt now"),
        (r"\begin{algorithm}[H]\SetAlgoLined\KwIn{data}\KwResult{how} init\; \While{not end}{ read\; \eIf{good}{ go\; }{ back\; } }"
         r" \ForEach{$i$}{x\;\uIf{a}{b\;}\Else{c\;}} \caption{Alg}\end{algorithm}",
         "Input: data Result: how init while not end do read if good then go else back end end for each $i$ do x if a then b end"
         " else c end Alg"),
        (r"\begin{longtable}{ll}\caption{Cap}\\ \hline A & B \\ \endfirsthead \multicolumn{2}{c}{continued} \\ A & B \\ \endhead"
         r" \multicolumn{2}{r}{next page} \\ \endfoot \hline \endlastfoot 1 & 2 \\ 3 & 4 \\ \end{longtable}",
         "Cap | A | B | | --- | --- | | 1 | 2 | | 3 | 4 |"),
        (r"\begin{longtable}{ll} A & B \\ \endhead 1 & 2 \\ \end{longtable}", "| A | B | | --- | --- | | 1 | 2 |"),
        (r"\begin{deluxetable}{lc}\tablecaption{Cap}\tablehead{\colhead{A} & \colhead{B}}\startdata 1 & 2 \\ 3 & 4 \enddata"
         r"\tablecomments{Note.}\end{deluxetable}", "Cap | A | B | | --- | --- | | 1 | 2 | | 3 | 4 | Note."),
        (r"\begin{tabular}{cc}\rowcolor{x}\multicolumn{2}{c}{H} \\ a & b \\[2pt] c & \multirow{2}{*}{d} \\* e & f \tabularnewline g & h\end{tabular}",
         "| H | | | --- | --- | | a | b | | c | d | | e | f | | g | h |"),
        ("\\begin{lstlisting}[language=Python,caption={A [b] c},\n numbers=left]\ndef f(x): return x % 2\n\\end{lstlisting}",
         "```python def f(x): return x % 2 ```"),
        (r"\begin{abstract}Abs.\end{abstract}\begin{figure}\includegraphics[width=3cm]{x.png}\caption[s]{Cap \cite{x}.}\label{a}\end{figure}",
         "Abs. Cap."),
        (r"\documentclass{x}\title{T}\begin{abstract}Abs.\end{abstract}\begin{document}\maketitle a\end{document}", "# T Abs. a"),
        (r"\begin{filecontents*}{x}\end{document}\end{filecontents*}a", "a"),
        (r"\begin{thebibliography}{9}\bibitem{x} Gone.\end{thebibliography}\begin{references}Gone\end{references}a", "a"),
    ],
)  # fmt: skip
def test_environments_of_packages_are_converted(latex, text):
    same(latex, text)


def test_commands_without_arguments_do_not_consume_text():
    for end in ("", "{", "[", "\\", "*", "{}", "[}", "%", "$", "\n\n"):
        for name in ("newcommand", "def", "let", "SI", "num", "newtheorem", "verb", "if", "ifx", "ifnum", "ifcase", "begin",
                     "end", "'", "c", "newenvironment", "csname", "futurelet", "NewDocumentCommand", "DeclareSIUnit"):  # fmt: skip
            assert isinstance(text_of_latex(f"a \\{name}{end}"), str)
