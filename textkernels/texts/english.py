"""Tables of the English tokenizer: the classes of characters, and the strings with their own pieces.

The data are spaCy's, whose blank English pipeline cuts words in datatrove. The characters that end a sentence are
Unicode's, as datatrove and spaCy list them.
"""

# ruff: noqa: RUF001 (the tables list characters that resemble others)

import unicodedata
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels import utf8 as bits
from zyda_flows.textkernels.rules import cutting as kernel
from zyda_flows.textkernels.rules.tokens import tokenize

CODE_POINTS = 0x110000
HIGHEST = 0x40000  # no letter, digit, space or punctuation mark is above this code point

# Letters of scripts without cases count as lower and as upper case.
UNCASED = """591-5f4 620-64a 66e-6d5 6e5-6ff 750-77f 8a0-8bd 900-9ff b80-cff d80-dff 1100-137f 2e80-2fdf 2ff0-30ff
31c0-31ef 3200-4dbf 4e00-9fff ac00-d7af f900-faff fb1d-fbb1 fbd3-fd3d fd50-fdc7 fdf0-fdfb fe30-fe4f fe70-fefc
1ee00-1eebb 1f200-1f2ff 20000-2a6df 2a700-2ebef 2f800-2fa1f"""
CASED = """41-7a c0-2af 386-38f 391-3a9 3ac-3af 3b1-3c9 3cc-3ce 400-401 403-40a 40c-40d 410-451 453-45a 45c-45d
490-491 496-497 4a2-4a3 4ae-4af 4ba-4bb 4d8-4d9 4e8-4e9 1d00-1d25 1d6b-1d77 1d79-1d9a 1e00-1eff 2c60-2c7b 2c7e-2c7f
a722-a76f a771-a7b9 a7fa ab30-ab5a ab60-ab64 ff21-ff5a"""
TITLED = "1bb 1c5 1c8 1cb 1f2"  # letters that are in neither case
MORE_LOWER, MORE_UPPER = "294", "3a2"
NO_ICONS = """166d 2b97 2bc9 2bff 2e50-2e51 32ff fd40-fd4f fdcf fdfe-fdff 1019c 11fd5-11fdc 11fe1-11ff1 1cf50-1cfc3
1d1e9-1d1ea 1e14f 1ed2e 1f10d-1f10f 1f16c-1f16f 1f1ad 1f6d5-1f6d7 1f6dd-1f6df 1f6fa-1f6fc 1f7e0-1f7eb 1f7f0
1f8b0-1f8b1 1f90c-1f90f 1f93f 1f971-1f972 1f977-1f979 1f97b 1f9a3-1f9af 1f9ba-1f9bf 1f9c3-1f9cf 1fa00-1fa53
1fa70-1fbca"""
PERIODS = """21 2e 3f 589 61f 6d4 700-702 7f9 964-965 104a-104b 1362 1367-1368 166e 1735-1736 1803 1809 1944-1945
1aa8-1aab 1b5a-1b5b 1b5e-1b5f 1c3b-1c3c 1c7e-1c7f 203c-203d 2047-2049 2e2e 2e3c 3002 a4ff a60e-a60f a6f3 a6f7
a876-a877 a8ce-a8cf a92f a9c8-a9c9 aa5d-aa5f aaf0-aaf1 abeb fe52 fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57
11047-11048 110be-110c1 11141-11143 111c5-111c6 111cd 111de-111df 11238-11239 1123b-1123c 112a9 1144b-1144c
115c2-115c3 115c9-115d7 11641-11642 1173c-1173e 11a42-11a43 11a9b-11a9c 11c41-11c42 16a6e-16a6f 16af5 16b37-16b38
16b44 1bc9f 1da88"""
MORE_TERMINALS = """61d-61e 837 839 83d-83e 17d4-17d6 17d9-17da 1b7d-1b7e 2e53-2e54 10f55-10f59 10f86-10f89 11944
11946 11ef7-11ef8 11f43-11f44 16e98"""
SYMBOLS = """0-8 b-1f 21-2f 3a-40 5b-60 7b-9f ab b4 bb 2013-2014 2019 201c-201e 2026 2236 2501 25ba 3001-3002
3008-300d 3010-3011 ff01 ff05 ff08-ff09 ff0c ff0e ff11 ff1a-ff1b ff1f ff5e"""

MARKS = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
QUOTES = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉\u2329\u232a⟦⟧"
MONEY = "$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"
ENDS_OF_LINES = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
UNITS = """km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s km/h kmh
mph hPa Pa mbar mb MB kb KB gb GB tb TB T G M K % км км² км³ м м² м³ дм дм² дм³ см см² см³ мм мм² мм³ нм кг г мг
м/с км/ч кПа Па мбар Кб КБ кб Мб МБ мб Гб ГБ гб Тб ТБ тбكم كم² كم³ م م² م³ سم سم² سم³ مم مم² مم³ كم غرام جرام جم
كغ ملغ كوب اكواب US$ C$ A$"""

FACES = r"""
:) :-) :)) :-)) :))) :-))) (: (-: =) (= :] :-] [: [-: [= =] :o) (o: :} :-} 8) 8-) (-8 ;) ;-) (; (-; :( :-(
:(( :-(( :((( :-((( ): )-: =( >:( :') :'-) :'( :'-( :/ :-/ =/ =| :| :-| ]= =[ :1 :P :-P :p :-p :O :-O :o :-o
:0 :-0 :() >:o :* :-* :3 :-3 =3 :> :-> :X :-X :x :-x :D :-D ;D ;-D =D xD XD xDD XDD 8D 8-D ^_^ ^__^ ^___^
>.< >.> <.< ._. ;_; -_- -__- v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.O O.o O.O o.o 0.0 o.0 0.o @_@ <3
<33 <333 </3 (^_^) (-_-) (._.) (>_<) (*_*) (¬_¬) ಠ_ಠ ಠ︵ಠ (ಠ_ಠ) ¯\(ツ)/¯ (╯°□°）╯︵┻━┻ ><(((*>"""
WHOLE = r"""
\t \n — ' \") <space> '' C++ ä. ö. ü. 'S 's ‘S ‘s 're 'd and/or w/o 'Cause 'cause 'cos 'Cos 'coz 'Coz 'cuz
'Cuz 'bout ma'am Ma'am o'clock O'clock lovin' Lovin' havin' Havin' em 'em ll 'll nuff 'nuff Mt. Ak. Ala.
Apr. Ariz. Ark. Aug. Calif. Colo. Conn. Dec. Del. Feb. Fla. Ga. Ia. Id. Ill. Ind. Jan. Jul. Jun. Kan. Kans.
Ky. La. Mar. Mass. Mich. Minn. Miss. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. Pa.
S.C. Sep. Sept. Tenn. Va. Wash. Wis. a.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. Gen. Gov. i.e.
I.e. I.E. Inc. Jr. Ltd. Md. Messrs. Mo. Mont. Mr. Mrs. Ms. p.m. Ph.D. Prof. Rep. Rev. Sen. St. vs. v.s."""
DROPPED_G = "doin goin nothin nuthin ol somethin"
CUT = [
    "y' all", "y all", "how 'd 'y", "How 'd 'y", "not 've", "not ve", "Not 've", "Not ve", "can not", "Can not",
    "gon na", "Gon na", "got ta", "Got ta", "let 's", "Let 's", "c'm on", "C'm on",
]  # fmt: skip
NOT_CUT = "Ill ill Its its Hell hell Shell shell Shed shed were Were Well well Whore whore"
# Words, and the endings that may be cut from them: all endings but 've are also written without their apostrophe.
CONTRACTED = [
    ("i", "'m, 'm a"),
    ("i you he she it we they", "'ll, 'll 've, 'd, 'd 've"),
    ("i you we they", "'ve"),
    ("you we they", "'re"),
    ("he she it who what when where why how there that this", "'s"),
    ("who what when where why how there that this these those", "'ll, 'll 've, 've, 'd, 'd 've"),
    ("who what when where why how there these those", "'re"),
    ("ca could do does did had may might must need ought sha should wo would", "n't, n't 've"),
    ("could might must should would", "'ve"),
    ("ai are is was were have has dare", "n't"),
]
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")


def codes(ranges: str) -> list[int]:
    """Return the code points of hexadecimal ranges."""
    ends = [item.partition("-") for item in ranges.split()]
    return [code for first, _, last in ends for code in range(int(first, 16), int(last or first, 16) + 1)]


def _known_to_python() -> NDArray[np.uint32]:
    """Return the BITS of the code points below HIGHEST that Python's tables define."""
    characters = [chr(code) for code in range(HIGHEST)]
    categories = [unicodedata.category(character) for character in characters]
    properties = {
        bits.SPACE: map(str.isspace, characters), bits.ALPHA: map(str.isalpha, characters),
        bits.CAPITAL: map(str.isupper, characters), bits.NUMERAL: map(str.isdigit, characters),
        bits.DECIMAL: map(str.isdecimal, characters), bits.ALNUM: map(str.isalnum, characters),
        bits.PUNCTUATION: (category[0] == "P" for category in categories),
        bits.INFIX: (category == "So" for category in categories),
    }  # fmt: skip
    known = np.zeros(HIGHEST, np.uint32)
    for bit, holds in properties.items():
        known[np.fromiter(holds, np.bool_, HIGHEST)] |= bit
    return known


@lru_cache(maxsize=1)
def token_classes() -> NDArray[np.uint32]:
    """Return the BITS of `textkernels.utf8` for each code point: (0x110000,) uint32."""
    classes = np.zeros(CODE_POINTS, np.uint32)
    classes[:HIGHEST] = _known_to_python()
    classes[codes(NO_ICONS)] &= ~bits.INFIX
    icons = np.flatnonzero(classes & bits.INFIX)
    cased = [chr(code) for code in codes(CASED)]
    lower = [ord(letter) for letter in cased if letter.islower()]
    upper = [ord(letter) for letter in cased if letter.isupper()]
    uncased, numbers = codes(UNCASED), codes("30-39")
    lower, upper = [*lower, *uncased, *codes(MORE_LOWER)], [*upper, *uncased, *codes(MORE_UPPER)]
    marks, quotes, money = ([ord(mark) for mark in characters] for characters in (MARKS, QUOTES, MONEY))
    members_by_bit = {
        bits.LINE: [ord(mark) for mark in ENDS_OF_LINES],
        bits.LETTER: [*lower, *upper, *codes(TITLED)],
        bits.LOWER: lower,
        bits.UPPER: upper,
        bits.NUMBER: numbers,
        bits.PREFIX: [*marks, *quotes, *money, *icons, *map(ord, "§%=—–")],
        bits.SUFFIX: [*marks, *quotes, *icons, *map(ord, "—–")],
        bits.INFIX: [ord("…")],
        bits.QUOTE: quotes,
        bits.BEFORE_DOT: [*lower, *numbers, *marks, *quotes, *map(ord, "%²-+|(?:)")],
        bits.CURRENCY: money,
        bits.HOST: [*numbers, *codes("41-5a 61-7a a1-ffff")],
        bits.BREAK: [*marks, *quotes, *money, *icons, *map(ord, "§%=—–-.+*^~/")],
        bits.SYMBOL: codes(SYMBOLS) + codes(PERIODS) + codes(MORE_TERMINALS),
        bits.PERIOD: codes(PERIODS),
        bits.TERMINAL: codes(PERIODS) + codes(MORE_TERMINALS),
    }
    for bit, members in members_by_bit.items():
        classes[members] |= bit
    return classes


def exceptions() -> dict[str, list[str]]:
    """Return the strings that are cut in a special way, and their pieces."""
    found = {
        text: [text]
        for text in (
            *FACES.split(),
            *WHOLE.split(),
            *(f"{letter}." for letter in "abcdefghijklmnopqrstuvwxyz"),
        )
    }
    for words, ends in CONTRACTED:
        for word, end in product(words.split(), ends.split(", ")):
            for form, tail in product((word, word.title()), (end, end.replace("'", ""))):
                pieces = [form, *tail.split()]
                found["".join(pieces)] = pieces
    for word in DROPPED_G.split():
        found |= {one: [one] for form in (word, word.title()) for one in (form, f"{form}'")}
    found |= {
        f"{hour}{half}": [str(hour), half] for hour in range(1, 13) for half in ("am", "a.m.", "pm", "p.m.")
    }
    found |= {one.replace(" ", ""): one.split() for one in CUT}
    found = {one: pieces for one, pieces in found.items() if one not in NOT_CUT.split()}
    curly = {
        one.replace("'", "’"): [piece.replace("'", "’") for piece in pieces] for one, pieces in found.items()
    }
    return found | curly


def _slot(text: bytes, rules: NDArray[np.uint64], table: int) -> int:
    """Insert a string into an open-addressing table; return its slot."""
    h = kernel.hash_of(np.frombuffer(text, np.uint8), 0, len(text))
    slot = (int(h) * int(kernel.SPREAD) % (1 << 64)) >> int(kernel.TOP)
    while rules[table + slot] not in (0, h):
        slot = (slot + 1) % kernel.SLOTS
    rules[table + slot] = h
    return slot


def _ends(pieces: list[bytes]) -> list[int]:
    return [len(pieces), *np.cumsum([len(piece) for piece in pieces]).tolist()]


@lru_cache(maxsize=1)
def token_rules() -> NDArray[np.uint64]:
    """Return the table of exceptions, units and stop words for `tokenize`: (RULES,) uint64."""
    rules = np.zeros(kernel.RULES, np.uint64)
    for unit in [*UNITS.split(), *MONEY]:
        _slot(unit.encode(), rules, kernel.UNITS)
    for number, word in enumerate(STOP_WORDS, 1):
        h = kernel.hash_of(np.frombuffer(word.encode(), np.uint8), 0, len(word))
        slot = (int(h) * int(kernel.SPREAD) % (1 << 64)) >> int(kernel.STOP_TOP)
        assert rules[kernel.STOP_WORDS + slot] == 0  # each has a slot of its own
        rules[kernel.STOP_WORDS + slot], rules[kernel.STOP_NUMBERS + slot] = h, number
    found = {one.encode(): [piece.encode() for piece in pieces] for one, pieces in exceptions().items()}
    by_rules = cut(
        list(found), rules.copy()
    )  # a copy: the memo of `tokenize` depends on the array's identity
    for (one, pieces), pieces_by_rules in zip(found.items(), by_rules, strict=True):
        slot, bit = _slot(one, rules, kernel.KEYS), np.uint64(1) << np.uint64(len(one))
        ends, cut_ends = _ends(pieces), _ends(pieces_by_rules)
        at, cut_at = kernel.CUTS + slot * kernel.PIECES, kernel.JOINS + slot * kernel.JOINED
        rules[at : at + len(ends)] = ends
        rules[kernel.LENGTHS + one[0]] |= bit
        if len(pieces_by_rules) > 1:
            rules[cut_at : cut_at + len(cut_ends)] = cut_ends
            rules[kernel.CUT_LENGTHS + one[0]] |= bit
    return rules


def cut(texts: list[bytes], rules: NDArray[np.uint64]) -> list[list[bytes]]:
    """Return the tokens of each text, in UTF-8."""
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    tokens, hashes = np.empty((1, 4), np.uint32), np.empty(1, np.uint64)
    ends = np.zeros(len(offsets), np.int64)
    tokens, _ = tokenize(data, offsets, token_classes(), rules, tokens, hashes, ends)
    return [
        [text[start:end] for start, end in tokens[first:last, :2].tolist()]
        for text, first, last in zip(texts, ends[:-1], ends[1:], strict=True)
    ]
