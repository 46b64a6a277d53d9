"""Columns of addresses have the normal forms that the parser of the URL Standard gives each address."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zyda_flows.tasks.sources.address_columns import listed_pages, normal_addresses
from zyda_flows.tasks.sources.address_lists import entries_of
from zyda_flows.tasks.sources.web_addresses import normalise_address
from zyda_flows.textkernels.addresses import plain_addresses

PIECES = [
    "https://", "http://", "HTTP://", "https:/", "ftp://", "//", "www.", "example", ".org", "Example", "xn--", "a-",
    "--", "_", ".", "..", "/.", "/..", "/", "?", "#", "%7E", "%c3", "%2e", "é", " ", "\t", "\n", "'", '"', "*", "/*",
    "$", ";", ",", "=", "&", ":80", ":443", "user@", "127.0.0.1", "0x1", "1", "[::1]", "\\", "|", "^", "{", "~", "\0",
]  # fmt: skip
addresses = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=9).map("".join)


@given(st.lists(addresses, max_size=20))
@example(["https://example.org", "example.org", "https://a.b/c?d", "https://a.b?", "https://a.b/?x'y"])
@example(["https://1.2.3.4/x", "https://a.0x7/x", "https://a.1b/x", "https://a/x", "a/x", "a.b:80/x", ""])
@example([f"https://{'a.' * 127}a/x", f"https://{'a.' * 128}a/x", "https://ab--c.d/", "https://xn--a.b/"])
def test_normal_forms_equal_those_of_single_addresses(texts):
    assert normal_addresses(pa.array(texts, pa.string())) == [normalise_address(text) for text in texts]


@given(st.lists(addresses.filter(lambda line: "\n" not in line and "\r" not in line), max_size=20))
@example(
    ["https://example.org", "example.org", "example.org/x", "https://a.b/c*", "https://a.b/c/*", "a.b/x#y"]
)
def test_pages_of_lines_equal_the_entries_of_lists(lines):
    pages, others = listed_pages(pa.array(lines, pa.large_string()))
    expected = dict.fromkeys(range(len(lines)))
    for row, line in enumerate(lines):
        if row not in others:
            (entry,) = entries_of(line)
            assert entry.kind == "url"
            expected[row] = entry.value
    assert pages == [value.encode() for value in expected.values() if value is not None]


def test_null_is_not_an_address():
    column = pa.chunked_array([["https://a.org/x", None], [], ["b.org"]], pa.string())
    assert normal_addresses(column) == [("a.org", "a.org/x"), None, ("b.org", "b.org/")]


@pytest.mark.parametrize("address", ["https://www.example.org/a/b-c_d.html?x=1&y=/2", "example.org/a(b)"])
def test_usual_addresses_are_copied_by_the_kernel(address):
    normal, hosts = plain_addresses(pa.array([address], pa.large_string()))
    assert normal.to_pylist() == [normalise_address(address)[1]]
    assert hosts.tolist() == [len(normalise_address(address)[0])]
