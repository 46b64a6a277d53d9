"""Personal data in texts: replaced matches equal `re` in the whole text, and datatrove if it is installed."""

import ipaddress
import random
import re
import unicodedata
from itertools import cycle
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_code import PLACES, judged_by

from zyda_flows.textkernels.texts.ip_addresses import NETWORKS, is_public
from zyda_flows.textkernels.texts.personal import KINDS, count_matches, replace_matches
from zyda_flows.textkernels.texts.personal_forms import is_card, is_iban, is_phone

FOUND = {
    "mail": ["a@b.co", "first.last+tag@mail.example.co.uk", "!#$%&'*+/=?^_`{|}~-a@x-y.z", "a@[1.2.3.4]", "a@[1.2.3.x:]",
             "a.b@1.2.3.4", "jo@2x.com", "jo@163.com", "jo@v2.example.com", "jo\uff20b.co", "jo\ufe6bb.co",
             "josé@x.org", "josé.garcía@x.org", "é.jo@x.org", "müller@web.de", "ŁUKASZ-ő@x.pl"],
    "ip": ["8.8.8.8", "1.1.1.1", "224.0.0.1", "192.0.0.9", "2001:4860:4860::8888", "2606:4700:4700:0:0:0:0:1111",
           "2A00:1450:4009:080B:0000:0000:0000:200E", "2a02::1", "2600:1406::", "::ffff:8.8.8.8", "::FFFF:0808:0808",
           "0:0:0:0:0:ffff:8.8.8.8", "0:0:0:0:0:ffff:808:808", "64:ff9b::8.8.8.8", "64:ff9b::808:808",
           "2002:808:808::1", "2001:4860::8.8.8.8", "2001:20::1"],
    "phone": ["+49 30 901820", "+49301234567", "+1 (212) 555-0199", "1-212-555-0199", "212.555.0199", "(212) 555-0199",
              "(212)555-0199", "+44 (0)20 7946 0958", "+33 1 42 68 53 00", "(020) 7946 0958", "+12125550199",
              "(02) 9374 4000", "\uff0b\uff18\uff11 \uff13 \uff15\uff15\uff15\uff15 \uff10\uff11\uff12\uff13", "（212）555-0199"],
    "card": ["4111111111111111", "4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "3782 822463 10005",
             "30569309025904", "6011111111111117", "3530111333300000", "2223003122003222", "6212345678901232",
             "\uff14" + "\uff11" * 15],
    "iban": ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "NO9386011117947",
             "MT84MALT011000012345MTLCAST001S", "FR14 2004 1010 0505 0001 3M02 606", "BE68 5390 0754 7034",
             "DE89-3704-0044-0532-0130-00"],
}  # fmt: skip
LEFT = {
    "mail": ["@b.co", "a@b", "a@-b.c", "a@b-.c", "a.@b.co", "@property", "a @b.co", "a@é.co", "a@[1.2.3]", "!!@b.co",
             "lodash@4.17.21", "@types/node@20.1.0", "name@1.0", "name@1.0rc1", "name@2.x", "name@1.2.3-beta.x", "name@1.0-SNAPSHOT",
             "golang.org/x/net@v0.17.0", "name@1.2.3.4.5", "logo@2x.png", "logo@1.5x.webp", "a\uff0bb.co"],
    "ip": ["10.0.0.1", "127.0.0.1", "192.168.1.1", "1.2.3", "01.2.3.4", "0.0.0.0", "100.64.0.1", "198.51.100.7", "1..2.3.4",
           "::1", "::", "fe80::1%eth0", "2001:db8::1", "3fff::1", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "2002:a00:1::1", "12:30:45",
           "2024:01:02", "00:1a:2b:3c:4d:5e", "20:1a:2b:3c:4d:5e:6f:70", "std::vector", "dead::beef", "a2001::cafe1", "x[2000::10]",
           "3000::", "2001:4860:4860::8888::1", "2001:4860:4860:1:2:3:4:5:6", "2001:4860:4860::88888", "Data::Dumper",
           "2001:0::4136:e378:8000:63bf:f5ff:fffe"],
    "phone": ["2024-01-01", "212-555-01990", "+1 112 555 0199", "+0100", "978-0-306-40615-7", "212 555 0199", "+123", "1-2-3",
              "v212.555.0199", "212.555.0199.1", "1212-555-0199", "555-0199", "2125550199", "3 (212) 555-0199",
              "0x+12125550199", "2024-05-06 07:08:09"],
    "card": ["4111111111111112", "41111111111111111", "4111 1111-1111 1111", "1700000000000", "4111 1111 1111 1111 1",
             "0.4111111111111111", "a4111111111111111", "9111111111111111", "4111.1111.1111.1111"],
    "iban": ["DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000", "xDE89370400440532013000",
             "DE89  3704 0044 0532 0130 00", "DE89370400440532013000A", "DE89 37040044 0532013000"],
}  # fmt: skip
PARTS = [
    *(one for found in FOUND.values() for one in found), *(one for left in LEFT.values() for one in left),
    *"@.-+()[]:/#_ \n\t\0,;1204aAZé漢🙂\u0660\u2003\u0301\u00a0\u2011\uff10\uff0b\uff20", "::", "2a00:", "IPv6:", "..", "a.", "8.8.", "+1", "DE89 ", "ab-" * 9, "12" * 9, " 1234" * 5,
]  # fmt: skip
TEXT = st.one_of(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.text(max_size=20))


def column(texts):
    return pa.array(texts, pa.large_string())


def plainly(text, kind):
    """Replace by `re` in the whole text; return the text and the number of matches."""
    ipv4, ipv6, times = cycle(kind.replacements), cycle(kind.ipv6_replacements), 0

    def put(match):
        nonlocal times
        if not kind.is_valid(match[0]):
            return match[0]
        times += 1
        return next(ipv6 if kind.ipv6_replacements and ":" in match[0] else ipv4)

    return kind.expression.sub(put, text), times


def replace_all(texts, name):
    left, counts = replace_matches(column(texts), KINDS[name])
    return list(zip(left.to_pylist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_replaced_matches_equal_re_in_the_whole_text(name):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXT, max_size=40))
    def same(texts):
        assert replace_all(texts, name) == [plainly(text, KINDS[name]) for text in texts]

    same()
    chance = random.Random(name)
    texts = ["".join(chance.choices(PARTS, k=chance.randrange(9))) for _ in range(4000)]
    assert replace_all(texts, name) == [plainly(text, KINDS[name]) for text in texts]


@pytest.mark.parametrize("name", KINDS)
def test_forms_are_replaced_and_look_alikes_kept(name):
    for one in FOUND[name]:
        for text in (
            one,
            f"Write: {one}, please. {one}",
            f"({one})",
            f"漢 {one}\n",
            f"漢字{one}",
            f"{one}。あ",
            f"é{one} ж{one}",
        ):
            assert replace_all([text], name)[0][1] == text.count(one), text
    for one in LEFT[name]:
        assert replace_all([one], name) == [(one, 0)], one


SPACES = [chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) == "Zs"] + [
    "\u200b",
    "\u2060",
]
DASHES = [chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) == "Pd"] + [
    "\u2212",
    "\u00ad",
]
IN_GROUPS = {"phone": ("+49 30 901820", "212-555-0199", "(020) 7946 0958", "+44 (0)20 7946-0958"),
             "card": ("4111 1111 1111 1111", "3782 822463 10005"), "iban": ("DE89 3704 0044 0532 0130 00",)}  # fmt: skip


@pytest.mark.parametrize("name", IN_GROUPS)
def test_numbers_in_groups_are_found_with_every_space_and_dash(name):
    for one in IN_GROUPS[name]:
        forms = [one.replace(" ", space) for space in SPACES] + [one.replace("-", dash) for dash in DASHES]
        if "-" not in one:
            forms += [one.replace(" ", dash) for dash in DASHES]
        assert replace_all([f"See {form}." for form in forms], name) == [
            (f"See {KINDS[name].replacements[0]}.", 1) for _ in forms
        ], one


def test_ipv6_addresses_are_found():
    one, other = "2001:4860:4860::8888", KINDS["ip"].ipv6_replacements[0]
    for text in (
        "http://[{}]:443/x",
        "{}/64",
        "from {}: icmp_seq=1",
        "addr:{}",
        "v=spf1 ip6:{} -all",
        "[IPv6:{}]",
        "{}%eth0",
        "at {}.",
        "漢{}漢",
    ):
        assert replace_all([text.format(one)], "ip") == [(text.format(other), 1)], text
    assert replace_all([f"{one} 8.8.8.8 {one}"], "ip")[0][0] == (
        f"{other} {KINDS['ip'].replacements[0]} {KINDS['ip'].ipv6_replacements[1]}"
    )
    assert replace_matches(column([f"{one} 8.8.8.8"]), KINDS["ip"], "<I>")[0].to_pylist() == ["<I> <I>"]


def test_matches_do_not_depend_on_slices_nulls_and_batches():
    texts = [None, "", "x", *(one for found in FOUND.values() for one in found), "a@b.co c@d.eu e@f.de"]
    for kind in KINDS.values():
        whole, counts = replace_matches(column(texts), kind)
        singly = [replace_matches(column(texts).slice(i, 1), kind) for i in range(len(texts))]
        assert [left[0].as_py() for left, _ in singly] == whole.to_pylist()
        assert [count[0] for _, count in singly] == counts.tolist()
    left, _ = replace_matches(column(texts), KINDS["mail"], "")
    assert left[-1].as_py() == "  "


def test_more_windows_than_estimated_are_found():
    assert replace_all(["a@b.co " * 500], "mail")[0][1] == 500


HOSTILE = ["a-" * 50_000 + "@b", "a-" * 50_000 + "@[1.2.3.", "a@" * 50_000, "10." * 90_000, "b." * 50_000 + "@", "1 " * 100_000,
           "+1" * 50_000, "(1" * 50_000, "AA11" + " A" * 50_000, "1234 " * 40_000, "1\u00a0" * 100_000,
           "a-" * 50_000 + "@1.2", "a:" * 50_000, "2a00:" * 40_000, "::" * 50_000, "2a00::" * 30_000, "10." * 30_000 + ":", "\uff11" * 50_000]  # fmt: skip


def test_public_ipv6_addresses_equal_the_standard_library():
    """Compare addresses of hosts (2000::/3), except addresses that contain an IPv4 address."""
    chance = random.Random(0)
    firsts = [*range(0x2001, 0x3FFF, 97), 0x2001, 0x2001, 0x2003, 0x2400, 0x2600, 0x2A00]
    for first in firsts:
        number = first << 112 | chance.getrandbits(112)
        address = ipaddress.IPv6Address(number)
        if address in ipaddress.IPv6Network("2001::/23"):
            continue
        assert is_public(str(address)) == is_public(address.exploded) == address.is_global, address
    assert not is_public("2001:2::1")
    assert is_public("2001:4:112::1")
    assert not is_public("1:2:3:4:5:6:7:1.2.3.4")


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_hostile_text_takes_no_longer_than_its_length(place):
    assert not any(counts[0] for counts in count_matches(column([HOSTILE[place]])).values())


def test_replacements_match_only_their_kind():
    for name, kind in KINDS.items():
        for replacement in kind.replacements:
            assert [other for other, counts in count_matches(column([replacement])).items() if counts[0]] == [
                name
            ]
    for replacement in KINDS["ip"].ipv6_replacements:
        assert not any(counts[0] for counts in count_matches(column([replacement])).values())


def test_counts_equal_replacing_all_kinds_in_turn():
    text = "a@1.1.1.1 1.1.1.1 DE89 3704 0044 0532 0130 00, 4111 1111 1111 1111; +49 30 901820"
    assert {name: counts.tolist() for name, counts in count_matches(column([text, ""])).items()} == {
        name: [1, 0] for name in KINDS
    }


def test_checks_accept_and_reject():
    assert is_card("4111 1111 1111 1111")
    assert not is_card("4111 1111 1111 1112")
    assert is_iban("GB82 WEST 1234 5698 7654 32")
    assert not is_iban("GB82 WEST 1234 5698 7654 33")
    assert not is_phone("+1 212 155 0199")
    for digits in ("411111111111111", "511111111111118"):  # a valid Luhn digit, but a wrong length
        assert not is_card(digits)


def test_public_ipv4_addresses_equal_the_standard_library():
    numbers = np.random.default_rng(0).integers(0, 2**32, 3000).tolist()
    edges = [edge for network in NETWORKS for edge in (network[0], network[0] + 2**32 - 1 - network[1])]
    for number in [
        *numbers,
        *edges,
        *(edge + 1 for edge in edges[:-1]),
        *(edge - 1 for edge in edges if edge),
    ]:
        address = ipaddress.IPv4Address(number % 2**32)
        if address not in ipaddress.IPv4Network("192.0.0.0/24"):  # Python before 3.11.10 has fewer networks
            assert is_public(str(address)) == address.is_global, address
    assert [is_public(one) for one in ("192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.11")] == [
        False,
        True,
        True,
        False,
    ]


def replaced_as_fineweb(texts):
    for name in ("mail", "ip"):
        texts, _ = replace_matches(texts, KINDS[name])
    return texts


# Intended differences from datatrove: versions, IPv6, texts in other scripts.
OURS = re.compile(r"@v?[0-9]+\.[0-9]|:[0-9A-Fa-f]*:|[^\x00-\x7f]")


@settings(max_examples=150, deadline=None)
@given(TEXT)
def test_mails_and_addresses_equal_datatrove(text):
    pii = pytest.importorskip(
        "datatrove.pipeline.formatters.pii", reason="needs datatrove, a reader of the tests"
    )
    if not OURS.search(text):
        assert replaced_as_fineweb(column([text]))[0].as_py() == pii.PIIFormatter().format(text)


def test_published_documents_equal_the_result_of_datatrove():
    judged = judged_by("pii", PLACES["200"])
    texts = [crc32(text.encode()) for text in replaced_as_fineweb(judged.texts).to_pylist()]
    assert texts == [row["text_crc32"] for row in judged.rows]
