"""MinHash band keys on the CPU, compiled by numba.

The signature is a fast similarity sketch (Dahlgaard, Knudsen and Thorup, "Fast Similarity Sketching", FOCS 2017).
In round r every shingle falls into a slot h_r(x) with the value (r, g_r(x)), and each slot keeps its minimum.
Rounds are played until no slot is empty; from round t on, round r fills slot r - t alone. A long document needs a
single round, that is a hash for each character, where a classical MinHash of t values needs t. As in a MinHash, two
documents agree in a slot with probability equal to their Jaccard similarity, for any number of slots, because the
shingle with the least value of a slot depends only on the hashes of the shingles.

A shingle (n-gram) is `width` consecutive code points, or words hashed by `textkernels.words`. Its hash is a
polynomial in them in an odd base modulo 2**64, which rolls along the text (a Rabin-Karp hash). All arithmetic is on
uint64 and wraps. The constants are arbitrary odd numbers; changing one changes every band key (bump
`tasks.signatures.minhash.VERSION`).
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import mix

BASE = np.uint64(0x9E6C63D0876A9A35)
CHARACTER = np.uint64(0xD6E8FEB86659FD93)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
STRETCH = np.uint64(16)  # bytes that are tested for ASCII together

MOST_VALUES = 1024
HALF = np.uint64(32)
EMPTY = np.uint64(2**64 - 1)  # not less than any value, so that the first value takes the slot
LONG = 1 << 12  # if a slot of a longer document stays empty after the first round, few shingles are distinct
# With their code points 192 KiB, which stay in the second-level cache; 2**10 to 2**18 are as fast, within a
# tenth.
SCRATCH_HASHES = 1 << 14


# Formulas that `textkernels.cuda` compiles for GPUs too; so they call no other functions.


@njit(cache=True, nogil=True, inline="always")
def extend_shingle(h, code):
    """Return the hash of a shingle extended by a character or word."""
    return h * BASE + np.uint64(code) + ONE  # + ONE, so that a character of code 0 counts too


@njit(cache=True, nogil=True, inline="always")
def finish_shingle(h):
    """Return the final hash of a shingle."""
    return h * CHARACTER


@njit(cache=True, nogil=True, inline="always")
def slot_of(x, slots):
    """Return the slot of a mixed hash: the upper 32 bits, scaled to the number of slots.

    All slots are equally likely, up to a part in millions. If their number is a power of two, the slot is the
    uppermost bits.
    """
    return ((x >> HALF) * slots) >> HALF


@njit(cache=True, nogil=True, inline="always")
def value_of(x, round_, round_shift):
    """Return the value of a mixed hash in its slot: the round's number above bits of the hash."""
    return (round_ << round_shift) | (x & ((ONE << round_shift) - ONE))


@njit(cache=True, nogil=True)
def decode(data, start, end, codes):
    """Write code points of valid UTF-8 into `codes`, as many as fit; return their number and the next byte."""
    i, stop, n = np.uint64(start), np.uint64(end), np.uint64(0)  # unsigned: not tested for being negative
    room = np.uint64(codes.size)
    while i < stop and n < room:
        while i + STRETCH <= stop and n + STRETCH <= room:
            bits = np.uint8(0)  # the bytes combined by OR: the highest bit is not set if all are ASCII
            for k in range(STRETCH):
                bits |= data[i + k]
            if bits >= 0x80:
                break
            for k in range(STRETCH):
                codes[n + k] = data[i + k]
            i += STRETCH
            n += STRETCH
        for _ in range(STRETCH):
            if i >= stop or n >= room:
                break
            # The first byte tells the number of bytes; each after it is 10xxxxxx, six bits of the code point.
            first = np.uint32(data[i])
            if first < 0x80:
                code, size = first, ONE
            elif first < 0xE0:
                code, size = (first & 0x1F) << 6 | (data[i + ONE] & 0x3F), TWO
            elif first < 0xF0:
                code = (first & 0x0F) << 12 | np.uint32(data[i + ONE] & 0x3F) << 6 | (data[i + TWO] & 0x3F)
                size = THREE
            else:
                code = (first & 0x07) << 18 | np.uint32(data[i + ONE] & 0x3F) << 12
                code |= np.uint32(data[i + TWO] & 0x3F) << 6 | (data[i + THREE] & 0x3F)
                size = THREE + ONE
            codes[n] = code
            i += size
            n += ONE
    return np.int64(n), np.int64(i)


@njit(cache=True, nogil=True)
def window(codes, start, width):
    """Hash the shingle of `width` characters at index `start`."""
    h = np.uint64(0)  # it wraps
    for i in range(start, start + width):
        h = extend_shingle(h, codes[i])
    return finish_shingle(h)


@njit(cache=True, nogil=True)
def roll(codes, count, width, oldest, hashes):
    """Hash the `count` shingles of some characters, at each index.

    Four windows roll along four parts of the text at once: a rolling hash waits for its previous value, so one
    window alone leaves the processor idle most of the time.
    """
    part, size = np.uint64(count // 4), np.uint64(width)
    a, b, c, d = np.uint64(0), part, TWO * part, THREE * part
    if part > 0:
        h0, h1 = window(codes, a, size), window(codes, b, size)
        h2, h3 = window(codes, c, size), window(codes, d, size)
        hashes[a], hashes[b], hashes[c], hashes[d] = h0, h1, h2, h3
        out = CHARACTER * oldest
        bias = (
            CHARACTER - out
        )  # the + ONE of `window` for the new character, less that of the old character; it wraps
        for i in range(ONE, part):
            j, k = i - ONE, i + size - ONE
            h0 = h0 * BASE + (np.uint64(codes[a + k]) * CHARACTER - np.uint64(codes[a + j]) * out + bias)
            h1 = h1 * BASE + (np.uint64(codes[b + k]) * CHARACTER - np.uint64(codes[b + j]) * out + bias)
            h2 = h2 * BASE + (np.uint64(codes[c + k]) * CHARACTER - np.uint64(codes[c + j]) * out + bias)
            h3 = h3 * BASE + (np.uint64(codes[d + k]) * CHARACTER - np.uint64(codes[d + j]) * out + bias)
            hashes[a + i], hashes[b + i], hashes[c + i], hashes[d + i] = h0, h1, h2, h3
    for i in range(THREE * part + part, np.uint64(count)):
        hashes[i] = window(codes, i, size)


@njit(cache=True, nogil=True)
def hash_shingles(data, start, end, width, oldest, codes, hashes):
    """Hash the shingles of the bytes [start, end), as many as the scratch arrays hold.

    `oldest` is BASE**width; `codes` is longer than `hashes` by width - 1. Returns the number of hashes, and the
    byte where the next shingle starts, or `end` after the last shingle.
    """
    n, stop = decode(data, start, end, codes)
    if n < width:
        hashes[0] = window(codes, 0, n)
        return 1, end
    roll(codes, n - width + 1, width, oldest, hashes)
    if stop < end:
        for _ in range(width - 1):  # back to the start of the first shingle that was not hashed
            stop -= 1
            while data[stop] & 0xC0 == 0x80:  # 10xxxxxx: not the first byte of a character
                stop -= 1
    return n - width + 1, stop


@njit(cache=True, nogil=True)
def play_round(hashes, round_, round_shift, signature):
    """Put every shingle into its slot of a round."""
    offset, number, slots = np.uint64(round_) * GOLDEN, np.uint64(round_), np.uint64(signature.size)
    for h in hashes:
        x = mix(h + offset)
        slot, value = slot_of(x, slots), value_of(x, number, round_shift)
        if value < signature[slot]:
            signature[slot] = value


@njit(cache=True, nogil=True)
def fill_directly(hashes, round_shift, signature):
    """Fill the slots that are still empty after as many rounds as slots: round t + s fills slot s only."""
    for slot in range(signature.size):
        if signature[slot] == EMPTY:
            round_ = np.uint64(signature.size + slot)
            for h in hashes:
                value = value_of(mix(h + round_ * GOLDEN), round_, round_shift)
                signature[slot] = min(signature[slot], value)


@njit(cache=True, nogil=True)
def distinct_hashes(data, start, end, width, oldest, codes, scratch):
    """Collect the distinct shingle hashes of a long document that repeats itself."""
    seen = {np.uint64(0)}  # numba infers the type from this element
    seen.clear()
    while start < end:
        count, start = hash_shingles(data, start, end, width, oldest, codes, scratch)
        for h in scratch[:count]:
            seen.add(h)
    return np.array(list(seen))


@njit(cache=True, nogil=True)
def sketch(data, start, end, width, oldest, round_shift, signature, codes, scratch):
    """Write the signature of the document in bytes [start, end), which is not empty."""
    count, next_ = hash_shingles(data, start, end, width, oldest, codes, scratch)
    play_round(scratch[:count], 0, round_shift, signature)
    fits = next_ == end
    while next_ < end:
        count, next_ = hash_shingles(data, next_, end, width, oldest, codes, scratch)
        play_round(scratch[:count], 0, round_shift, signature)
    if not np.any(signature == EMPTY):
        return
    hashes = scratch[:count]
    if not fits:  # a slot is empty after this many shingles: few of them are distinct
        hashes = distinct_hashes(data, start, end, width, oldest, codes, scratch)
    for round_ in range(1, signature.size):
        play_round(hashes, round_, round_shift, signature)
        if not np.any(signature == EMPTY):
            return
    fill_directly(hashes, round_shift, signature)


@njit(cache=True, nogil=True)
def sketch_words(words, width, oldest, round_shift, signature, scratch):
    """Write the signature of a document given by the hashes of its words, of which there is at least one."""
    shingles = max(1, words.size - width + 1)
    hashes = scratch[:shingles]
    if words.size < width:
        hashes[0] = window(words, 0, words.size)
    else:
        roll(words, shingles, width, oldest, hashes)
    for round_ in range(signature.size):
        play_round(hashes, round_, round_shift, signature)
        if not np.any(signature == EMPTY):
            return
        if round_ == 0 and hashes.size > LONG:
            hashes = np.unique(hashes)  # a slot is empty after this many shingles: few of them are distinct
    fill_directly(hashes, round_shift, signature)


@njit(cache=True, nogil=True)
def constants(width, values):
    """Return BASE**width, and the bit of a value above which the number of the round is stored.

    Rounds are numbered up to twice the number of values. Values of earlier rounds are less, and all bits of the
    number fit.
    """
    oldest = ONE
    for _ in range(width):
        oldest *= BASE
    return oldest, np.uint64(54 if values <= 512 else 53)


@njit(cache=True, nogil=True)
def _word_signatures(words, ends, width, signatures):
    oldest, round_shift = constants(width, signatures.shape[1])
    scratch = np.empty(max(1, np.max(ends[1:] - ends[:-1])), np.uint64)
    for i in range(ends.size - 1):
        if ends[i + 1] > ends[i]:
            sketch_words(words[ends[i] : ends[i + 1]], width, oldest, round_shift, signatures[i], scratch)


@njit(cache=True, nogil=True)
def _signatures(data, offsets, width, signatures):
    oldest, round_shift = constants(width, signatures.shape[1])
    scratch = np.empty(SCRATCH_HASHES, np.uint64)
    codes = np.empty(SCRATCH_HASHES + width - 1, np.uint32)
    for i in range(offsets.size - 1):
        if offsets[i + 1] > offsets[i]:
            start, end = offsets[i], offsets[i + 1]
            sketch(data, start, end, width, oldest, round_shift, signatures[i], codes, scratch)


@njit(cache=True, nogil=True)
def _shingle_hashes(data, offsets, width, hashes, ends):
    oldest, _ = constants(width, 2)
    codes = np.empty(max(1, np.max(offsets[1:] - offsets[:-1])) + width, np.uint32)
    for i in range(offsets.size - 1):
        count = 0
        if offsets[i + 1] > offsets[i]:
            document_hashes = hashes[ends[i] :]
            count, _ = hash_shingles(data, offsets[i], offsets[i + 1], width, oldest, codes, document_hashes)
        ends[i + 1] = ends[i] + count


@njit(cache=True, nogil=True)
def _word_shingle_hashes(words, word_ends, width, hashes, ends):
    oldest, _ = constants(width, 2)
    for i in range(word_ends.size - 1):
        document_words, document_hashes = words[word_ends[i] : word_ends[i + 1]], hashes[ends[i] :]
        count = min(document_words.size, max(1, document_words.size - width + 1))
        if document_words.size > width:
            roll(document_words, count, width, oldest, document_hashes)
        elif count:
            document_hashes[0] = window(document_words, 0, document_words.size)
        ends[i + 1] = ends[i] + count


@njit(cache=True, nogil=True)
def _band_keys(signatures, keys):
    rows = signatures.shape[1] // keys.shape[1]
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            key = np.uint64(band) * GOLDEN
            for row in range(rows):
                key = mix(key ^ signatures[i, band * rows + row]) + GOLDEN
            keys[i, band] = key


def signatures(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, width: int, values: int
) -> NDArray[np.uint64]:
    """Sketch every document of a block of text.

    data: the documents' UTF-8 bytes, concatenated, valid. offsets: (n + 1,), where document i is
    data[offsets[i]:offsets[i + 1]]. width: code points in a shingle; a shorter document is a single shingle.
    values: signature length, 2 to 1,024.

    Returns (n, values) uint64. The row of an empty document, which has no shingle, is all EMPTY.
    """
    check_buffers(data, offsets)
    result = no_signatures(len(offsets) - 1, values)
    _signatures(data, offsets, width, result)
    return result


def word_signatures(
    words: NDArray[np.uint64], ends: NDArray[np.int64], *, width: int, values: int
) -> NDArray[np.uint64]:
    """Sketch documents whose words were hashed by `textkernels.words.hash_words`.

    Returns (n, values) uint64; the row of a document without a word is all EMPTY.
    """
    result = no_signatures(len(ends) - 1, values)
    if len(result):
        _word_signatures(words, ends, width, result)
    return result


def shingle_hashes(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, width: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash every shingle of every document of a block of text, as `signatures` does.

    Returns the hashes, uint64, in the order of the text, and their ends, (n + 1,) int64: the hashes of document i
    are hashes[ends[i]:ends[i + 1]].
    """
    check_buffers(data, offsets)
    hashes, ends = np.empty(int(offsets[-1] - offsets[0]), np.uint64), np.zeros(len(offsets), np.int64)
    if len(offsets) > 1:
        _shingle_hashes(data, offsets, width, hashes, ends)
    return hashes[: ends[-1]], ends


def word_shingle_hashes(
    words: NDArray[np.uint64], word_ends: NDArray[np.int64], *, width: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash every shingle of words that `textkernels.words.hash_words` hashed; return as `shingle_hashes` does."""
    hashes, ends = np.empty(len(words), np.uint64), np.zeros(len(word_ends), np.int64)
    if len(word_ends) > 1:
        _word_shingle_hashes(words, word_ends, width, hashes, ends)
    return hashes[: ends[-1]], ends


def no_signatures(documents: int, values: int) -> NDArray[np.uint64]:
    if not 2 <= values <= MOST_VALUES:
        raise ValueError(f"values: expected 2 to {MOST_VALUES:,}, got {values}")
    return np.full((documents, values), EMPTY, np.uint64)


def band_keys(signatures: NDArray[np.uint64], *, bands: int) -> NDArray[np.uint64]:
    """Hash each band of each signature to one key: (n, values) uint64 to (n, bands) uint64.

    Band b is the rows from b * (values // bands) on.
    """
    keys = np.empty((len(signatures), bands), np.uint64)
    _band_keys(signatures, keys)
    return keys
