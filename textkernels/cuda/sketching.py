"""MinHash signatures and band keys on a GPU, compiled by numba; with the formulas of `textkernels.sketch`.

Each block of threads sketches one document. Its threads share the positions of the document: the first bytes of
characters, or words. A thread hashes the shingle at each of its positions from the shingle's first character,
because a rolling hash would make threads wait for each other. It takes the minimum of the hash and the value in the
slot, in the block's shared memory. A long document is cut into tiles with a block each, whose minima are merged in
the signature. A minimum does not depend on the order of its values, so signatures are equal on GPUs and CPUs, bit
for bit.
"""

from typing import Any

import numpy as np
from numba import cuda

from zyda_flows.textkernels import sketch, utf8
from zyda_flows.textkernels.sketch import EMPTY, GOLDEN, MOST_VALUES

THREADS = 128  # of a block
TILE = 1 << 16  # positions of a document for one block: bytes, or words

on_device = cuda.jit(device=True)
mix = on_device(utf8.mix.py_func)
code_point = on_device(utf8.code_point.py_func)
extend_shingle = on_device(sketch.extend_shingle.py_func)
finish_shingle = on_device(sketch.finish_shingle.py_func)
slot_of = on_device(sketch.slot_of.py_func)
value_of = on_device(sketch.value_of.py_func)

ONE = np.uint64(1)


@on_device
def shingle_of_characters(data, place, start, end, width):
    """Return the hash of the shingle at a byte, and whether a shingle begins there. Positions are uint64."""
    h, bits, i, beyond = np.uint64(0), np.uint8(0), place, place + np.uint64(width)
    if beyond <= end:
        while i < beyond:
            bits |= data[i]
            h = extend_shingle(h, data[i])
            i += ONE
        if bits < 0x80:  # all bytes are ASCII
            return finish_shingle(h), True
    elif place != start:  # there are fewer bytes than characters in a shingle
        return h, False
    if data[place] & 0xC0 == 0x80:  # 10xxxxxx: not the first byte of a character
        return h, False
    h, n, i = np.uint64(0), 0, place
    while n < width and i < end:
        code, size = code_point(data, i)
        h = extend_shingle(h, code)
        i += size
        n += 1
    return finish_shingle(h), n == width or place == start


@on_device
def shingle_of_words(words, place, start, end, width):
    """Return the hash of the shingle that begins at a word, and whether a shingle begins there."""
    h, i, beyond = np.uint64(0), place, place + np.uint64(width)
    while i < beyond and i < end:
        h = extend_shingle(h, words[i])
        i += ONE
    return finish_shingle(h), beyond <= end or place == start


def make_kernels(shingle_at: Any) -> tuple[Any, Any, Any]:
    """Return three kernels that sketch documents; `shingle_at` hashes the shingle at a position.

    1. Sketch documents, a block each: text (characters or words), ends (n + 1,) int64, chosen (m,) int64: the
    documents, signatures (n, values) uint64, which it fills. 2. Play one round for tiles of documents. 3. Fill, for
    tiles of documents, the slots that are empty after all rounds: was_empty (n, values) bool.
    """

    @on_device
    def play(text, first, beyond, start, end, width, round_, round_shift, slots, values):
        """Put the shingles of the positions from `first` to `beyond` into their slots of a round."""
        offset = round_ * GOLDEN
        place = first + np.uint64(cuda.threadIdx.x)
        while place < beyond:
            h, is_shingle = shingle_at(text, place, start, end, width)
            if is_shingle:
                x = mix(h + offset)
                slot, value = np.int64(slot_of(x, values)), value_of(x, round_, round_shift)
                if value < slots[slot]:  # rarely true once slots have values
                    cuda.atomic.min(slots, slot, value)
            place += np.uint64(cuda.blockDim.x)

    @cuda.jit
    def sketch_documents(text, ends, chosen, width, round_shift, signatures):
        slots = cuda.shared.array(MOST_VALUES, np.uint64)
        was_empty = cuda.shared.array(MOST_VALUES, np.uint8)
        document = chosen[cuda.blockIdx.x]
        start, end = np.uint64(ends[document]), np.uint64(ends[document + 1])
        count, values = signatures.shape[1], np.uint64(signatures.shape[1])
        for slot in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            slots[slot] = EMPTY
        cuda.syncthreads()
        round_, some_empty = np.uint64(0), 1
        while some_empty and round_ < values:
            play(text, start, end, start, end, width, round_, round_shift, slots, values)
            cuda.syncthreads()
            empty_here = 0
            for slot in range(cuda.threadIdx.x, count, cuda.blockDim.x):
                was_empty[slot] = slots[slot] == EMPTY
                empty_here |= was_empty[slot]
            some_empty = cuda.syncthreads_or(empty_here)
            round_ += ONE
        if some_empty:
            fill(text, start, end, start, end, width, round_shift, slots, was_empty, count)
            cuda.syncthreads()
        for slot in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            signatures[document, slot] = slots[slot]

    @on_device
    def fill(text, first, beyond, start, end, width, round_shift, slots, was_empty, count):
        """Fill the slots that are empty after all rounds: round values + s fills slot s only."""
        place = first + np.uint64(cuda.threadIdx.x)
        while place < beyond:
            h, is_shingle = shingle_at(text, place, start, end, width)
            if is_shingle:
                for slot in range(count):
                    if was_empty[slot]:
                        round_ = np.uint64(count + slot)
                        value = value_of(mix(h + round_ * GOLDEN), round_, round_shift)
                        if value < slots[slot]:
                            cuda.atomic.min(slots, slot, value)
            place += np.uint64(cuda.blockDim.x)

    @cuda.jit
    def play_tiles(text, ends, documents, firsts, tile, width, round_, round_shift, signatures):
        slots = cuda.shared.array(MOST_VALUES, np.uint64)
        document, first = documents[cuda.blockIdx.x], np.uint64(firsts[cuda.blockIdx.x])
        start, end = np.uint64(ends[document]), np.uint64(ends[document + 1])
        count, values = signatures.shape[1], np.uint64(signatures.shape[1])
        for slot in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            slots[slot] = EMPTY
        cuda.syncthreads()
        beyond = min(end, first + np.uint64(tile))
        play(text, first, beyond, start, end, width, np.uint64(round_), round_shift, slots, values)
        cuda.syncthreads()
        for slot in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            if slots[slot] < signatures[document, slot]:
                cuda.atomic.min(signatures, (document, slot), slots[slot])

    @cuda.jit
    def fill_tiles(text, ends, documents, firsts, tile, width, round_shift, was_empty, signatures):
        document, first = documents[cuda.blockIdx.x], np.uint64(firsts[cuda.blockIdx.x])
        start, end = np.uint64(ends[document]), np.uint64(ends[document + 1])
        beyond = min(end, first + np.uint64(tile))
        count = signatures.shape[1]
        fill(
            text, first, beyond, start, end, width, round_shift, signatures[document], was_empty[document], count
        )  # fmt: skip

    return sketch_documents, play_tiles, fill_tiles


CHARACTER_KERNELS, WORD_KERNELS = make_kernels(shingle_of_characters), make_kernels(shingle_of_words)


@cuda.jit
def hash_bands(signatures, keys):
    """Hash each band of each signature: (n, values) uint64 to (n, bands), a thread each."""
    i = cuda.grid(1)
    bands = keys.shape[1]
    document, band = i // bands, i % bands
    if document < keys.shape[0]:
        rows = signatures.shape[1] // bands
        key = np.uint64(band) * GOLDEN
        for row in range(rows):
            key = mix(key ^ signatures[document, band * rows + row]) + GOLDEN
        keys[document, band] = key


def signatures(
    xp: Any, kernels: tuple[Any, Any, Any], text: Any, ends: Any, *, width: int, values: int, tile: int = TILE
) -> Any:
    """Sketch documents on the device.

    xp: the module of its arrays. kernels: CHARACTER_KERNELS for UTF-8 bytes, or WORD_KERNELS for hashed words.
    text: of all documents, uint8 or uint64. ends: (n + 1,) int64, where document i is text[ends[i]:ends[i + 1]].
    tile: documents with more positions are cut into tiles of this size.

    Returns (n, values) uint64; the row of an empty document is all EMPTY.
    """
    sketch_documents, play_tiles, fill_tiles = kernels
    _, round_shift = sketch.constants(width, values)
    found = xp.full((len(ends) - 1, values), EMPTY, np.uint64)
    sizes = ends[1:] - ends[:-1]
    short = xp.flatnonzero((sizes > 0) & (sizes <= tile))
    if len(short):
        sketch_documents[len(short), THREADS](text, ends, short, width, round_shift, found)
    long = xp.flatnonzero(sizes > tile)
    round_ = 0
    while len(long) and round_ < values:
        documents, firsts = tiles_of(xp, ends, long, tile)
        play_tiles[len(documents), THREADS](
            text, ends, documents, firsts, tile, width, round_, round_shift, found
        )
        long = long[(found[long] == EMPTY).any(axis=1)]
        round_ += 1
    if len(long):
        documents, firsts = tiles_of(xp, ends, long, tile)
        was_empty = found == EMPTY
        fill_tiles[len(documents), THREADS](
            text, ends, documents, firsts, tile, width, round_shift, was_empty, found
        )
    return found


def tiles_of(xp: Any, ends: Any, chosen: Any, tile: int) -> tuple[Any, Any]:
    """Cut documents into tiles: return the document and the first position of each tile, (m,) int64 twice."""
    counts = (ends[chosen + 1] - ends[chosen] + tile - 1) // tile
    beyond = xp.cumsum(counts)
    numbers = xp.arange(int(beyond[-1]))
    which = xp.searchsorted(beyond, numbers, side="right")
    documents = chosen[which]
    return documents, ends[documents] + (numbers - (beyond - counts)[which]) * tile


def band_keys(xp: Any, found: Any, *, bands: int) -> Any:
    """Hash each band of each signature: (n, values) uint64 to (n, bands)."""
    keys = xp.empty((len(found), bands), np.uint64)
    if keys.size:
        hash_bands[-(-keys.size // THREADS), THREADS](found, keys)
    return keys
