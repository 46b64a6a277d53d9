"""Instructions that numba has no name for: 64 bytes looked at together, cache lines asked for, bits found.

Each is code of LLVM, which makes of it what the processor can do. Called by the kernels of other files.
"""

from functools import reduce

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLANK, QUOTE = 32, 39
BYTES_64, WORD = ir.VectorType(ir.IntType(8), 64), ir.IntType(64)


@intrinsic
def load_8(typing_context, data, i):
    """Read 8 bytes as one little-endian uint64, wherever they begin; not checked against the end."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def prefetch(typing_context, entries, place):
    """Ask for the cache line of a place of a table, of its items one after the other, without waiting for it."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # 0: to read; 3: to be kept in every cache; 1: data, no instructions.
        builder.call(call, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(entries, types.uint64), generate


def load_64(context, builder, kind, arguments, offset):
    """Read 64 bytes of an array from a place on, the two arguments; not checked against the end."""
    array = context.make_array(kind)(context, builder, arguments[0])
    place = builder.gep(array.data, [builder.add(arguments[1], ir.Constant(WORD, offset))])
    return builder.load(builder.bitcast(place, BYTES_64.as_pointer()), align=1)


def within(builder, x, first, last):
    """Say of each of 64 bytes whether it is in a range."""
    # One comparison for both ends: below `first` the difference wraps to the count or more.
    begin, count = (ir.Constant(BYTES_64, [value] * 64) for value in (first, last - first + 1))
    return builder.icmp_unsigned("<", builder.sub(x, begin), count)


def repeated(builder, byte):
    """Return a byte 64 times."""
    single = builder.insert_element(ir.Constant(BYTES_64, None), byte, ir.IntType(32)(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))


@intrinsic
def edges_of_64(typing_context, data, i):
    """Look at 64 bytes and the two after them; return four words with a bit for each byte.

    The first says after which a pre-token begins: where the class changes, but for a blank and what
    follows it, and before the last of some white space. The others say which is no ASCII, which is a
    blank before a blank, and which is a quote before a letter. (The neighbours are read from memory: masks
    that are shifted instead LLVM takes apart bit by bit, which takes six times as long.)
    """

    def generate(context, builder, signature, arguments):
        x, y, z = (load_64(context, builder, signature.args[0], arguments, offset) for offset in (0, 1, 2))

        def is_letter(of):
            # 0x20 is what tells small letters from capitals in ASCII; it makes a letter of nothing else.
            lower = builder.or_(of, ir.Constant(BYTES_64, [0x20] * 64))
            return within(builder, lower, 97, 122)

        def is_space(of):
            return builder.or_(within(builder, of, 9, 13), within(builder, of, BLANK, BLANK))

        letter, space, blank = is_letter(y), is_space(y), within(builder, x, BLANK, BLANK)
        unlike = builder.xor(is_letter(x), letter)
        unlike = builder.or_(unlike, builder.xor(within(builder, x, 48, 57), within(builder, y, 48, 57)))
        unlike = builder.or_(unlike, builder.xor(is_space(x), space))
        last_space = builder.and_(space, builder.not_(is_space(z)))
        masks = (
            builder.or_(builder.and_(unlike, builder.not_(blank)), last_space),
            within(builder, x, 0x80, 0xFF),
            builder.and_(blank, within(builder, y, BLANK, BLANK)),
            builder.and_(within(builder, x, QUOTE, QUOTE), letter),
        )
        # A comparison gives 64 numbers of one bit each: read as one word, bit k is of byte k.
        words = [builder.bitcast(mask, WORD) for mask in masks]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 4)(data, types.int64), generate


@intrinsic
def like_or_beyond(typing_context, data, i, byte):
    """Say which of 64 bytes are a certain one or no ASCII: a bit for each."""

    def generate(context, builder, signature, arguments):
        x = load_64(context, builder, signature.args[0], arguments, 0)
        like = builder.icmp_unsigned("==", x, repeated(builder, arguments[2]))
        mask = builder.or_(like, within(builder, x, 0x80, 0xFF))
        return builder.bitcast(mask, WORD)

    return types.uint64(data, types.int64, types.uint8), generate


def mask_of_64(context, builder, kind, arguments, says):
    """Return a bit for each of the 64 bytes from a place on, 0 for those that are beyond the end of the array."""
    size = context.make_array(kind)(context, builder, arguments[0]).nitems
    last = builder.sub(size, WORD(64))
    place = builder.select(builder.icmp_signed("<", arguments[1], last), arguments[1], last)
    mask = says(load_64(context, builder, kind, (arguments[0], place), 0))
    return builder.lshr(builder.bitcast(mask, WORD), builder.sub(arguments[1], place))


@intrinsic
def between_64(typing_context, data, i, first, last):
    """Say what `within_64` does, with 0 for what is beyond the end. data: has 64 bytes or more; i: of one."""

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
    """Say which of 64 bytes are a letter, given as the small one, or differ in bit 0x20 alone: as `between_64`."""

    def generate(context, builder, signature, arguments):
        def says(x):
            lower = builder.or_(x, ir.Constant(BYTES_64, [0x20] * 64))
            return builder.icmp_unsigned("==", lower, repeated(builder, arguments[2]))

        return mask_of_64(context, builder, signature.args[0], arguments, says)

    return types.uint64(data, types.int64, types.uint8), generate


@intrinsic
def trailing_zeros(typing_context, x):
    """Count the zero bits below the lowest that is set: 64 where none is."""

    def generate(context, builder, signature, arguments):
        # The flag 0 asks for an answer for zero as well, where LLVM would be free to give any.
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def bits_set(typing_context, x):
    """Count the bits that are set."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def white_space_of_64(typing_context, data, i):
    """Say which of 64 bytes are ASCII's white space, and with which wider white space begins: a bit for each.

    White space is that of `str.isspace`. The two bytes after the 64 are read too.
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
    """Say which of 64 bytes are within two: a bit for each."""

    def generate(context, builder, signature, arguments):
        x = load_64(context, builder, signature.args[0], arguments, 0)
        begin = repeated(builder, arguments[2])
        count = builder.sub(repeated(builder, arguments[3]), begin)
        mask = builder.icmp_unsigned("<=", builder.sub(x, begin), count)  # below `first` the difference wraps
        return builder.bitcast(mask, WORD)

    return types.uint64(data, types.int64, types.uint8, types.uint8), generate


@intrinsic
def same_64(typing_context, data, i):
    """Say which of 64 bytes are the same as the one after each: a bit for each."""

    def generate(context, builder, signature, arguments):
        x, y = (load_64(context, builder, signature.args[0], arguments, offset) for offset in (0, 1))
        return builder.bitcast(builder.icmp_unsigned("==", x, y), WORD)

    return types.uint64(data, types.int64), generate


@intrinsic
def special_64(typing_context, data, i):
    """Say which of 64 bytes are no ASCII, &, < or a backslash, or a hyphen before white space or a backslash.

    A bit for each. The byte after the 64 is read, too.
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
