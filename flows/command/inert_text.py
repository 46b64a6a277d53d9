"""Texts of whatever origin, written so that no terminal obeys them."""

ENDS_OF_LINES_AND_TABS = "\n\t"
# What a terminal would obey: the control characters, of which some have pictures, and those that turn texts round.
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in ENDS_OF_LINES_AND_TABS} | {
    0x7F: 0x2421
}
OBEYED = [*range(0x80, 0xA0), 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
INERT = PICTURES | dict.fromkeys(OBEYED, 0xFFFD)


def inert(text: str) -> str:
    """Write a text of whatever origin so that no terminal does what it says, and any can be given it."""
    return text.translate(INERT).encode("utf-8", "replace").decode()
