"""Personal data in texts: what is replaced is what `re` finds in the whole text, and datatrove where it is here."""

import ipaddress
import random
from itertools import cycle
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_code import PLACES, judged_by

from textkernels.texts import personal
from textkernels.texts.personal import KINDS, counted, is_card, is_iban, is_phone, is_public, replaced

FOUND = {
    "mail": ["a@b.co", "first.last+tag@mail.example.co.uk", "!#$%&'*+/=?^_`{|}~-a@x-y.z", "a@[1.2.3.4]", "a@[1.2.3.x:]",
             "a.b@1.2.3.4"],
    "ip": ["8.8.8.8", "1.1.1.1", "224.0.0.1", "192.0.0.9"],
    "phone": ["+49 30 901820", "+49301234567", "+1 (212) 555-0199", "1-212-555-0199", "212.555.0199", "(212) 555-0199",
              "(212)555-0199", "+44 (0)20 7946 0958", "+33 1 42 68 53 00", "(020) 7946 0958", "+12125550199"],
    "card": ["4111111111111111", "4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "3782 822463 10005",
             "30569309025904", "6011111111111117", "3530111333300000", "2223003122003222", "6212345678901232"],
    "iban": ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "NO9386011117947",
             "MT84MALT011000012345MTLCAST001S", "FR14 2004 1010 0505 0001 3M02 606", "BE68 5390 0754 7034"],
}  # fmt: skip
LEFT = {
    "mail": ["@b.co", "a@b", "a@-b.c", "a@b-.c", "a.@b.co", "@property", "a @b.co", "a@é.co", "a@[1.2.3]", "!!@b.co"],
    "ip": ["10.0.0.1", "127.0.0.1", "192.168.1.1", "1.2.3", "01.2.3.4", "0.0.0.0", "100.64.0.1", "198.51.100.7", "1..2.3.4"],
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
    *"@.-+()[]:/#_ \n\t\0,;1204aAZé漢🙂\u0660\u2003\u0301", "..", "a.", "8.8.", "+1", "DE89 ", "ab-" * 9, "12" * 9, " 1234" * 5,
]  # fmt: skip
TEXT = st.one_of(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.text(max_size=20))


def column(texts):
    return pa.array(texts, pa.large_string())


def plainly(text, kind, stands_in):
    """Replace by `re` in the whole text; return it and how often."""
    instead, times = cycle(stands_in), 0

    def put(match):
        nonlocal times
        if not kind.is_one(match[0]):
            return match[0]
        times += 1
        return next(instead)

    return kind.expression.sub(put, text), times


def of_all(texts, name):
    left, counts = replaced(column(texts), KINDS[name], KINDS[name].stands_in)
    return list(zip(left.to_pylist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_what_is_replaced_is_what_re_finds_in_the_whole_text(name):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXT, max_size=40))
    def same(texts):
        assert of_all(texts, name) == [plainly(text, KINDS[name], KINDS[name].stands_in) for text in texts]

    same()
    chance = random.Random(name)
    texts = ["".join(chance.choices(PARTS, k=chance.randrange(9))) for _ in range(4000)]
    assert of_all(texts, name) == [plainly(text, KINDS[name], KINDS[name].stands_in) for text in texts]


@pytest.mark.parametrize("name", KINDS)
def test_forms_are_found_and_look_alikes_are_left(name):
    for one in FOUND[name]:
        for text in (one, f"Write: {one}, please. {one}", f"({one})", f"漢 {one}\n"):
            assert of_all([text], name)[0][1] == text.count(one), text
    for one in LEFT[name]:
        assert of_all([one], name) == [(one, 0)], one


def test_part_of_a_column_nulls_and_any_batch_give_the_same():
    texts = [None, "", "x", *(one for found in FOUND.values() for one in found), "a@b.co c@d.eu e@f.de"]
    for kind in KINDS.values():
        whole, counts = replaced(column(texts), kind, kind.stands_in)
        singly = [replaced(column(texts).slice(i, 1), kind, kind.stands_in) for i in range(len(texts))]
        assert [left[0].as_py() for left, _ in singly] == whole.to_pylist()
        assert [count[0] for _, count in singly] == counts.tolist()
    left, _ = replaced(column(texts), KINDS["mail"], ("",))
    assert left[-1].as_py() == "  "


def test_more_windows_than_were_guessed():
    assert of_all(["a@b.co " * 500], "mail")[0][1] == 500


HOSTILE = ["a-" * 50_000 + "@b", "a-" * 50_000 + "@[1.2.3.", "a@" * 50_000, "10." * 90_000, "b." * 50_000 + "@", "1 " * 100_000,
           "+1" * 50_000, "(1" * 50_000, "AA11" + " A" * 50_000, "1234 " * 40_000]  # fmt: skip


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_hostile_text_takes_no_longer_than_its_length(place):
    assert not any(counts[0] for counts in counted(column([HOSTILE[place]])).values())


def test_what_stands_in_is_of_its_kind_and_of_no_other():
    for name, kind in KINDS.items():
        for instead in kind.stands_in:
            assert [other for other, counts in counted(column([instead])).items() if counts[0]] == [name]


def test_counts_are_those_of_all_kinds_one_after_another():
    text = "a@1.1.1.1 1.1.1.1 DE89 3704 0044 0532 0130 00, 4111 1111 1111 1111; +49 30 901820"
    assert {name: counts.tolist() for name, counts in counted(column([text, ""])).items()} == {
        name: [1, 0] for name in KINDS
    }


def test_checks():
    assert is_card("4111 1111 1111 1111")
    assert not is_card("4111 1111 1111 1112")
    assert is_iban("GB82 WEST 1234 5698 7654 32")
    assert not is_iban("GB82 WEST 1234 5698 7654 33")
    assert not is_phone("+1 212 155 0199")
    for digits in ("411111111111111", "511111111111118"):  # Luhn's, but of no length of their issuers
        assert not is_card(digits)


def test_public_addresses_are_those_of_the_standard_library():
    numbers = np.random.default_rng(0).integers(0, 2**32, 3000).tolist()
    edges = [
        edge for network in personal.NETWORKS for edge in (network[0], network[0] + 2**32 - 1 - network[1])
    ]
    for number in [
        *numbers,
        *edges,
        *(edge + 1 for edge in edges[:-1]),
        *(edge - 1 for edge in edges if edge),
    ]:
        address = ipaddress.IPv4Address(number % 2**32)
        if address not in ipaddress.IPv4Network("192.0.0.0/24"):  # Pythons before 3.11.10 have less of it
            assert is_public(str(address)) == address.is_global, address
    assert [is_public(one) for one in ("192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.11")] == [
        False,
        True,
        True,
        False,
    ]


def of_fineweb(texts):
    for name in ("mail", "ip"):
        texts, _ = replaced(texts, KINDS[name], KINDS[name].stands_in)
    return texts


@settings(max_examples=150, deadline=None)
@given(TEXT)
def test_mails_and_addresses_are_those_of_datatrove(text):
    pii = pytest.importorskip(
        "datatrove.pipeline.formatters.pii", reason="needs datatrove, a reader of the tests"
    )
    assert of_fineweb(column([text]))[0].as_py() == pii.PIIFormatter().format(text)


def test_published_documents_become_what_datatrove_makes_of_them():
    judged = judged_by("pii", PLACES["200"])
    of_texts = [crc32(text.encode()) for text in of_fineweb(judged.texts).to_pylist()]
    assert of_texts == [row["text_crc32"] for row in judged.rows]
