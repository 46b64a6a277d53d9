"""The blocks of bzip2, which begin at any bit: each can be decompressed by itself, and has a checksum of its own.

A block of a damaged file is read as a file of its own, with a head and an end made for it, as bzip2recover does it.
"""

import bz2
import re
from typing import NamedTuple

BEGIN, END = (
    0x314159265359,
    0x177245385090,
)  # before a block and at the end of all: digits of pi and of its root
MARK_BITS, CRC_BITS = 48, 32
HEAD = b"BZh9"  # the largest blocks, which others fit in
MAX_BLOCK = 1 << 21  # bytes of a compressed block, which has up to 900,000 of what was compressed
# Of a mark that begins at any of the bits of a byte, five bytes are whole, and the first of them is the next one.
WHOLE = {
    (mark << 8 - shift).to_bytes(7, "big")[1:6]: (shift, mark == END)
    for mark in (BEGIN, END)
    for shift in range(8)
}
ANY = re.compile(b"|".join(map(re.escape, WHOLE)))


class Mark(NamedTuple):
    """Where a block begins, in bits, or the end of all."""

    bit: int
    is_end: bool


def bits_of(data: bytes | bytearray, bit: int, count: int) -> int:
    """Return so many bits as a number, the first one highest."""
    end = bit + count
    taken = int.from_bytes(data[bit // 8 : (end + 7) // 8], "big")
    return taken >> -end % 8 & ((1 << count) - 1)


def next_mark(data: bytes | bytearray, bit: int) -> Mark | None:
    """Return the first mark at a bit or after it; one may begin in the last seven bytes and is not seen."""
    place = bit // 8 + 1
    while found := ANY.search(data, place):
        shift, is_end = WHOLE[found[0]]
        start = (found.start() - 1) * 8 + shift
        is_whole = start + MARK_BITS <= 8 * len(data)
        if start >= bit and is_whole and bits_of(data, start, MARK_BITS) == (END if is_end else BEGIN):
            return Mark(start, is_end)
        place = found.start() + 1
    return None


def decompressed(data: bytes | bytearray, start: int, end: int) -> bytes:
    """Decompress the block between two bits. Raises OSError or EOFError where it is damaged."""
    size, crc = end - start, bits_of(data, start + MARK_BITS, CRC_BITS)
    bits = ((bits_of(data, start, size) << MARK_BITS | END) << CRC_BITS) | crc
    unused = -(size + MARK_BITS + CRC_BITS) % 8
    whole = (bits << unused).to_bytes((size + MARK_BITS + CRC_BITS + unused) // 8, "big")
    engine = bz2.BZ2Decompressor()
    content = engine.decompress(HEAD + whole)
    if not engine.eof:
        raise EOFError("it ends in the middle of a block")
    return content
