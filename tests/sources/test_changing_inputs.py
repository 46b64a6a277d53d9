"""Inputs that change while they are read, and invalid responses of web servers."""

import gzip
import http.server
import io
import json
import re
import threading
from functools import cache

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from small_corpus import prose

from zyda_flows.tasks.errors import BadInput, Unavailable, ZydaError
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources import compression, streams, web_files
from zyda_flows.tasks.sources.formats import parquet
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.storage import stores
from zyda_flows.tasks.storage.folder import Folder

FILES = ("x.parquet", "x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.arrow")
PAGE = b"<!DOCTYPE html><title>Sign in</title>"


@cache
def texts_of(version):
    return [f"{version} {prose(f'{i}', 60)}" for i in range(80)]


@cache
def content_of(name, version):
    """Return a file of 80 documents; both versions have equal sizes and heads."""
    table = pa.table({"name": [f"n{i}" for i in range(80)], "text": texts_of(version)})
    file, lines = io.BytesIO(), "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    if name == "x.parquet":
        pq.write_table(
            table, file, row_group_size=10, compression="none", use_dictionary=False, write_statistics=False
        )
    elif name == "x.arrow":
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, 10)
    elif name == "x.jsonl.gz":
        return gzip.compress(lines, compresslevel=0, mtime=0)
    else:
        return zstandard.compress(lines) if name == "x.jsonl.zst" else lines
    return file.getvalue()


class Site:
    """A web server of a single file, whose responses a test controls."""

    def __init__(self):
        self.content, self.marks = b"", {"ETag": '"one"'}
        self.has_ranges, self.says_size, self.head_lacks = True, True, 0
        self.gets = 0
        self.instead = lambda site, asked: None
        self.head_instead = lambda: None
        site = self

        class Answering(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize, disable_nagle_algorithm = -1, True

            def do_HEAD(self):
                marks = {"Content-Length": len(site.content) - site.head_lacks, **site.marks}
                self.answer(*(site.head_instead() or (200, b"", marks)))

            def do_GET(self):
                site.gets += 1
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                given = site.instead(site, asked)
                if given is not None:
                    self.answer(*given)
                elif asked and site.has_ranges:
                    self.answer(206, *site.part(int(asked[1]), int(asked[2])))
                else:
                    self.answer(200, site.content, site.marks)

            def answer(self, status, body, headers):
                self.send_response(status)
                headers = {"Content-Length": len(body), **headers}
                if not site.says_size and self.command == "GET":
                    del headers["Content-Length"]
                    headers["Connection"] = "close"
                for name, value in headers.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def part(self, first, last):
        last = min(last, len(self.content) - 1)
        marks = {"Content-Range": f"bytes {first}-{last}/{len(self.content)}", **self.marks}
        return self.content[first : last + 1], marks

    def url(self, name):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"


@pytest.fixture
def site():
    made = Site()
    yield made
    made.server.shutdown()
    made.server.server_close()
    fsspec.get_filesystem_class("http").clear_instance_cache()


@pytest.fixture(autouse=True)
def small_requests(monkeypatch):
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", (0.0, 0.0, 0.0))
    monkeypatch.setattr(compression, "BLOCK", 1 << 11)
    monkeypatch.setattr(web_files, "AHEAD", 1 << 11)
    monkeypatch.setattr(parquet, "GAP_BYTES", 1 << 8)
    monkeypatch.setattr(parquet, "REQUEST_BYTES", 1 << 12)


def look_at(url, *, may_be_bad=True):
    """List and inspect the file of a URL, like the preparation of a build."""
    (file,) = list_files(Source(name="far", files=(url,)))
    return inspect("far", file, "text", 10_000, may_be_bad=may_be_bad).file


def texts_in(file):
    """Read an inspected file like ingest; no row may be bad."""
    chunks = [chunk for piece in file.pieces for chunk in read("far", file, piece, "text")]
    assert not [chunk.bad for chunk in chunks if chunk.bad]
    return [text for chunk in chunks for text in chunk.table.column("text").to_pylist() if len(chunk.rows)]


# Other versions


class Placed:
    """A file on some store, which a test may replace."""

    def __init__(self, kind, name, folder, request):
        self.name, self.kind = name, kind
        if kind == "http":
            self.site = request.getfixturevalue("site")
            self.url = self.site.url(name)
        elif kind in ("s3", "gcs"):
            self.base = f"{request.getfixturevalue(kind)}/changing-{name}"
            self.url = f"{self.base}/{name}"
        else:
            self.path = folder / "here" / name
            self.path.parent.mkdir()
            self.url = str(self.path)
        self.put("one")

    def put(self, version, cut=0):
        content = content_of(self.name, version)
        content = content[: len(content) - cut]
        if self.kind == "http":
            self.site.content, self.site.marks = content, {"ETag": f'"{version}"'}
        elif self.kind in ("s3", "gcs"):
            Folder(self.base).write(self.name, content)
        elif self.kind == "in place" and self.path.exists():
            with self.path.open("r+b") as file:
                file.write(content)
                file.truncate()
        else:
            new = self.path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(self.path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["http", "in place", "renamed", "s3", "gcs"])
def test_file_replaced_while_it_is_read_gives_no_mixture_of_versions(
    tmp_path, request, monkeypatch, kind, name
):
    placed, read_once, outcomes = Placed(kind, name, tmp_path, request), streams.Input.read_once, set()
    left = 0

    def counted(self, place, size):
        nonlocal left
        left -= 1
        if left == 0:
            placed.put("two")
        return read_once(self, place, size)

    monkeypatch.setattr(streams.Input, "read_once", counted)
    for replaced_at in (1, 2, 3, 6, 10, 1000):
        placed.put("one")
        file = look_at(placed.url)
        left = replaced_at
        outcomes.add(outcome(file))
        left = 0
    assert outcomes == {"reported", "read"}


def outcome(file):
    """Read a file; return "reported" if it changed, "read" if its whole first version was read."""
    try:
        return {tuple(texts_of("one")): "read"}.get(tuple(texts_in(file)), "a mixture")
    except BadInput as error:
        message = rf"source far, file {re.escape(file.url)}: it changed while it was read: .*; build again"
        return "reported" if has_end(error) and re.fullmatch(message, str(error)) else repr(error)


def has_end(error):
    """Return whether the chain of causes of an error ends; Dask follows it for the errors of tasks."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__
    return error is None


@pytest.mark.parametrize("name", FILES)
def test_error_of_a_store_that_went_away_has_an_end(site, name):
    site.content = content_of(name, "one")
    file = look_at(site.url(name))
    site.instead = lambda site, asked: (503, b"", {})
    with pytest.raises(ZydaError) as raised:
        texts_in(file)
    assert isinstance(raised.value, Unavailable)
    assert has_end(raised.value)


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_reported_with_its_source(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(content_of(name, "old"))
    file = look_at(str(path))
    path.unlink()
    with pytest.raises(
        BadInput,
        match=f"^source far, file {re.escape(str(path))}: it is missing, although it existed when the sources were listed",
    ):
        texts_in(file)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["http", "in place", "renamed", "s3", "gcs"])
def test_file_replaced_before_it_is_opened_is_not_read(tmp_path, request, kind, name):
    placed = Placed(kind, name, tmp_path, request)
    file = look_at(placed.url)
    placed.put("two")
    assert outcome(file) == "reported"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mark", ["ETag", "Last-Modified", "size"])
def test_web_server_tells_another_version_by_any_of_its_marks_in_any_answer(site, name, mark):
    one, two = (content_of(name, version) for version in ("one", "two"))
    for at in (1, 2, 4):
        site.content, site.marks = one, {} if mark == "size" else {mark: "one"}
        file = look_at(site.url(name))

        def become_another(site, asked, last=site.gets + at):
            if site.gets >= last:
                site.content, site.marks = (two + b"more", {}) if mark == "size" else (two, {mark: "two"})

        site.instead = become_another
        assert outcome(file) == "reported"
        site.instead = lambda site, asked: None


def test_parts_of_another_version_raise(site):
    site.content = content_of("x.parquet", "one")
    file = look_at(site.url("x.parquet"))

    def of_another(site, asked):
        body, marks = site.part(int(asked[1]), int(asked[2]))
        return 206, body, {**marks, "ETag": '"two"'}

    site.instead = of_another
    with pytest.raises(Unavailable, match=r'x\.parquet.* another version: ETag "two", expected "one"'):
        texts_in(file)


# Answers that are no data

PAGES = {
    "a page": (200, PAGE, {"Content-Type": "text/html"}),
    "a page as a part": (206, PAGE, {"Content-Type": "text/html"}),
    "a page as just that part": (206, PAGE * 100, {"Content-Type": "text/html", "ETag": '"page"'}),
    "nothing": (204, b"", {}),
    "no range": (416, b"", {}),
    "an empty file": (200, b"", {}),
    "bytes": (200, PAGE * 3000, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("page", PAGES)
def test_answer_that_is_no_data_is_asked_for_again_and_is_no_damage(site, name, page):
    site.content = content_of(name, "one")
    for at in (1, 2, 3, 7):
        last = site.gets + at
        site.instead = lambda site, asked, last=last: PAGES[page] if site.gets in (last, last + 1) else None
        file = look_at(site.url(name))
        assert texts_in(file) == texts_of("one")
    site.instead = lambda site, asked: PAGES[page]
    with pytest.raises(Unavailable, match=rf"{re.escape(name)}: its server answered with "):
        texts_in(file)


@pytest.mark.parametrize("name", FILES)
def test_part_that_was_not_asked_for_is_never_put_beside_others(site, name):
    site.content = content_of(name, "one")

    def shifted(site, asked):
        return (206, *site.part(int(asked[1]) + 3, int(asked[2]) + 3)) if site.gets % 3 == 0 else None

    site.instead = shifted
    assert texts_in(look_at(site.url(name))) == texts_of("one")
    site.instead = lambda site, asked: (206, site.part(int(asked[1]), int(asked[2]))[0], site.marks)
    with pytest.raises(ZydaError, match="no Content-Range"):
        texts_in(look_at(site.url(name)))


@pytest.mark.parametrize("name", FILES)
def test_short_response_is_continued_by_another_request(site, name):
    site.content = content_of(name, "one")
    site.instead = lambda site, asked: (206, *site.part(int(asked[1]), (int(asked[1]) + int(asked[2])) // 2))
    assert texts_in(look_at(site.url(name))) == texts_of("one")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("says", ["nothing of ranges", "that it has none", "not how large its answer is"])
def test_server_without_ranges_is_read_right(site, name, says):
    site.content, site.has_ranges = content_of(name, "one"), False
    site.says_size = says != "not how large its answer is"
    if says == "that it has none":
        site.marks["Accept-Ranges"] = "none"
    file = look_at(site.url(name))
    before = site.gets
    assert texts_in(file) == texts_of("one")
    assert site.gets == before + 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("lacks", [-1000, 1000])
@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("says_size", [True, False])
def test_wrong_size_stated_by_a_server_raises(site, name, lacks, has_ranges, says_size):
    site.content, site.head_lacks, site.has_ranges = content_of(name, "one"), lacks, has_ranges
    site.says_size = says_size
    with pytest.raises(ZydaError, match=rf"{re.escape(name)}.*bytes") as raised:
        texts_in(look_at(site.url(name)))
    assert "damaged" not in str(raised.value)


@pytest.mark.parametrize("name", FILES)
def test_page_that_a_server_gives_for_every_request_is_no_file(site, name):
    site.content, site.marks = PAGE * 100, {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(Unavailable, match="its server answers with a web page, where a file is expected"):
        texts_in(look_at(site.url(name)))


# Hosts that limit requests


@pytest.fixture
def waits(monkeypatch):
    """Give the seconds that are waited for, which pass at once."""
    seconds = []
    monkeypatch.setattr(stores.time, "sleep", seconds.append)
    return seconds


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.parquet"])
@pytest.mark.parametrize(
    ("status", "headers", "seconds"), [(429, {"Retry-After": "900"}, 900), (503, {"Retry-After": "40"}, 40)]
)
def test_requested_wait_of_a_web_host_is_respected(site, waits, name, status, headers, seconds):
    site.content = content_of(name, "one")
    file = look_at(site.url(name))
    refused = iter([True, True])
    site.instead = lambda site, asked: (status, b"", headers) if next(refused, False) else None
    assert texts_in(file) == texts_of("one")
    assert waits == [seconds] * 2


def test_web_host_that_limits_requests_while_it_is_listed_is_waited_for(site, waits):
    site.content = content_of("x.jsonl", "one")
    refused = iter([True] * 4)  # each HEAD request is repeated as a GET request
    site.head_instead = lambda: (429, b"", {"Retry-After": "60"}) if next(refused, False) else None
    site.instead = lambda site, asked: site.head_instead()
    assert texts_in(look_at(site.url("x.jsonl"))) == texts_of("one")
    assert waits == [60] * 2
