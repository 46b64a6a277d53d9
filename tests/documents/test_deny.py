"""Test deny lists: the lines they accept, the documents they remove, and the shards a changed list rebuilds."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, contents, prose, write_rows

from zyda_flows.tasks.documents.deny_list import DenyList, requests_of
from zyda_flows.tasks.erasure.removal_request import hashed
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.sources.web_addresses import host_and_parents, normalise_address, normalise_domain
from zyda_flows.tasks.storage.artifacts import WORK

TWIN = prose("both sources have it")


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
            "as many values are expected",
        ),
        (
            '{"text_sha256": "%s", "signature": {"parameters": {"values": 1}, "values": "AAAA"}}'
            % ("0" * 64),
            "values of 64 bits",
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
    assert DenyList(map(hashed, requests)).has_address(address) is is_denied


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


@pytest.fixture
def pages(corpus):
    """Return a corpus with six pages in three files, and a worse source without addresses.

    The page `twin` has a copy in the worse source.
    """
    addresses = {
        "page": "http://Example.org:80/page#top", "other page": "https://example.org/other",
        "below": "https://sub.opted-out.example/1", "beside": "https://not-opted-out.example/1",
        "twin": "https://example.org/twin", "no address": None,
    }  # fmt: skip
    rows = [
        {
            "text": TWIN if name == "twin" else prose(name),
            "name": name,
            "meta": {"url": address, "author": f"by {name}"},
        }
        for name, address in addresses.items()
    ]
    for i in range(3):
        write_rows(corpus.folder / f"in/pages-{i}.jsonl", rows[2 * i : 2 * i + 2])
    write_rows(
        corpus.folder / "in/plain.parquet",
        [{"text": TWIN, "name": "copy"}, {"text": prose("alone"), "name": "alone"}],
    )
    corpus.recipe["sources"] = [
        {"name": "pages", "files": "in/pages-*.jsonl", "url": "meta.url"},
        {"name": "plain", "files": "in/plain.parquet"},
    ]
    corpus.recipe["deny"] = "in/asked*"
    return corpus


def deny(corpus, *lines, name="asked.txt"):
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()
    (corpus.folder / "in" / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def names_in(recipe, source):
    return (
        pq.read_table(f"{recipe.folder.url}/published/{source}", columns=["name"]).column("name").to_pylist()
    )


def removed_from(recipe):
    return {
        (row["stage"], row["reason"])
        for row in pq.read_table(f"{recipe.folder.url}/published/removed").to_pylist()
    }


def test_documents_are_removed_by_each_kind_of_request_before_deduplication(pages):
    deny(
        pages,
        "# by whom, and when",
        "",
        "https://example.org/page",
        "opted-out.example",
        "https://nowhere.example/",
    )
    deny(
        pages, {"text_sha256": hashlib.sha256(prose("no address").encode()).hexdigest().upper()},
        {"column": "meta.author", "value": "by other page"},
        {"url_sha256": hashlib.sha256(b"example.org/twin").hexdigest()}, name="asked-more.jsonl.gz",
    )  # fmt: skip
    recipe = pages.load()
    build_here(recipe)
    assert names_in(recipe, "pages") == ["beside"]
    # A request removed the copy in the better source, so the other copy is kept.
    assert names_in(recipe, "plain") == ["copy", "alone"]
    assert removed_from(recipe) == {("deny", "requested")}
    requests = {"https://example.org/page", "opted-out", "nowhere.example"}
    published = b"".join(read_all(recipe).values())
    assert not [request for request in requests if request.encode() in published]


def read_all(recipe):
    published = recipe.folder.folder("published")
    return {path: published.read(path) for path in published.files("") if not path.startswith("pages/")}


def test_request_with_a_published_id_removes_that_document(pages):
    deny(pages, "nobody.example")
    recipe = pages.load()
    build_here(recipe)
    table = pq.read_table(f"{recipe.folder.url}/published/pages", columns=["doc_id", "name"])
    (doc_id,) = [row["doc_id"] for row in table.to_pylist() if row["name"] == "beside"]
    deny(pages, {"id": doc_id})
    build_here(recipe)
    assert "beside" not in names_in(recipe, "pages")
    assert removed_from(recipe) >= {("deny", "requested")}


@pytest.mark.slow
@pytest.mark.parametrize("first", ["none", "another"])
def test_request_builds_only_the_affected_shards_again(pages, first):
    """This includes the first request, which adds a stage to the build."""
    deny(pages, "nobody.example")
    recipe = pages.load(deny=[]) if first == "none" else pages.load()
    build_here(recipe)
    assert ledger_if_complete(recipe)
    files_before = work_files(recipe)
    deny(pages, "nobody.example", "https://example.org/page")
    recipe = pages.load()
    assert not ledger_if_complete(recipe)
    build_here(recipe)
    shard_path = re.compile(r"work/(ingest|minhash|removals|filter|publish)/pages/0.*?-\d+-\d+")
    shards_before, shards_again = (
        {match[0] for path in paths if (match := shard_path.match(path))}
        for paths in (files_before, work_files(recipe) - files_before)
    )
    expected = [
        f"work/{stage}/pages/{i:06d}-000-000" for stage in ("ingest", "removals", "publish") for i in range(3)
    ]
    assert shards_before >= {*expected}
    assert shards_again == {f"work/{stage}/pages/000000-000-000" for stage in ("removals", "publish")}
    fresh = pages.load(name="alone")
    build_here(fresh)
    assert {path: content for path, content in contents(recipe).items() if "pages/" in path} == {
        path: content for path, content in contents(fresh).items() if "pages/" in path
    }


def work_files(recipe):
    return {f"{WORK}/{path}" for path in recipe.folder.folder(WORK).files("")}


def test_removing_a_line_restores_its_document(pages):
    deny(pages, "https://example.org/page")
    recipe = pages.load()
    build_here(recipe)
    assert "page" not in names_in(recipe, "pages")
    deny(pages, "nobody.example")
    build_here(recipe)
    assert "page" in names_in(recipe, "pages")


def test_source_without_addresses_is_reported(pages, caplog):
    deny(pages, "example.org")
    build_here(pages.load())
    assert "source plain: it has no column url, so no document of it is removed by an address" in caplog.text
    assert "source pages" not in caplog.text


def test_invalid_deny_lines_raise_before_ingest(pages):
    deny(pages, *(f"broken line {i}" for i in range(1000)), "example.org")
    with pytest.raises(
        BadRecipe,
        match=r"recipe\.yaml:\d+: deny: .*asked\.txt: 1,000 of its 1,001 lines .* line 1: .* line 3: ",
    ):
        build_here(pages.load())
    assert not pages.load().folder.files("work/ingest")


def test_missing_or_unreadable_deny_list_raises(pages):
    with pytest.raises(BadRecipe, match=r"deny: .*asked\*"):
        build_here(pages.load())
    (pages.folder / "in/asked.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRecipe, match=r"deny: .*asked\.txt: it cannot be read"):
        build_here(pages.load())
    (pages.folder / "in/asked.txt").write_bytes(gzip.compress(b"example.org")[:-4])
    with pytest.raises((BadRecipe, BadInput), match=r"deny: .*asked\.txt: it cannot be read"):
        build_here(pages.load())


def test_request_on_a_list_column_is_reported_and_removes_no_document(pages, caplog):
    write_rows(
        pages.folder / "in/plain.parquet",
        [
            {"text": TWIN, "name": "copy", "meta": {"author": ["Jane"]}, "url": [1]},
            {"text": prose("alone"), "name": "alone"},
        ],
    )
    deny(pages, {"column": "meta.author", "value": "by page"}, "opted-out.example")
    recipe = pages.load()
    build_here(recipe)
    assert names_in(recipe, "plain") == ["alone"]
    assert "page" not in names_in(recipe, "pages")
    assert "source plain: column 'meta.author' is list" in caplog.text
    assert "source plain: column 'url' is list" in caplog.text


def test_deny_list_with_byte_order_mark_and_crlf_is_read(pages):
    (pages.folder / "in/asked.txt").write_bytes(
        "\ufeff# from Windows\r\nhttps://example.org/page\r\n".encode()
    )
    recipe = pages.load()
    build_here(recipe)
    assert "page" not in names_in(recipe, "pages")


def test_hash_of_the_empty_text_does_not_match_documents_removed_by_rules(pages):
    deny(pages, "opted-out.example", {"text_sha256": hashlib.sha256(b"").hexdigest()})
    recipe = pages.load(documents=[{"filter": {"zyda1": {"length": 10**6}}}])
    build_here(recipe)
    removed = pq.read_table(f"{recipe.folder.url}/published/removed").to_pylist()
    assert [row["stage"] for row in removed].count("deny") == 1


def test_max_loss_does_not_limit_requests(pages):
    pages.recipe["sources"][0]["max_loss"] = 0.01
    deny(pages, "opted-out.example")
    recipe = pages.load()
    build_here(recipe)
    assert removed_from(recipe) >= {("deny", "requested")}
