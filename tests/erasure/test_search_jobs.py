"""Removal requests as jobs: results equal those of one process, and finished jobs are not repeated."""

import gzip
import operator

import pyarrow as pa
import pytest
from forgetting import asking, forget, in_turn
from small_corpus import build_here, edited, prose, table_of, write_rows

from zyda_flows.flows.command.cluster import over_cluster
from zyda_flows.flows.command.verify import verify
from zyda_flows.tasks.documents.address_tables import AddressDigests
from zyda_flows.tasks.documents.deny_list import requests_in
from zyda_flows.tasks.erasure.certified_removal import lines_of
from zyda_flows.tasks.erasure.in_shards import DocumentsInShards
from zyda_flows.tasks.erasure.large_lists import requests_of_large_lists, without_unlisted_tables
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.erasure.requested_documents import cost_of_search, find_documents
from zyda_flows.tasks.erasure.shard_search import lists_of_corpus
from zyda_flows.tasks.erasure.stored_requests import faults_of_requests
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.storage.claims import forgetting
from zyda_flows.tasks.storage.folder import Folder

PAGE, FOLDER = "https://Jane.example/%7eme", "https://b.example/x/*"
TEXT = prose("asked about")


@pytest.fixture
def pages(corpus):
    """Return a corpus of two sources with requested pages, a copy, and a page that is only similar."""
    rows = [
        {"url": f"https://site{i}.example/p?id={i}", "author": f"a{i}", "text": prose(f"page {i}")}
        for i in range(8)
    ]
    rows[3] |= {"url": "jane.example/~me", "text": TEXT}
    rows[5] |= {"url": "https://b.example/x/y/z", "author": "Jane"}
    for i in range(4):
        write_rows(corpus.folder / f"in/pages-{i}.jsonl", rows[i::4])
    with (corpus.folder / "in/pages-1.jsonl").open("a") as file:
        file.write('{"url": "https://jane.example/~me", "text": 1}\n')
    others = [{"url": f"https://o{i}.example/", "text": prose(f"other {i}")} for i in range(4)]
    others[1]["text"], others[2]["text"] = TEXT, edited(TEXT, 3)
    write_rows(corpus.folder / "in/others.jsonl", others)
    corpus.recipe |= {
        "name": "pages",
        "on_bad_rows": "set_aside",
        "publish_set_aside": True,
        "sources": [
            {"name": "pages", "files": "in/pages-*.jsonl"},
            {"name": "others", "files": "in/others.jsonl"},
        ],
    }
    return corpus


def request_file(folder, lines, name="requests.txt"):
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return str(folder / name)


def url_lines():
    return [f"https://p{i}.example/a/{i}?x={i}" for i in range(500)]


REQUESTS = [
    {"urls": [PAGE, FOLDER]},
    {"domains": ["jane.example"]},
    {"columns": ["author=Jane"]},
    {"texts": [TEXT]},
    {"ids": ["0x40000000"]},
]


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("options", REQUESTS, ids=lambda options: next(iter(options)))
def test_jobs_find_the_documents_that_one_process_finds(pages, options, alike):
    build_here(pages.load())
    if "urls" in options:
        options = {"urls": [request_file(pages.folder, options["urls"])]}
    expected = find_documents(pages.load(), asking(**options), in_turn, alike=alike)
    found = find_documents(pages.load(), asking(**options), in_turn, alike=alike, is_on_cluster=True)
    assert found == expected
    assert expected.documents


@pytest.mark.slow
def test_workers_find_the_documents_that_one_process_finds(pages):
    build_here(pages.load())
    with replaced_limits(request_list_bytes=100):
        request = asking(urls=[request_file(pages.folder, [*url_lines(), PAGE, FOLDER])])
    request = request.with_table(pages.load().folder)
    expected = find_documents(pages.load(), request, in_turn)
    with over_cluster(pages.load(), "searching") as spread:
        found = find_documents(pages.load(), request, spread, is_on_cluster=True)
    assert found == expected
    assert len(found.documents) > 3


def test_finished_jobs_are_not_repeated_after_an_interruption(pages, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.erasure.shard_search.SHARDS_AT_ONCE", 1)
    build_here(pages.load())
    calls, find = [], DocumentsInShards.find
    monkeypatch.setattr(DocumentsInShards, "find", lambda job: calls.append(job.path) or find(job))

    def interrupted(function, items):
        if function is operator.call:
            in_turn(function, items[:2])
            raise KeyboardInterrupt
        return in_turn(function, items)

    request = asking(domains=["jane.example"])
    with pytest.raises(KeyboardInterrupt):
        find_documents(pages.load(), request, interrupted, is_on_cluster=True)
    assert len(calls) == 2
    found = find_documents(pages.load(), request, in_turn, is_on_cluster=True)
    assert len(calls) == len(set(calls)) > 5
    assert found == find_documents(pages.load(), request, in_turn)


def test_records_of_jobs_have_no_texts_and_no_addresses(pages):
    build_here(pages.load())
    find_documents(pages.load(), asking(columns=["author=Jane"], texts=[TEXT]), in_turn, is_on_cluster=True)
    work = pages.folder / "out/pages/work"
    lists, records = [*work.glob("requested-*.json")], [*work.glob("requested/**/*.json")]
    contents = [path.read_bytes() for path in (*lists, *records)]
    assert lists
    assert records
    assert not [content for content in contents if b"Jane" in content or TEXT[:40].encode() in content]


def test_request_for_more_documents_than_allowed_is_an_error(pages, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.erasure.shard_search.MOST_DOCUMENTS", 1)
    build_here(pages.load())
    with pytest.raises(BadInput, match="documents match the request, at most 1 at once"):
        find_documents(pages.load(), asking(domains=["jane.example", "b.example"]), in_turn)


@pytest.mark.parametrize("is_on_cluster", [False, True])
def test_large_list_removes_what_a_small_list_removes(pages, is_on_cluster):
    build_here(pages.load())
    lines = [
        *url_lines(),
        PAGE,
        "# a comment",
        FOLDER,
        "",
        '{"column": "author", "value": "a7"}',
        "o3.example",
    ]
    path = request_file(pages.folder, lines)
    expected = find_documents(pages.load(), asking(urls=[path]), in_turn)
    with replaced_limits(request_list_bytes=100):
        small = asking(urls=[path])
    request = small.with_table(pages.load().folder)
    found = find_documents(pages.load(), request, in_turn, is_on_cluster=is_on_cluster)
    assert found == expected
    assert {document.source for document in found.documents} == {"pages", "others"}
    assert request.counts() == {"url": 502, "column": 1, "domain": 1}


def test_deny_list_names_the_table_of_a_large_list_and_later_builds_apply_it(pages, capsys):
    build_here(pages.load())
    with replaced_limits(request_list_bytes=100):
        request = asking(urls=[request_file(pages.folder, [*url_lines(), PAGE])])
    request = request.with_table(pages.load().folder)
    _, recipe, certificate = forget(pages, request, alike=False)
    assert certificate.request == {"url": 501}
    entries = [entry for file in lists_of_corpus(recipe) for entry in requests_in(file)]
    assert [entry.addresses for entry in entries if entry.addresses] == [501]
    with without_unlisted_tables(recipe.folder):
        assert len(recipe.folder.files("denied_addresses")) == 1
    assert len(recipe.folder.files("denied_addresses")) == 1

    assert not [*faults_of_requests(recipe)]
    (table,) = recipe.folder.files("denied_addresses")
    content = recipe.folder.read(table)
    for damaged, fault in (
        (content[:-1] + b"x", "has another content than was written"),
        (content[1:], "has another content than was written"),
        (None, "is missing"),
    ):
        recipe.folder.delete(table)
        if damaged:
            recipe.folder.write(table, damaged)
        with pytest.raises(Denied, match="1 file of removal requests damaged or missing"):
            verify(str(pages.path))
        assert f"{table} {fault}, but a deny list names it; restore it" in capsys.readouterr().out
    recipe.folder.write(table, content)
    certified = recipe.folder.read(certificate.deny_list)
    recipe.folder.write(certificate.deny_list, certified[:-3] + b"7}\n")
    with pytest.raises(Denied, match="1 file of removal requests"):
        verify(str(pages.path), repair=True)
    assert "the file was changed after `zyda forget` wrote it; restore it" in capsys.readouterr().out
    recipe.folder.write(certificate.deny_list, certified)
    assert not [*faults_of_requests(recipe)]

    write_rows(pages.folder / "in/new.jsonl", [{"url": url_lines()[77]}, {"url": "p77.example/"}])
    rows = [{"url": url_lines()[77], "text": prose("new")}, {"url": "p77.example/", "text": prose("kept")}]
    write_rows(pages.folder / "in/new.jsonl", rows)
    sources = [*pages.recipe["sources"], {"name": "new", "files": "in/new.jsonl"}]
    recipe = pages.load(sources=sources)
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "new")] == [prose("kept")]
    again = find_documents(recipe, request, in_turn, alike=False)
    assert lines_of(request, again)[0] in entries


def test_tables_without_a_deny_list_are_deleted(pages):
    folder = Folder(str(pages.folder / "out/pages"))
    with replaced_limits(request_list_bytes=100):
        request = asking(urls=[request_file(pages.folder, url_lines())])
    with without_unlisted_tables(folder), without_unlisted_tables(folder, ["another"]):
        request.with_table(folder)
        assert len(folder.files("denied_addresses")) == 1
    assert folder.files("denied_addresses") == []


def test_dry_run_keeps_the_table_of_a_request_that_is_carried_out(pages):
    folder = Folder(str(pages.folder / "out/pages"))
    with replaced_limits(request_list_bytes=100):
        request = asking(urls=[request_file(pages.folder, url_lines())])
    (entry,) = request.with_table(folder).requests
    with forgetting(folder, "zyda forget"), without_unlisted_tables(folder, [entry.addresses_sha256]):
        pass
    assert len(folder.files("denied_addresses")) == 1
    with without_unlisted_tables(folder, [entry.addresses_sha256]):
        pass
    assert folder.files("denied_addresses") == []


def test_compressed_list_is_large_by_its_decompressed_size(tmp_path):
    content = gzip.compress(b"a.example/x\n" * 100)
    (tmp_path / "list.txt.gz").write_bytes(content)
    reader = RequestReader()
    with replaced_limits(request_list_bytes=1200):
        reader.add_lists([str(tmp_path / "list.txt.gz")])
        assert (len(reader.requests), len(reader.large_lists)) == (100, 0)
    with replaced_limits(request_list_bytes=1199):
        reader.add_lists([str(tmp_path / "list.txt.gz")])
    assert (len(reader.requests), len(reader.large_lists)) == (100, 1)


def test_request_whose_deny_list_could_not_be_read_is_an_error_before_anything_is_written(pages):
    build_here(pages.load())
    with (
        replaced_limits(list_bytes=1000),
        pytest.raises(BadInput, match=r"at most .* 1,000 can be read: split"),
    ):
        forget(pages, asking(domains=["jane.example"]))
    assert pages.load().folder.files("denied") == []


def test_too_many_requests_that_are_no_addresses_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.erasure.large_lists.MOST_OTHERS", 2)
    folder = Folder(str(tmp_path / "corpus"))
    content = b"a.example/x\na.example\nb.example\n"
    requests = requests_of_large_lists(folder, large(tmp_path, "two.txt", content))
    assert [request.domain for request in requests] == ["a.example", "b.example", None]
    with pytest.raises(BadInput, match="more than 2 requests that are no addresses"):
        requests_of_large_lists(folder, large(tmp_path, "three.txt", content + b"c.example\n"))


def large(folder, name, content):
    (folder / name).write_bytes(content)
    reader = RequestReader()
    with replaced_limits(request_list_bytes=1):
        reader.add_lists([str(folder / name)])
    return reader.large_lists


FAULTS = [
    (b"a.example/x\nb.example/y\r\nnot a domain!\nc.example/z\n", "1 of its 4 lines .* line 3: "),
    (b"a.example/x\r\n\r\xff\xfe\n", "line 3: expected UTF-8, found the byte 0xff"),
    (b"# a comment\n\n" * 9, "list.txt: no line of the file is a request"),
    (b"# SHA-256 of what follows: 0\n", "a deny list of zyda forget"),
    (b"a.example/x\n" + b"y" * 300, "a line has more than 200 bytes"),
    (b"a.example/x\n" * 30 + b"a.example/1\na.example/2", "more than 31 addresses"),
    (gzip.compress(b"a.example/x\n" * 9)[:-9], "it cannot be read"),
]


@pytest.mark.parametrize(("content", "fault"), FAULTS)
def test_fault_of_a_large_list_is_an_error(tmp_path, content, fault):
    files = large(tmp_path, "list.txt", content)
    with (
        replaced_limits(line_bytes=200, denied_addresses=31),
        pytest.raises(BadInput, match=rf"--urls.*{fault}"),
    ):
        requests_of_large_lists(Folder(str(tmp_path / "corpus")), files)


def test_list_that_changed_since_it_was_listed_is_an_error(tmp_path):
    files = large(tmp_path, "list.txt", b"a.example/x\n")
    (tmp_path / "list.txt").write_bytes(b"a.example/x\nb.example/y\n")
    with pytest.raises(BadInput, match=r"^--urls, file \S+list.txt: it changed while it was read"):
        requests_of_large_lists(Folder(str(tmp_path / "corpus")), files)


def test_lists_of_several_blocks_give_the_same_table(tmp_path, monkeypatch):
    content = "".join(f"{line}\n" for line in [*url_lines(), "Z.example/%7e", "y.example/*"]).encode()
    whole = requests_of_large_lists(Folder(str(tmp_path / "a")), large(tmp_path, "a.txt", content))
    monkeypatch.setattr("zyda_flows.tasks.erasure.large_lists.BLOCK", 1000)
    monkeypatch.setattr("zyda_flows.tasks.erasure.large_lists.ADDRESSES_AT_ONCE", 1)
    shuffled = b"".join(sorted(content.splitlines(keepends=True))) * 2
    parts = requests_of_large_lists(Folder(str(tmp_path / "b")), large(tmp_path, "b.txt", shuffled))
    assert whole == parts
    assert whole[0].addresses == 502


def test_pages_are_found_in_the_lines_of_a_block():
    from zyda_flows.tasks.erasure.large_lists import lines_of as lines_of_block

    assert lines_of_block(b"a\n\nbc\n") == pa.array(["a", "", "bc"], pa.large_string())


def test_largest_job_does_not_grow_with_the_corpus(pages, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.erasure.shard_search.SHARDS_AT_ONCE", 2)
    largest = []
    for files in (4, 16):
        for i in range(files):
            row = {"url": f"https://n{i}.example/", "text": prose(f"new {i}")}
            write_rows(pages.folder / f"in/pages-{i + 4}.jsonl", [row])
        build_here(pages.load())
        sizes = []

        def measured(function, items, sizes=sizes):
            sizes += [len(job.shards) for job in items if isinstance(job, DocumentsInShards)]
            return in_turn(function, items)

        find_documents(pages.load(), asking(domains=["jane.example"]), measured, is_on_cluster=True)
        largest.append((max(sizes), len(sizes)))
    assert largest[0][0] == largest[1][0] == 2
    assert largest[1][1] > largest[0][1]


def test_largest_part_of_a_list_in_memory_does_not_grow_with_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.erasure.large_lists.BLOCK", 4000)
    monkeypatch.setattr("zyda_flows.tasks.sources.compression.BLOCK", 1000)
    sizes, add = [], AddressDigests.add
    monkeypatch.setattr(
        AddressDigests, "add", lambda self, addresses: sizes.append(len(addresses)) or add(self, addresses)
    )
    largest = []
    for count in (1000, 4000):
        content = "".join(f"https://p{i:05}.example/\n" for i in range(count)).encode()
        sizes.clear()
        requests_of_large_lists(Folder(str(tmp_path / "c")), large(tmp_path, f"{count}.txt", content))
        largest.append(max(sizes))
    assert largest[0] == largest[1] < 1000


def test_cost_of_a_search_follows_the_documents_and_the_texts(pages):
    build_here(pages.load())
    by_column = cost_of_search(pages.load(), asking(columns=["author=Jane"]), alike=False)
    by_both = cost_of_search(pages.load(), asking(columns=["author=Jane"], domains=["b.example"]), alike=True)
    documents = 8 + 4
    assert by_column.files == by_both.files == 5
    assert by_column.size == documents * (8 + 20)
    assert by_both.size == documents * (8 + 20 + 40)
    assert by_both.seconds - by_column.seconds == pytest.approx(documents * 2e-6)
    texts = sum(len(row["text"]) for source in ("pages", "others") for row in table_of(pages.load(), source))
    assert by_both.text_seconds - by_column.text_seconds >= texts * 8e-9


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'a.example/x\n{"url": \n', "line 2: invalid JSON: unexpected end of data, column 8"),
        (b"a.example/x\ncaf\xe9.example\n", "line 2: expected UTF-8, found the byte 0xe9; save it as UTF-8"),
    ],
)
def test_error_of_a_list_names_the_line_once_and_the_remedy(tmp_path, content, fault):
    path = tmp_path / "requests.txt"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=f"requests.txt: .*{fault}$"):
        RequestReader().add_lists([str(path)])
