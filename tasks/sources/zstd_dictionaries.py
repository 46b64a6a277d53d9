"""Zstandard dictionaries that are stored in the file that was compressed with them.

A `.warc.zst` may begin with a skippable frame that contains the dictionary of all frames after it, plain or
compressed. Source: Zstandard Compression for WARC Files 1.0 of the IIPC, sections 4.2 and
5.
"""

import zstandard

from zyda_flows.tasks.limits import limits

MARK = b"\x5d\x2a\x4d\x18"  # of the frame, 0x184D2A5D; its size follows in four bytes
HEAD = 8
BEGINS = b"\x37\xa4\x30\xec"
COMPRESSED = b"\x28\xb5\x2f\xfd"
WINDOW = 1 << 23
AT_ONCE = 1 << 8  # bytes that are decompressed at a time; four bytes may give a block of 128 KiB


class BadDictionary(Exception):
    """What stands where a dictionary would is none, or none that is taken."""


def frame_size(head: bytes) -> int:
    """Return the size of a dictionary's frame after its head. head: its first HEAD bytes."""
    return int.from_bytes(head[len(MARK) : HEAD], "little")


def dictionary_of(content: bytes) -> zstandard.ZstdCompressionDict:
    """Return the dictionary in the content of a frame. Raises BadDictionary."""
    if content.startswith(COMPRESSED):
        content = decompressed(content)
    if not content.startswith(BEGINS):
        raise BadDictionary("the frame of its dictionary has no dictionary")
    dictionary = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_FULLDICT)
    try:
        zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()  # this call checks its tables
    except zstandard.ZstdError as error:
        raise BadDictionary(f"its dictionary is damaged: {error}") from error
    return dictionary


def decompressed(content: bytes) -> bytes:
    """Decompress a dictionary. Raises BadDictionary."""
    most = limits().zstd_dictionary
    decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    plain = bytearray()
    try:
        for start in range(0, len(content), AT_ONCE):
            if decoder.eof:
                raise BadDictionary("other bytes follow its dictionary in the same frame")
            plain += decoder.decompress(content[start : start + AT_ONCE])
            if len(plain) > most:
                raise BadDictionary(f"its dictionary has more than {most:,} bytes")
    except zstandard.ZstdError as error:
        raise BadDictionary(f"its dictionary cannot be decompressed: {error}") from error
    if not decoder.eof or decoder.unused_data:
        raise BadDictionary("its dictionary has another length than its frame")
    return bytes(plain)
