"""The normal form of web addresses that are almost in it: compiled by numba.

Most addresses of a corpus differ from their normal form (`tasks.sources.web_addresses`) by their scheme alone: the
host is in lower case, and no character of path and query needs another escape. This kernel finds them and copies
their normal form. All other addresses are left to the parser of the URL Standard.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers, text_buffers
from zyda_flows.textkernels.compiled import njit

LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
HOST, PATH, QUERY = np.uint8(1), np.uint8(2), np.uint8(4)
LONGEST_HOST = 253
# Characters that the URL Standard copies without an escape to the host, the path and the query of an HTTPS address.
IN_HOST = f"{LETTERS}{DIGITS}-_."
IN_PATH = f"{LETTERS}{LETTERS.upper()}{DIGITS}-_.~!$&'()*+,;=:@/"
IN_QUERY = f"{LETTERS}{LETTERS.upper()}{DIGITS}-_.~!$&()*+,;=:@/?"
# In lists, these characters separate entries or begin a comment or a pattern.
SPECIAL_IN_LISTS = "!$'()*,;"


def classes_without(excluded: str) -> NDArray[np.uint8]:
    """Return for each byte the parts of an address in which it may be: (256,) bits HOST, PATH and QUERY."""
    classes = np.zeros(256, np.uint8)
    for bit, characters in ((HOST, IN_HOST), (PATH, IN_PATH), (QUERY, IN_QUERY)):
        for character in set(characters) - set(excluded):
            classes[ord(character)] |= bit
    classes.flags.writeable = False
    return classes


OF_DOCUMENTS, OF_LISTS = classes_without(""), classes_without(SPECIAL_IN_LISTS)


def plain_addresses(
    texts: pa.LargeStringArray, *, in_list: bool = False
) -> tuple[pa.LargeStringArray, NDArray[np.int32]]:
    """Return the normal forms of plain addresses, and the lengths of their hosts; "" and 0 for all other texts.

    texts: (n,), without nulls. in_list: only addresses that a list of addresses may have alone on a line.
    """
    data, offsets = text_buffers(texts)
    check_buffers(data, offsets)
    n = len(texts)
    normal = np.empty(
        int(offsets[-1] - offsets[0]) + n, np.uint8
    )  # "/" is added to an address without a path
    ends, hosts = np.zeros(n + 1, np.int64), np.zeros(n, np.int32)
    size = _copy_plain(data, offsets, OF_LISTS if in_list else OF_DOCUMENTS, in_list, normal, ends, hosts)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(normal[:size])]
    return pa.LargeStringArray.from_buffers(n, *buffers[1:]), hosts


@njit(cache=True, nogil=True)
def _copy_plain(data, offsets, classes, in_list, normal, ends, hosts):
    size = np.int64(0)
    for row in range(offsets.size - 1):
        start, stop = offsets[row], offsets[row + 1]
        first = start + _scheme(data, start, stop)
        host_end = _host_end(data, first, stop, classes)
        if host_end > 0 and _is_plain_rest(data, host_end, stop, classes):
            has_path = host_end < stop and data[host_end] == 47
            if not (in_list and first == start and not has_path):
                for i in range(first, host_end):
                    normal[size] = data[i]
                    size += 1
                if not has_path:
                    normal[size] = 47
                    size += 1
                for i in range(host_end, stop):
                    normal[size] = data[i]
                    size += 1
                hosts[row] = host_end - first
        ends[row + 1] = size
    return size


@njit(cache=True, nogil=True)
def _scheme(data, start, stop):
    """Return the length of `http://` or `https://` at the start of a text, or 0."""
    if stop - start < 8 or data[start] != 104 or data[start + 1] != 116 or data[start + 2] != 116:
        return 0
    i = start + 3
    if data[i] != 112:
        return 0
    i += 2 if data[i + 1] == 115 else 1
    if i + 3 <= stop and data[i] == 58 and data[i + 1] == 47 and data[i + 2] == 47:
        return i + 3 - start
    return 0


@njit(cache=True, nogil=True)
def _host_end(data, first, stop, classes):
    """Return the end of a host of several labels of which the last begins with a letter; 0 for any other text."""
    label, dots, end = first, 0, first
    while end < stop and classes[data[end]] & HOST:
        if data[end] == 46:
            if end == label:
                return 0
            dots += 1
            label = end + 1
        elif end == label + 3 and data[end] == 45 and data[end - 1] == 45:
            return 0  # perhaps Punycode
        end += 1
    if end == label or dots == 0 or end - first > LONGEST_HOST or not 97 <= data[label] <= 122:
        return 0
    return end


@njit(cache=True, nogil=True)
def _is_plain_rest(data, start, stop, classes):
    """Return whether path and query of an address need no change: no escapes, and no segments of dots."""
    i = start
    if i < stop and data[i] == 47:
        i += 1
        while i < stop and classes[data[i]] & PATH:
            if data[i] == 46 and data[i - 1] == 47:
                return False
            i += 1
    if i == stop:
        return True
    if data[i] != 63 or i + 1 == stop:
        return False
    i += 1
    while i < stop and classes[data[i]] & QUERY:
        i += 1
    return i == stop
