"""Format numbers of things and names of stages for sentences."""

STAGES = {
    "removals": "deduplication",
    "against": "comparison with other corpora",
    "content_against": "comparison of content with other corpora",
    "deny": "the deny list",
    "cuts": "passages",
}


def counted(count: int, noun: str) -> str:
    """Format a number and its noun, with an s unless the number is 1.

    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_words(stage: str) -> str:
    """Return the name of a stage for use in a sentence.

    >>> in_words("removals"), in_words("removals2"), in_words("rules")
    ('deduplication', 'deduplication 2', 'rules')
    """
    name, number = (stage[:-1], f" {stage[-1]}") if stage[-1:].isdigit() else (stage, "")
    return f"{STAGES.get(name, name)}{number}"


def and_replaced(count: int) -> str:
    """Return the number of replacements as the end of a sentence; "" if there were none.

    >>> and_replaced(1200), and_replaced(0)
    (', 1,200 replaced', '')
    """
    return f", {count:,} replaced" if count else ""
