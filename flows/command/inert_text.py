"""Replace characters in texts that would control a terminal."""

ENDS_OF_LINES_AND_TABS = "\n\t"
# Control characters, some of which have pictures in Unicode, and characters that change the direction of text.
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in ENDS_OF_LINES_AND_TABS} | {
    0x7F: 0x2421
}
CONTROLS = [
    *range(0x80, 0xA0),
    0x200E,
    0x200F,
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
]
INERT = PICTURES | dict.fromkeys(CONTROLS, 0xFFFD)


def inert(text: str) -> str:
    """Return a text without characters that control a terminal, and without lone surrogates."""
    return text.translate(INERT).encode("utf-8", "replace").decode()
