"""Instructions that numba does not offer: operations on 64 bytes together, prefetching, counts of bits.

Each is LLVM code, which LLVM compiles to the best instructions of the processor. Called by kernels in other files.
"""

from functools import reduce

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLANK = 32
BYTES_64, WORD = ir.VectorType(ir.IntType(8), 64), ir.IntType(64)


@intrinsic
def load_8(typing_context, data, i):
    """Read 8 bytes from byte i as a little-endian uint64, unaligned; not checked against the end."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def prefetch(typing_context, entries, place):
    """Prefetch the cache line of an item of a contiguous array."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # 0: to read; 3: keep in all caches; 1: data, not instructions.
        builder.call(call, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(entries, types.uint64), generate


def load_64(context, builder, kind, arguments, offset):
    """Read 64 bytes of an array from an index on, the two arguments; not checked against the end."""
    array = context.make_array(kind)(context, builder, arguments[0])
    place = builder.gep(array.data, [builder.add(arguments[1], ir.Constant(WORD, offset))])
    return builder.load(builder.bitcast(place, BYTES_64.as_pointer()), align=1)


def within(builder, x, first, last):
    """Return a mask of the bytes, of 64, that are in a range."""
    # One comparison for both ends: below `first` the difference wraps to the count or more.
    begin, count = (ir.Constant(BYTES_64, [value] * 64) for value in (first, last - first + 1))
    return builder.icmp_unsigned("<", builder.sub(x, begin), count)


def repeated(builder, byte):
    """Return a vector of 64 equal bytes."""
    single = builder.insert_element(ir.Constant(BYTES_64, None), byte, ir.IntType(32)(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))


def mask_of_64(context, builder, kind, arguments, says):
    """Return a bit for each of the 64 bytes from an index on; 0 for bytes beyond the end of the array."""
    size = context.make_array(kind)(context, builder, arguments[0]).nitems
    last = builder.sub(size, WORD(64))
    place = builder.select(builder.icmp_signed("<", arguments[1], last), arguments[1], last)
    mask = says(load_64(context, builder, kind, (arguments[0], place), 0))
    return builder.lshr(builder.bitcast(mask, WORD), builder.sub(arguments[1], place))


@intrinsic
def between_64(typing_context, data, i, first, last):
    """Return the bits of `within_64`, with 0 for bytes beyond the end. data: has at least 64 bytes; i: in data."""

    def generate(context, builder, signature, arguments):
        begin, count = arguments[2], builder.sub(arguments[3], arguments[2])

        def says(x):
            return builder.icmp_unsigned(
                "<=", builder.sub(x, repeated(builder, begin)), repeated(builder, count)
            )

        return mask_of_64(context, builder, signature.args[0], arguments, says)

    return types.uint64(data, types.int64, types.uint8, types.uint8), generate


@intrinsic
def letters_64(typing_context, data, i, letter):
    """Return a bit for each of 64 bytes: whether it is `letter`, in lower case, or its capital. As `between_64`."""

    def generate(context, builder, signature, arguments):
        def says(x):
            lower = builder.or_(x, ir.Constant(BYTES_64, [0x20] * 64))
            return builder.icmp_unsigned("==", lower, repeated(builder, arguments[2]))

        return mask_of_64(context, builder, signature.args[0], arguments, says)

    return types.uint64(data, types.int64, types.uint8), generate


@intrinsic
def trailing_zeros(typing_context, x):
    """Count the zero bits below the lowest set bit: 64 if no bit is set."""

    def generate(context, builder, signature, arguments):
        # The flag 0 defines the result for zero, which LLVM would leave undefined otherwise.
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def bits_set(typing_context, x):
    """Count the set bits."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def white_space_of_64(typing_context, data, i):
    """Return a bit for each of 64 bytes that is ASCII white space, and for each that begins wider white space.

    White space is defined by `str.isspace`. The two bytes after the 64 are read too.
    """

    def generate(context, builder, signature, arguments):
        x, y, z = (load_64(context, builder, signature.args[0], arguments, offset) for offset in (0, 1, 2))

        def either(*masks):
            return reduce(builder.or_, masks)

        def all_of(*masks):
            return reduce(builder.and_, masks)

        def is_byte(of, value):
            return within(builder, of, value, value)

        ascii_space = either(within(builder, x, 9, 13), within(builder, x, 28, 32))
        # U+85 and U+A0, then U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000
        after_e2_80 = either(within(builder, z, 0x80, 0x8A), within(builder, z, 0xA8, 0xA9), is_byte(z, 0xAF))
        wide = either(
            all_of(is_byte(x, 0xC2), either(is_byte(y, 0x85), is_byte(y, 0xA0))),
            all_of(is_byte(x, 0xE1), is_byte(y, 0x9A), is_byte(z, 0x80)),
            all_of(is_byte(x, 0xE2), is_byte(y, 0x80), after_e2_80),
            all_of(is_byte(x, 0xE2), is_byte(y, 0x81), is_byte(z, 0x9F)),
            all_of(is_byte(x, 0xE3), is_byte(y, 0x80), is_byte(z, 0x80)),
        )
        words = [builder.bitcast(mask, WORD) for mask in (ascii_space, wide)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(data, types.int64), generate


@intrinsic
def within_64(typing_context, data, i, first, last):
    """Return a bit for each of 64 bytes: whether it is from `first` to `last`."""

    def generate(context, builder, signature, arguments):
        x = load_64(context, builder, signature.args[0], arguments, 0)
        begin = repeated(builder, arguments[2])
        count = builder.sub(repeated(builder, arguments[3]), begin)
        mask = builder.icmp_unsigned("<=", builder.sub(x, begin), count)  # below `first` the difference wraps
        return builder.bitcast(mask, WORD)

    return types.uint64(data, types.int64, types.uint8, types.uint8), generate


@intrinsic
def same_64(typing_context, data, i):
    """Return a bit for each of 64 bytes: whether it equals the byte after it."""

    def generate(context, builder, signature, arguments):
        x, y = (load_64(context, builder, signature.args[0], arguments, offset) for offset in (0, 1))
        return builder.bitcast(builder.icmp_unsigned("==", x, y), WORD)

    return types.uint64(data, types.int64), generate


@intrinsic
def special_64(typing_context, data, i):
    """Return a bit for each of 64 bytes: whether `item_words` must read it with care.

    These are bytes beyond ASCII, &, <, a backslash, and a hyphen before white space or a backslash. The byte after
    the 64 is read too.
    """

    def generate(context, builder, signature, arguments):
        x, y = (load_64(context, builder, signature.args[0], arguments, offset) for offset in (0, 1))

        def is_byte(of, byte):
            return within(builder, of, byte, byte)

        ends_line = builder.or_(within(builder, y, 0, BLANK), is_byte(y, 92))
        masks = (within(builder, x, 0x80, 0xFF), *(is_byte(x, byte) for byte in b"&<\\"))
        mask = reduce(builder.or_, masks, builder.and_(is_byte(x, 45), ends_line))
        return builder.bitcast(mask, WORD)

    return types.uint64(data, types.int64), generate
