"""Test deny lists in builds: the documents they remove, and the shards that a changed list rebuilds."""

import gzip
import hashlib
import json
import re

import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, contents, prose, write_rows

from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.storage.artifacts import WORK

TWIN = prose("both sources have it")


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
    expected = {f"work/{stage}/pages/{i:06d}-000-000" for stage in ("ingest", "removals") for i in range(3)}
    # The three shards are published as one file, whose artifact has the name of its first shard.
    expected.add("work/publish/pages/000000-000-000")
    assert shards_before >= expected
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
