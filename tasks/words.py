"""Numbers of things, as sentences have them."""


def counted(count: int, noun: str) -> str:
    """Write a number and its noun, which takes an s unless there is one.

    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def and_replaced(count: int | None) -> str:
    """Go on with how many times something was put in the place of another; say nothing where it never was.

    >>> and_replaced(1200), and_replaced(None)
    (', 1,200 replaced', '')
    """
    return f", {count:,} replaced" if count else ""
