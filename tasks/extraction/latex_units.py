# ruff: noqa: RUF001, RUF002, SIM905
r"""Write numbers and quantities of siunitx, versions 2 and 3, as text: `\SI{5.2}{\kilo\gram}` is 5.2 kg."""

import re
from collections.abc import Mapping

# The arguments of commands: n a number, l a list with semicolons, p a product, a an angle, u a unit.
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
# Units that are abbreviated as their commands: \km, \MHz.
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
MAX_ARGUMENT = 1000  # characters


def quantity(name: str, arguments: list[str], units: Mapping[str, str]) -> str:
    """Return a quantity as text.

    Args:
        name: a command of COMMANDS.
        arguments: its arguments.
        units: the symbols of the author's units, by command.
    """
    kinds = COMMANDS[name]
    arguments = [argument[:MAX_ARGUMENT] for argument in arguments]
    if kinds == "a":
        return angle(arguments[0])
    unit = unit_text(arguments[-1], units) if kinds.endswith("u") else ""
    if kinds == "u":
        return unit
    number = values(kinds, arguments)
    return f"{number}{'' if unit in ATTACHED or not unit or not number else ' '}{unit}"


def values(kinds: str, arguments: list[str]) -> str:
    """Return the numbers of a command as text: a number, a range, a list or a product."""
    if kinds.startswith("nn"):
        return f"{number_text(arguments[0])} to {number_text(arguments[1])}"
    if kinds.startswith("l"):
        numbers = [number_text(number) for number in arguments[0].split(";") if number.strip()]
        return " and ".join(filter(None, [", ".join(numbers[:-1]), *numbers[-1:]]))
    if kinds.startswith("p"):
        return " × ".join(map(number_text, arguments[0].split("x")))
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
    parts = [number_text(part) for part in text.split(";")][:3]
    return "".join(part + sign for part, sign in zip(parts, ("°", *MINUTES), strict=False) if part)


def unit_text(unit: str, units: Mapping[str, str]) -> str:
    r"""Return a unit as text: `\metre\per\second\squared` is m/s^2, as is `m.s^{-2}` written m s^-2."""
    if "\\" not in unit:
        return SPACES.sub(" ", POWER.sub(r"^\1", unit.replace(".", " ").replace("~", " "))).strip()
    return quotient(UnitReader(units).factors_of(unit))


def quotient(factors: list[tuple[str, bool]]) -> str:
    """Return factors and divisors as text. factors: each with whether it is a divisor."""
    numerator = [text for text, is_divisor in factors if not is_divisor]
    divisor = [text for text, is_divisor in factors if is_divisor]
    if not divisor:
        return " ".join(numerator)
    if not numerator:
        return " ".join(text.replace("^", "^-") if "^" in text else f"{text}^-1" for text in divisor)
    return f"{' '.join(numerator)}/{divisor[0] if len(divisor) == 1 else '(' + ' '.join(divisor) + ')'}"


def plain_symbol(part: re.Match[str]) -> str:
    """Return the symbol of a unit's command, the argument of another command, or a character."""
    return UNITS.get(part[1] or "", part[2] or part[4] or "")


class UnitReader:
    """Reads the factors of a unit. units: the symbols of the author's units, by command."""

    def __init__(self, units: Mapping[str, str]) -> None:
        self.units = units
        self.factors = list[tuple[str, bool]]()
        self.prefix, self.power, self.is_divisor = "", "", False  # of the next factor

    def factors_of(self, unit: str) -> list[tuple[str, bool]]:
        """Return the factors of a unit with their powers, each with whether it is a divisor."""
        for match in PART.finditer(unit):
            name, argument, exponent, character = match.groups()
            if name:
                self.read_command(name, argument or "")
            elif exponent:
                self.append_to_last(f"^{exponent}")
            elif character == "/":
                self.is_divisor = True
            elif character and (character.isalnum() or character in "%°$"):
                self.factors.append((f"{self.prefix}{character}", self.is_divisor))
                self.prefix, self.is_divisor = "", False
        return self.factors

    def read_command(self, name: str, argument: str) -> None:
        if name == "per":
            self.is_divisor = True
        elif name in PREFIXES:
            self.prefix = PREFIXES[name]
        elif name in {"square", "cubic"}:
            self.power = f"^{POWERS[name]}"
        elif name == "raiseto":
            self.power = f"^{argument}"
        elif name in POWERS or name == "tothe":
            power = POWERS.get(name, argument)
            self.append_to_last(f"^{power}" if power else "")
        elif name == "of":
            self.append_to_last(f" {argument}" if argument else "")
        elif name not in {"highlight", "cancel"}:
            self.read_unit(name, argument)

    def read_unit(self, name: str, argument: str) -> None:
        """Add a unit with the prefix and the power before it. argument: text in braces after the unit."""
        symbol = PART.sub(plain_symbol, self.units.get(name) or UNITS.get(name) or argument or name)
        self.factors.append((f"{self.prefix}{symbol}{self.power}", self.is_divisor))
        self.prefix, self.power, self.is_divisor = "", "", False
        if argument and (name in self.units or name in UNITS or name in ABBREVIATED):
            self.factors.append((argument, False))

    def append_to_last(self, text: str) -> None:
        if self.factors:
            last, is_divisor = self.factors[-1]
            self.factors[-1] = (last + text, is_divisor)
