# ruff: noqa: RUF001, RUF002, SIM905
r"""Numbers and quantities of siunitx as text: `\SI{5.2}{\kilo\gram}` is 5.2 kg, in versions 2 and 3."""

import re
from collections.abc import Mapping

# Arguments: n a number, l a list with semicolons, u a unit.
COMMANDS = {
    "num": "n", "si": "u", "unit": "u", "SI": "nu", "qty": "nu", "ang": "a", "numrange": "nn",
    "SIrange": "nnu",
    "qtyrange": "nnu", "numlist": "l", "SIlist": "lu", "qtylist": "lu", "numproduct": "p", "qtyproduct": "pu",
    "complexnum": "n", "complexqty": "nu", "tablenum": "n",
}  # fmt: skip
PREFIXES = {
    "quecto": "q", "ronto": "r", "yocto": "y", "zepto": "z", "atto": "a", "femto": "f", "pico": "p",
    "nano": "n",
    "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "deca": "da", "deka": "da", "hecto": "h",
    "kilo": "k",
    "mega": "M", "giga": "G", "tera": "T", "peta": "P", "exa": "E", "zetta": "Z", "yotta": "Y", "ronna": "R",
    "quetta": "Q", "kibi": "Ki", "mebi": "Mi", "gibi": "Gi", "tebi": "Ti", "pebi": "Pi", "exbi": "Ei",
}  # fmt: skip
UNITS = {
    "ampere": "A", "candela": "cd", "kelvin": "K", "kilogram": "kg", "gram": "g", "metre": "m", "meter": "m",
    "mole": "mol", "second": "s", "becquerel": "Bq", "coulomb": "C", "degreeCelsius": "°C", "celsius": "°C",
    "farad": "F", "gray": "Gy", "hertz": "Hz", "henry": "H", "joule": "J", "katal": "kat", "lumen": "lm",
    "lux": "lx",
    "newton": "N", "ohm": "Ω", "pascal": "Pa", "radian": "rad", "siemens": "S", "sievert": "Sv",
    "steradian": "sr",
    "tesla": "T", "volt": "V", "watt": "W", "weber": "Wb", "astronomicalunit": "au", "bel": "B",
    "dalton": "Da",
    "day": "d", "decibel": "dB", "degree": "°", "electronvolt": "eV", "hectare": "ha", "hour": "h",
    "litre": "l",
    "liter": "L", "minute": "min", "arcminute": "′", "arcmin": "′", "arcsecond": "″", "arcsec": "″",
    "neper": "Np",
    "tonne": "t", "percent": "%", "bar": "bar", "barn": "b", "knot": "kn", "mmHg": "mmHg",
    "nauticalmile": "M",
    "angstrom": "Å", "atomicmassunit": "u", "bit": "bit", "byte": "B", "clight": "c", "electronmass": "m_e",
    "elementarycharge": "e", "planckbar": "ħ", "bohr": "a_0", "hartree": "E_h", "amu": "u", "dB": "dB",
    "kWh": "kWh",
    "gon": "gon", "parsec": "pc", "lightyear": "ly", "molar": "M", "micron": "µm", "permille": "‰",
    "euro": "€",
    "Molar": "M", "torr": "Torr", "atm": "atm", "gauss": "G", "year": "yr", "cal": "cal", "textmu": "µ",
    "celcius": "°C",
    "um": "µm", "us": "µs", "ug": "µg", "uA": "µA", "uV": "µV", "uW": "µW", "uJ": "µJ", "ul": "µl",
    "uL": "µL",
    "umol": "µmol", "uC": "µC", "uF": "µF", "uH": "µH", "kohm": "kΩ", "Mohm": "MΩ", "mohm": "mΩ",
    "degC": "°C",
    "percentage": "%", "micrometer": "µm",
}  # fmt: skip
# The abbreviations that are written as they are called: \km, \MHz.
ABBREVIATED = set(
    """fg pg ng mg g kg pm nm mm cm dm m km as fs ps ns ms s fmol pmol nmol mmol mol kmol pA nA mA A kA l ml hl L mL
    hL mHz Hz kHz MHz GHz THz mN N kN MN Pa kPa MPa GPa pV nV mV V kV W nW mW kW MW GW J mJ kJ eV meV keV MeV GeV
    TeV F fF pF nF mF H mH nH K C nC mC T mT""".split()
)
POWERS = {"square": 2, "cubic": 3, "squared": 2, "cubed": 3}
MINUTES = "′", "″"
PART = re.compile(
    r"\\([A-Za-z]+)\s*+(?:\{([^{}]*+)\})?|\^\s*+\{?\s*+([-+\u2212]?[0-9.]+)\s*+\}?|\\?(.)", re.DOTALL
)
POWER = re.compile(r"\^\s*+\{?\s*+([-+\u2212]?[0-9./]+)\s*+\}?")
SPACES = re.compile(r"\s+")
EXPONENT = re.compile(r"\s*(?:[eEdD]|\\times\s*10\^)\{?\s*([-+]?\d+)\}?")
COMPARISONS = {
    "\\pm": " ± ", "+-": " ± ", "\\sim": "~", "<=": "≤", ">=": "≥", "\\le": "≤", "\\ge": "≥", "\\leq": "≤",
    "\\geq": "≥", "\\lesssim": "≲", "\\gtrsim": "≳", "\\approx": "≈", "\\ll": "≪", "\\gg": "≫", "<<": "≪",
    ">>": "≫",
    "\\times": " × ", "\\cdot": " · ", "\\,": "", "~": "", "$": "", "{": "", "}": "",
    ",": ".", "x": " × ",
}  # fmt: skip
COMPARISON = re.compile("|".join(sorted(map(re.escape, COMPARISONS), key=len, reverse=True)))
LEADING_POINT = re.compile(r"(?<![0-9.])\.(?=[0-9])")
ATTACHED = {"°", "′", "″"}  # units without a space before them
HEAVY = 1000  # characters of one argument


def quantity(name: str, arguments: list[str], units: Mapping[str, str]) -> str:
    """Return a quantity as text. arguments: of `name`, by COMMANDS. units: the author's, by name."""
    kinds = COMMANDS[name]
    arguments = [one[:HEAVY] for one in arguments]
    if kinds == "a":
        return angle(arguments[0])
    unit = unit_text(arguments[-1], units) if kinds.endswith("u") else ""
    if kinds == "u":
        return unit
    number = values(kinds, arguments)
    return f"{number}{'' if unit in ATTACHED or not unit or not number else ' '}{unit}"


def values(kinds: str, arguments: list[str]) -> str:
    """Return numbers as text: one, from one to another, or a list."""
    if kinds.startswith("nn"):
        return f"{number_text(arguments[0])} to {number_text(arguments[1])}"
    if kinds.startswith("l"):
        numbers = [number_text(one) for one in arguments[0].split(";") if one.strip()]
        return " and ".join(filter(None, [", ".join(numbers[:-1]), *numbers[-1:]]))
    if kinds.startswith("p"):
        return " × ".join(number_text(one) for one in arguments[0].split("x"))
    return number_text(arguments[0])


def number_text(number: str) -> str:
    """Return a number as text: `1.2e-3 +- 0.1` is 1.2 × 10^-3 ± 0.1."""
    text = COMPARISON.sub(lambda match: COMPARISONS[match[0]], EXPONENT.sub(exponent, number.strip()))
    return LEADING_POINT.sub("0.", SPACES.sub(" ", text)).strip()


def exponent(match: re.Match[str]) -> str:
    is_alone = not match.string[: match.start()].strip(" +-")
    return f"{'' if is_alone else ' × '}10^{int(match[1])}"


def angle(text: str) -> str:
    """Return degrees, minutes and seconds."""
    parts = [number_text(one) for one in text.split(";")][:3]
    return "".join(part + sign for part, sign in zip(parts, ("°", *MINUTES), strict=False) if part)


def unit_text(unit: str, units: Mapping[str, str]) -> str:
    r"""Return a unit as text: `\metre\per\second\squared` is m/s^2, as is `m.s^{-2}` written m s^-2."""
    if "\\" not in unit:
        return SPACES.sub(" ", POWER.sub(r"^\1", unit.replace(".", " ").replace("~", " "))).strip()
    parts = unit_parts(unit, units)
    over = [written for written, is_under in parts if not is_under]
    under = [written for written, is_under in parts if is_under]
    if not under:
        return " ".join(over)
    if not over:
        return " ".join(one.replace("^", "^-") if "^" in one else f"{one}^-1" for one in under)
    return f"{' '.join(over)}/{under[0] if len(under) == 1 else '(' + ' '.join(under) + ')'}"


def unit_parts(unit: str, units: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Return the units of a product with their powers, each with whether it is divided by."""
    parts = list[tuple[str, bool]]()
    prefix, power, is_under = "", "", False
    for match in PART.finditer(unit):
        name, argument, exponent_of_last, character = match.groups()
        if name == "per":
            is_under = True
        elif name in PREFIXES:
            prefix = PREFIXES[name]
        elif name in {"square", "cubic"}:
            power = f"^{POWERS[name]}"
        elif name == "raiseto":
            power = f"^{argument or ''}"
        elif name in POWERS or name == "tothe":
            parts[-1:] = [(f"{one}^{POWERS.get(name) or argument}", under) for one, under in parts[-1:]]
        elif name in {"of", "highlight", "cancel"}:
            parts[-1:] = [(f"{one} {argument}" if name == "of" else one, under) for one, under in parts[-1:]]
        elif name:
            symbol = units.get(name) or UNITS.get(name) or (argument or name)
            symbol = PART.sub(lambda one: UNITS.get(one[1] or "", one[2] or one[4] or ""), symbol)
            parts.append((f"{prefix}{symbol}{power}", is_under))
            prefix, power, is_under = "", "", False
            if argument and (name in units or name in UNITS or name in ABBREVIATED):
                parts.append((argument, False))
        elif exponent_of_last:
            parts[-1:] = [(f"{one}^{exponent_of_last}", under) for one, under in parts[-1:]]
        elif character == "/":
            is_under = True
        elif character and (character.isalnum() or character in "%°$"):
            parts.append((f"{prefix}{character}", is_under))
            prefix, is_under = "", False
    return parts
