"""Test lists of domains and addresses: each published format is read, and unreadable lines are reported."""

import gzip

import pyarrow as pa
import pytest
from growth import grows_linearly

from zyda_flows.tasks.documents.deny_list import DenyList, requests_of
from zyda_flows.tasks.documents.url_rules import plan_url_rules, url_columns
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.recipe.steps.url_rules import UrlRules
from zyda_flows.tasks.sources.address_lists import fields_of
from zyda_flows.tasks.sources.web_addresses import folder_ends, normalise_address, normalise_domain

LISTED = [
    "ads.example", "track.example", "spam.example", "adult.example", "xn--mller-kva.example", "a.example", "b.example",
    "c.example", "rule.example", "mask.example", "dns.example", "deep.dns.example", "10.1.2.3", "last.example",
]  # fmt: skip
LINES = [
    "# Title: hosts", "! of an ad blocker", "; of a zone", "[Adblock Plus 2.0]", "", "127.0.0.1 localhost",
    "::1 ip6-localhost ip6-loopback", "0.0.0.0 0.0.0.0", "0.0.0.0 ads.example", "127.0.0.1\ttrack.example # note",
    "http://spam.example/", "Adult.Example # note", "müller.example", "a.example, b.example;c.example",
    "||rule.example^", "*.mask.example", "address=/dns.example/0.0.0.0", "server=/deep.dns.example/", "10.1.2.3",
    "last.example ; note",
]  # fmt: skip


def breaks_rule(folder, content, addresses, kind="domains"):
    """Return, for each address, whether it matches the list with this content."""
    path = folder / "list"
    path.write_bytes(content)
    rules = plan_url_rules(UrlRules(**{kind: [str(path)]}))
    columns = url_columns(rules, pa.table({"url": pa.array(addresses, pa.string())}))
    return columns[f"url_rules.{kind}"].is_valid().to_pylist()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_published_formats_of_domain_lists_are_read(tmp_path, encoding, end):
    content = end.join(LINES).encode(encoding)
    pages = [f"http://www.{name}/page" if name[0] != "1" else f"http://{name}/" for name in LISTED]
    others = [
        "https://localhost/",
        "https://0.0.0.0/",
        "http://good.example/x",
        "http://hosts/",
        "http://example/",
    ]
    assert breaks_rule(tmp_path, content, pages + others) == [True] * len(pages) + [False] * len(others)
    assert breaks_rule(tmp_path, gzip.compress(content), pages[:3]) == [True] * 3


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("http://page.example/a", "'page.example/a' is an address; list it under `urls`"),
        ("page.example:8080/", "'page.example:8080/' is an address"),
        ("page.example:8080", "'page.example:8080' is not a domain"),
        ("two words", "'two' is not a domain"),
        ("@@||page.example^", "is an exception"),
        ("||page.example^$third-party", "is for some requests only"),
        ("page.example##.banner", "is not a domain"),
        ("10.0.0.0/8", "is a network"),
        ("2001:db8::/32", "is a network"),
        ("address=/#/0.0.0.0", "'#' is not a domain"),
        ("page.example CNAME .", "'CNAME' is not a domain"),
    ],
)
def test_lines_of_unknown_format_raise_with_their_number(tmp_path, line, fault):
    with pytest.raises(BadInput) as caught:
        breaks_rule(tmp_path, f"# list\nok.example\n{line}\nlast.example\n{line}".encode(), [])
    message = str(caught.value)
    assert "url_rules.domains: " in message
    assert "list: 2 of its 5 lines are not in a known form; line 3: " in message
    assert fault in message


def test_address_lists_contain_folders_and_whole_domains(tmp_path):
    lines = [
        "page.example/a/*",
        "https://one.example/x?q=1 # note",
        "||rule.example/b^",
        "0.0.0.0 whole.example",
    ]
    addresses = ["http://page.example/a/b", "//page.example/a", "page.example/ab", "one.example/x?q=1",
                 "one.example/x", "https://rule.example/b/c", "whole.example/y"]  # fmt: skip
    expected = [True, True, False, True, False, True, True]
    assert breaks_rule(tmp_path, "\n".join(lines).encode(), addresses, "urls") == expected


WORST = {
    "dots": "a.".__mul__,
    "dots before a sign": lambda n: "." * n + "@",
    "colons": ":".__mul__,
    "slashes": lambda n: "x.org" + "/" * n,
    "parts of a path": lambda n: "x.org/" + "a/" * n,
    "signs": "@".__mul__,
    "escapes": lambda n: "x.org/" + "%41" * n,
    "broken escapes": lambda n: "x.org/" + "%4" * n,
    "brackets": "[".__mul__,
    "blanks": lambda n: "x.org" + " " * n + "#",
    "commas": "a,".__mul__,
    "bars": "|".__mul__,
    "queries": lambda n: "x.org/" + "?a" * n,
    "stars": lambda n: "*." * n + "/*",
}


@pytest.fixture(scope="module")
def long_rules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    for kind in ("domains", "urls", "words", "subwords", "soft_words"):
        (folder / kind).write_text("listed.example\n")
    kinds = ("domains", "urls", "words", "subwords", "soft_words")
    return plan_url_rules(UrlRules(**{kind: [str(folder / kind)] for kind in kinds}))


@pytest.mark.parametrize("kind", WORST)
def test_long_addresses_take_linear_time(long_rules, kind):
    denied = DenyList(request for line in ("x.example", "y.example/*") for request in requests_of(line))
    denied.url_hashes.add(bytes(32))

    def use_text(text):
        url_columns(long_rules, pa.table({"url": pa.array([text, f"https://{text}"])}))
        denied.has_address(text)
        normalise_domain(text)
        try:
            requests_of(text)
        except ValueError:
            fields_of("x.org")

    assert grows_linearly(use_text, WORST[kind], 4_000)


def test_folders_of_an_address_end_before_each_slash():
    address = "x.org/a//b?c/d"
    assert [address[:end] for end in folder_ends(address)] == ["x.org", "x.org/a", "x.org/a/"]
    assert normalise_address("x.org/a/../b//c")[1] == "x.org/b//c"
