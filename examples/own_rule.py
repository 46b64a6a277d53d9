"""A rule of one's own: documents with more than a tenth of their lines in capital letters.

A recipe names it as `filter: own_rule:capitals`. The function takes the texts of some documents and returns one
value for each: null, and the document stays; a text, and the document is removed, with that text as its note.
"""

import pyarrow as pa

MOST = 0.1


def capitals(texts: pa.LargeStringArray) -> pa.StringArray:
    """Return a note for each text that shouts, and null for the others."""
    return pa.array([note(text) for text in texts.to_pylist()], pa.string())


def note(text: str) -> str | None:
    """Say how many lines of a text are in capital letters, where they are too many."""
    lines = [line for line in text.splitlines() if any(map(str.isalpha, line))]
    loud = sum(line.isupper() for line in lines)
    return f"{loud} of {len(lines)} lines are in capital letters" if loud > MOST * len(lines) else None
