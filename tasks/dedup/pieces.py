"""Pieces: a long text is searched in pieces, which bounds the memory."""

from collections.abc import Iterator

PIECE = 1 << 20  # characters


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text in pieces of about PIECE characters, cut at the end of a line or a word if possible."""
    start = 0
    while start < len(text):
        end = min(len(text), start + PIECE)
        if end < len(text):
            for mark in ("\n", " "):
                if (cut := text.rfind(mark, start, end)) > start:
                    end = cut
                    break
        yield text[start:end]
        start = end
