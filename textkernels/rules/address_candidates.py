"""Find windows of texts that may contain IP addresses; see `candidates`. Compiled by numba."""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.rules.candidates import (
    BLANK,
    COLON,
    DIGIT,
    DOT,
    HEX,
    LANES,
    NINE,
    ONE,
    WORD,
    ZERO,
    add_window,
    has_class,
)
from zyda_flows.textkernels.swar import between_64, trailing_zeros
from zyda_flows.textkernels.utf8 import first_bits

TAB = 9
SHORTEST = 6  # bytes of a public IPv6 address: 2a00::
FIRST = (50, 51, 70, 102)  # the first of four digits: 2a00:, ::ffff:0808:0808
BEFORE_IPV6 = (80, 86, 112, 118)  # as in IPv6:2a00:: of mail servers, and ip6:2a00:: of SPF


@njit(cache=True, nogil=True, inline="always")
def is_ipv6_byte(byte):
    """Return whether a byte may be part of an IPv6 address."""
    return has_class(byte, HEX) or byte in (COLON, DOT)


@njit(cache=True, nogil=True)
def ipv6_run(data, start, stop, at):
    """Return the begin and end of the run of an IPv6 address's characters around `at`, and whether it may be one.

    A public address has :: or six colons, and a group of four hexadecimal digits or four numbers.
    """
    begin, end, colons, dots, doubled, size, has_four = at, at, 0, 0, False, 0, False
    while begin > start and is_ipv6_byte(data[begin - 1]):
        begin -= 1
    end = begin
    while end < stop and is_ipv6_byte(data[end]):
        is_colon = data[end] == COLON
        doubled |= is_colon and end > begin and data[end - 1] == COLON
        colons, dots = colons + is_colon, dots + (data[end] == DOT)
        size = size + 1 if has_class(data[end], HEX) else 0
        has_four |= size == 4
        end += 1
    is_candidate = end - begin >= SHORTEST and (doubled or colons >= 6) and (has_four or dots >= 3)
    if is_candidate and begin > start and has_class(data[begin - 1], WORD):
        is_candidate = data[begin] == COLON or (data[begin - 1] in BEFORE_IPV6 and data[begin + 1] == COLON)
    return begin, end, is_candidate


@njit(cache=True, nogil=True)
def ipv4_run(data, start, stop, at):
    """Return the begin and end of the digits and dots around `at`, and whether there are three dots or more."""
    begin, end, dots = at, at, 0
    while begin > start and (has_class(data[begin - 1], DIGIT) or data[begin - 1] == DOT):
        begin -= 1
        dots += data[begin] == DOT
    while end < stop and (has_class(data[end], DIGIT) or data[end] == DOT):
        dots += data[end] == DOT
        end += 1
    return begin, end, dots >= 3


@njit(cache=True, nogil=True, inline="always")
def may_be_ipv6(data, start, stop, at):
    """Return whether a colon is doubled, or comes after four digits as in public IPv6 addresses."""
    if at + 1 < stop and data[at + 1] == COLON:
        return True
    if at - 4 < start or data[at - 4] not in FIRST:
        return False
    return has_class(data[at - 3], HEX) and has_class(data[at - 2], HEX) and has_class(data[at - 1], HEX)


@njit(cache=True, nogil=True)
def find_addresses(data, offsets, windows):
    """Write a window for each candidate of an IPv4 or IPv6 address; return the number of windows."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        ipv4_end = ipv6_end = start  # the ends of the last run for IPv4 and for IPv6
        for i in range(start, stop, LANES):
            if i + 1 >= stop:
                break
            dots = between_64(data, i, DOT, DOT) & between_64(data, i + 1, ZERO, NINE)
            colons = between_64(data, i, COLON, COLON) & ~between_64(data, i + 1, TAB, BLANK)
            places = (dots | colons) & first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if at < ipv4_end:
                    continue
                begin = end = at
                if data[at] == DOT:
                    if at == start or at + 1 == stop or not has_class(data[at - 1], DIGIT):
                        continue
                    begin, end, is_candidate = ipv4_run(data, start, stop, at)
                    if not is_candidate:
                        ipv4_end = end
                        continue
                elif not may_be_ipv6(data, start, stop, at):
                    continue
                if at >= ipv6_end:
                    ipv6_begin, ipv6_end, is_candidate = ipv6_run(data, start, stop, at)
                    if is_candidate:
                        begin, end = ipv6_begin, ipv6_end
                if end > begin:
                    number, ipv4_end = add_window(windows, number, d, begin, end), end
    return number
