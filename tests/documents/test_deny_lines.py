"""Test the lines that deny lists accept, and the comparison of addresses."""

import json
from pathlib import Path

import pytest

from zyda_flows.tasks.documents.deny_list import DenyList, requests_of
from zyda_flows.tasks.erasure.removal_request import hash_request
from zyda_flows.tasks.sources.web_addresses import host_and_parents, normalise_address, normalise_domain


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("HTTP://Example.ORG:80/a/../b?x=1#there", ("example.org", "example.org/b?x=1")),
        ("https://example.org", ("example.org", "example.org/")),
        (" https://müller.example/ü ", ("xn--mller-kva.example", "xn--mller-kva.example/%C3%BC")),
        ("https://example.org.:8443/", ("example.org", "example.org:8443/")),
        ("example.org", ("example.org", "example.org/")),
        ("user:secret@example.org:443/x", ("example.org", "example.org/x")),
        ("https://user:secret@example.org/x", ("example.org", "example.org/x")),
        ("mailto:a@b.example", None),
        ("a@b.example", None),
        ("example", None),
        ("12345/x", None),
        ("org.example.app://example.org/", None),
        ("https://a b", None),
        ("javascript:alert(1)", None),
        ("", None),
    ],
)
def test_addresses_are_normalised_like_in_browsers(address, expected):
    assert normalise_address(address) == expected


ADDRESSES = Path(__file__).parents[1] / "data/addresses.jsonl"


def test_normalised_addresses_equal_another_implementation():
    """Node's URL class wrote the file, with RFC 3986 escapes, and `https:` before addresses without a scheme."""
    lines = [json.loads(line) for line in ADDRESSES.read_text().splitlines()]
    assert {address: normalise_address(address) for address, _ in lines} == {
        address: tuple(expected) if expected else None for address, expected in lines
    }
    assert len(lines) > 300


# Equivalent pairs of RFC 3986, 6.2.2.
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://www.example.com/%7Esmith/", "http://www.EXAMPLE.com/~smith/"),
        ("http://a/b/c/%7Bfoo%7D", "HTTP://a/./b/../b/%63/%7bfoo%7d"),
        ("http://example.com", "http://example.com:80/"),
    ],
)
def test_addresses_equivalent_by_rfc_3986_are_normalised_equally(first, second):
    assert normalise_address(first) == normalise_address(second) is not None


def test_only_host_names_are_valid_domains():
    assert normalise_domain("Example.ORG") == "example.org"
    assert normalise_domain("münchen.example") == "xn--mnchen-3ya.example"
    assert [
        normalise_domain(name)
        for name in (
            "example",
            "a b.org",
            "x.org/path",
            "x.org:80",
            "",
            "x@y.org",
            "?.org",
            "*x.org",
            "[::1]:80",
        )
    ] == [None] * 9
    assert normalise_domain("2001:DB8::1") == normalise_domain("[2001:db8:0::1]") == "[2001:db8::1]"
    assert normalise_domain("*.example.org") == normalise_domain(".example.org") == "example.org"
    assert [*host_and_parents("a.b.org")] == ["a.b.org", "b.org", "org"]
    assert len([*host_and_parents("a." * 100_000 + "org")]) < 130


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("not a domain", "'not' is not a domain"),
        ("ftp://example.org/x", "is not a web address"),
        ("{", "unexpected end"),
        ("{}", "one of url, domain, id"),
        ('{"id": 1, "url": "https://x.org/"}', "one of url, domain, id"),
        ('{"id": "1"}', "valid integer"),
        ('{"id": -1}', "greater than or equal to 0"),
        ('{"text_sha256": "abc"}', "64 hexadecimal digits"),
        ('{"column": "author"}', "column with value"),
        ('{"value": "author"}', "column with value"),
        ('{"person": "x"}', "not permitted"),
        ('{"url": null}', "one of url, domain, id"),
        ('{"id": null}', "one of url, domain, id"),
        ('{"column": "a", "value": null}', "column with value"),
        ('{"column": "", "value": "x"}', "column with value"),
        ("@@||example.org^", "is an exception"),
        ("||example.org^$third-party", "for some requests only"),
        ("||example.org^*/ads", "is a pattern"),
        ("example.org##.ad", "is not a domain"),
        ("https://*.example.org/page", "is not a web address"),
        ("10.0.0.0/8", "is a network"),
        ("example.org a/b", "is not a web address"),
        (
            '{"text_sha256": "%s", "signature": {"parameters": {"values": 2}, "values": "AAAAAAAAAAA="}}'
            % ("0" * 64),
            "expected 2 values, as in its parameters, got 1",
        ),
        (
            '{"text_sha256": "%s", "signature": {"parameters": {"values": 1}, "values": "AAAA"}}'
            % ("0" * 64),
            "expected Base64 of one or more 8-byte values",
        ),
        ("example..org", "is not a domain"),
        ("https://a,b.org/", "is not a web address"),
    ],
)
def test_invalid_deny_line_raises(line, fault):
    with pytest.raises(ValueError, match=fault):
        requests_of(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("https://a.org/ # why", {"urls": {"a.org/"}}),
        ("a.org/page", {"urls": {"a.org/page"}}),
        ("//a.org/page\t; why", {"urls": {"a.org/page"}}),
        ("https://a.org/*", {"folders": {"a.org"}}),
        ("https://a.org/b/c/*", {"folders": {"a.org/b/c"}}),
        ("*://*.a.org/*", {"domains": {"a.org"}}),
        ("https://*.a.org/", {"domains": {"a.org"}}),
        ("a.org,", {"domains": {"a.org"}}),
        ("a.org, b.org;c.org", {"domains": {"a.org", "b.org", "c.org"}}),
        ('"a.org","b.org"', {"domains": {"a.org", "b.org"}}),
        ("https://a.org/x,https://b.org/y", {"urls": {"a.org/x", "b.org/y"}}),
        ("https://a.org/x,y", {"urls": {"a.org/x,y"}}),
        ("0.0.0.0 a.org b.org # why", {"domains": {"a.org", "b.org"}}),
        ("::1 localhost", {}),
        ("fe80::1%lo0\tlocalhost", {}),
        ("||a.org^", {"domains": {"a.org"}}),
        ("||a.org/", {"domains": {"a.org"}}),
        ("||a.org/x/", {"folders": {"a.org/x"}}),
        ("||a.org^$important,document", {"domains": {"a.org"}}),
        ("|https://a.org/x|", {"urls": {"a.org/x"}}),
        ("||a.org/x/*", None),
        ("address=/a.org/0.0.0.0", {"domains": {"a.org"}}),
        ("local=/a.org/b.org/", {"domains": {"a.org", "b.org"}}),
        ("[Adblock Plus 2.0]", {}),
        ("! Title: a.org", {}),
        ("; a.org", {}),
        ("*.a.org", {"domains": {"a.org"}}),
        (".a.org.", {"domains": {"a.org"}}),
        ("[2001:db8::1]", {"domains": {"[2001:db8::1]"}}),
        ("10.0.0.1", {"domains": {"10.0.0.1"}}),
    ],
)
def test_lines_of_published_lists_are_read(line, expected):
    if expected is None:
        with pytest.raises(ValueError, match="is a pattern"):
            requests_of(line)
        return
    denied = DenyList(requests_of(line))
    nothing = {"domains": set(), "urls": set(), "folders": set()}
    assert {kind: getattr(denied, kind) for kind in nothing} == nothing | expected


@pytest.mark.parametrize(
    ("lines", "address", "is_denied"),
    [
        ("example.net", "example.net/y", True),
        ("example.net", "//Example.NET./z", True),
        ("example.net", "www.example.net", True),
        ("example.net", "notexample.net", False),
        ("https://x.org/a/*", "http://x.org/a/b/c?q=1#f", True),
        ("https://x.org/a/*", "x.org/a/", True),
        ("https://x.org/a/*", "https://x.org/ab", False),
        ("https://x.org/*", "http://user:pw@X.org:443", True),
        ("https://x.org/*", "http://sub.x.org/", False),
        ("x.org./p", "http://x.org/p", True),
        ("http://x.org/~a", "x.org/%7Ea", True),
    ],
)
def test_document_with_an_address_is_found(lines, address, is_denied):
    requests = requests_of(lines)
    assert DenyList(requests).has_address(address) is is_denied
    assert DenyList(map(hash_request, requests)).has_address(address) is is_denied


def test_deny_list_groups_requests_by_kind():
    lines = [
        "https://x.org/",
        "y.org",
        '{"id": 7}',
        '{"column": "n", "value": 3.0}',
        '{"column": "n", "value": "a"}',
    ]
    denied = DenyList(request for line in lines for request in requests_of(line))
    assert (denied.urls, denied.domains, denied.ids, denied.values) == (
        {"x.org/"},
        {"y.org"},
        {7},
        {"n": {"3", "a"}},
    )
