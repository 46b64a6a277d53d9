"""Inputs: the files of a pattern, failing stores and changed files."""

import gzip
import http.server
import io
import json
import os
import ssl
import subprocess
import threading
from functools import partial
from types import SimpleNamespace

import aiohttp
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broken_proxy import Proxy
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from small_corpus import build_here, contents, kept_names, prose, rows, table_of, write_rows

from zyda_flows.tasks.errors import BadInput, Denied, NotConserved, Unavailable, ZydaError
from zyda_flows.tasks.ingest import file_pieces
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.ingest.numbering import RowConverter
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources import compression
from zyda_flows.tasks.sources.byte_lines import ByteLines
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, arrow_chunk
from zyda_flows.tasks.sources.formats import arrow, jsonl, parquet
from zyda_flows.tasks.sources.input_files import FilePiece, load_listing, sampled_files
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import read
from zyda_flows.tasks.sources.register import load_register
from zyda_flows.tasks.storage import stores
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.stored import stored_engine

pytestmark = pytest.mark.early(4)

DOCUMENTS = rows(**{f"n{i}": prose(f"n{i}", 60) for i in range(60)})


def write_inputs(folder):
    """Write some documents in each of the forms, large enough for several requests."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "a.jsonl", DOCUMENTS)
    write_rows(folder / "b.jsonl.gz", DOCUMENTS)
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), folder / "c.parquet", row_group_size=15)


@pytest.fixture
def patient(monkeypatch):
    """Wait for nothing before a file is read again."""
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", (0.0, 0.0, 0.0))


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", ())


class Ranges(http.server.SimpleHTTPRequestHandler):
    """A folder's files, whole or a range of them."""

    protocol_version = "HTTP/1.1"

    def send_head(self):
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as file:
            self.content = file.read()
        whole, asked = len(self.content), self.headers.get("Range")
        if asked:
            first, _, last = asked.partition("=")[2].partition("-")
            last = min(int(last or whole - 1), whole - 1)
            self.content = self.content[int(first) : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
        else:
            self.send_response(200)
        self.send_header("Last-Modified", self.date_time_string(int(os.path.getmtime(path))))
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        return

    def do_GET(self):
        self.content = b""
        self.send_head()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path):
    """Return a function that starts an HTTP server of a folder, with TLS if a certificate is given."""
    folder = tmp_path / "web"
    folder.mkdir()
    servers = []

    def start(certificate=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(folder)))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return folder, server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def sources_at(base):
    return [
        {"name": name, "files": f"{base}/{file}", "on_bad_rows": "set_aside"}
        for name, file in (("plain", "a.jsonl"), ("packed", "b.jsonl.gz"), ("columns", "c.parquet"))
    ]


def published_bytes(recipe, attempts=60):
    """Build a recipe, with retries; return the digests of the files that contain no address."""
    for _ in range(attempts):
        try:
            build_here(recipe)
            break
        except Unavailable:
            continue
    found = contents(recipe)
    assert not [path for path in found if path.startswith("set_aside/")]
    return {path: digest for path, digest in found.items() if path not in NAME_THE_STORE}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert"],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("needs openssl")
    (folder / "both").write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return folder


def forget_connections():
    for protocol in ("http", "s3"):
        fsspec.get_filesystem_class(protocol).clear_instance_cache()


NAME_THE_STORE = {"README.md", "manifest.json", "sources.parquet"}
FAULTS = {"answers_500": 0.3, "resets_bodies": 0.5, "cuts_bodies": 0.5}
BREAKING = [(p, f) for p in ("s3", "http", "https") for f in FAULTS if (p, f) != ("https", "answers_500")]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "fault"), BREAKING)
def test_store_of_inputs_that_breaks_changes_nothing_and_is_never_taken_for_damage(
    corpus, web, request, monkeypatch, patient, protocol, fault
):
    folder = corpus.folder / "web"
    if protocol == "s3":
        bucket = request.getfixturevalue("s3")
        port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
        base = f"{bucket}/inputs"
        write_inputs(folder / "s3")
        for path in (folder / "s3").iterdir():
            Folder(base).write(path.name, path.read_bytes())
        folder = folder / "s3"
    elif protocol == "https":
        certificate = request.getfixturevalue("certificate")
        folder, port = web(certificate / "both")
        aiohttp.connector._SSL_CONTEXT_VERIFIED.load_verify_locations(certificate / "cert")
        write_inputs(folder)
    else:
        folder, port = web()
        write_inputs(folder)
    expected = published_bytes(corpus.load(name="whole", sources=sources_at(folder)))
    with Proxy(port) as proxy:
        setattr(proxy, fault, FAULTS[fault])
        if protocol == "s3":
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{proxy.address}")
        else:
            base = f"{protocol}://{proxy.address}"
        forget_connections()
        try:
            assert published_bytes(corpus.load(sources=sources_at(base))) == expected
            assert proxy.broken.total()
        finally:
            forget_connections()


class Breaking(MemoryFile):
    """A file in memory whose store fails at some of its reads."""

    failing = frozenset()
    reads = 0
    error = ConnectionResetError

    def read(self, *size):
        type(self).reads += 1
        if type(self).reads in self.failing:
            raise self.error("broken on purpose")
        return super().read(*size)


@pytest.fixture
def memory(monkeypatch, tmp_path):
    """Give a folder of inputs in memory, opened by `Breaking`."""
    write_inputs(tmp_path / "for-memory")
    for path in (tmp_path / "for-memory").iterdir():
        Folder("memory://inputs").write(path.name, path.read_bytes())

    def breaking(self, path, mode="rb", **_):
        found = MemoryFileSystem.store[self._strip_protocol(path)]
        return Breaking(self, path, found.getvalue())

    monkeypatch.setattr(MemoryFileSystem, "_open", breaking)
    monkeypatch.setattr(compression, "BLOCK", 1 << 11)
    monkeypatch.setattr(Breaking, "reads", 0)
    yield "memory://inputs"
    MemoryFileSystem.store.clear()


def prepare_and_ingest(recipe, monkeypatch):
    (found,) = prepare.fn(recipe)
    monkeypatch.setattr(Breaking, "reads", 0)
    ingest(recipe, found)


READS = {"c.parquet": 1}  # all at once


@pytest.mark.parametrize("on_bad_rows", ["set_aside", "fail"])
@pytest.mark.parametrize("file", ["a.jsonl", "b.jsonl.gz", "c.parquet"])
@pytest.mark.parametrize("error", [ConnectionResetError, TimeoutError, RuntimeError])
def test_any_failure_of_a_store_in_the_middle_of_a_file_is_worth_a_retry(
    corpus, memory, monkeypatch, impatient, on_bad_rows, file, error
):
    recipe = corpus.load(sources=[{"name": "far", "files": f"{memory}/{file}", "on_bad_rows": on_bad_rows}])
    monkeypatch.setattr(Breaking, "error", error)
    for failing in [{n} for n in range(1, READS.get(file, 4) + 1)]:
        monkeypatch.setattr(Breaking, "reads", 0)
        monkeypatch.setattr(Breaking, "failing", failing)
        with pytest.raises(Unavailable, match="broken on purpose"):
            prepare_and_ingest(recipe, monkeypatch)
    monkeypatch.setattr(Breaking, "failing", set())
    assert ingest(recipe, prepare.fn(recipe)[0]).out.documents == len(DOCUMENTS)


def test_failed_read_is_made_again_within_the_shard(corpus, memory, monkeypatch, patient):
    recipe = corpus.load(sources=[{"name": "far", "files": f"{memory}/*"}])
    monkeypatch.setattr(Breaking, "failing", frozenset(range(3, 200, 5)))
    assert ingest(recipe, prepare.fn(recipe)[0]).out.documents == 3 * len(DOCUMENTS)


def test_file_that_ends_before_the_size_that_was_listed_is_not_damage(corpus, memory, monkeypatch, impatient):
    class Short(Breaking):
        def read(self, *size):
            return super().read(*size) if self.tell() < 3000 else b""

    recipe = corpus.load(sources=[{"name": "far", "files": f"{memory}/a.jsonl", "on_bad_rows": "set_aside"}])
    (found,) = prepare.fn(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(
            MemoryFileSystem,
            "_open",
            lambda self, path, **_: Short(self, path, MemoryFileSystem.store[path].getvalue()),
        )
        with pytest.raises(
            Unavailable, match=r"source far, file memory:.*a\.jsonl: it ended after .* of .* bytes"
        ):
            ingest(recipe, found)
    assert ingest(recipe, found).out.documents == len(DOCUMENTS)


@pytest.mark.parametrize("content", [b"", b"more"])
def test_file_changed_since_it_was_listed_raises(corpus, content):
    path = corpus.folder / "in/x.jsonl"
    write_rows(path, DOCUMENTS)
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x.jsonl", "on_bad_rows": "set_aside"}])
    (found,) = prepare.fn(recipe)
    path.write_bytes(path.read_bytes() + content if content else b'{"text": "other"}\n')
    with pytest.raises(BadInput, match=r"source x, file .*x\.jsonl: it changed while it was read: it was"):
        ingest(recipe, found)


def test_failing_server_is_not_reported_as_a_missing_file(web, impatient):
    folder, port = web()
    write_inputs(folder)
    with Proxy(port) as proxy:
        proxy.answers_500 = 1.0
        forget_connections()
        with pytest.raises(Unavailable, match=r"source far: .*cannot be listed"):
            list_files(Source(name="far", files=(f"http://{proxy.address}/a.jsonl",)))
        with pytest.raises(BadInput, match="no file matches"):
            list_files(Source(name="far", files=(f"http://127.0.0.1:{port}/nothing.jsonl",)))


# Which files a pattern names


def names_of(*files):
    return [file.url.rpartition("/")[2] for file in list_files(Source(name="s", files=files))]


def test_links_are_followed_as_in_the_cache_of_the_hub(corpus):
    hub = corpus.folder / "hub/datasets--some--thing"
    (hub / "snapshots/abc/data").mkdir(parents=True)
    for i in range(2):
        write_rows(hub / f"blobs/{i}", rows(**{f"n{i}": prose(f"n{i}")}))
        (hub / f"blobs/{i}").rename(hub / f"blobs/sha-{i}")
        (hub / f"snapshots/abc/data/{i}.jsonl").symlink_to(f"../../../blobs/sha-{i}")
    recipe = corpus.load(sources=[{"name": "hub", "files": "hub/*/snapshots/*/data/*.jsonl"}])
    build_here(recipe)
    assert kept_names(recipe) == {"n0", "n1"}


def test_links_to_folders_are_walked_through(corpus, tmp_path):
    write_rows(tmp_path / "elsewhere/deep/a.jsonl", DOCUMENTS)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/linked").symlink_to(tmp_path / "elsewhere")
    assert names_of(f"{tmp_path}/here/**/*.jsonl") == ["a.jsonl"]
    assert names_of(f"{tmp_path}/here/*/deep/*.jsonl") == ["a.jsonl"]


@pytest.mark.parametrize("pattern", ["in/x*.jsonl", "in/x.jsonl"])
def test_broken_link_is_reported_only_if_it_was_requested(corpus, pattern):
    (corpus.folder / "in/x.jsonl").symlink_to("nothing.jsonl")
    (corpus.folder / "in/best-0.lock").symlink_to("nothing.lock")
    recipe = corpus.load(sources=[{"name": "odd", "files": pattern}])
    with pytest.raises(
        BadInput, match=r"source odd, file .*x\.jsonl: a link to nothing\.jsonl, which does not exist"
    ):
        list_files(recipe.sources[0])
    assert len(list_files(corpus.load().sources[0])) == 2


@pytest.mark.parametrize("pattern", ["in/x*", "in/x.jsonl", "in/x*/*.jsonl"])
def test_cyclic_links_are_reported_or_not_followed(corpus, pattern):
    (corpus.folder / "in/x.jsonl").symlink_to("x.jsonl")
    (corpus.folder / "in/xx").symlink_to(".")
    with pytest.raises(BadInput, match=r"which leads back to itself|no file matches"):
        list_files(corpus.load(sources=[{"name": "odd", "files": pattern}]).sources[0])


def test_file_is_listed_that_came_since_the_last_look(s3):
    folder = Folder(f"{s3}/fresh")
    for i in range(3):
        folder.write(f"{i}.jsonl", b'{"text": "a"}\n')
        assert names_of(f"{s3}/fresh/*.jsonl") == [f"{j}.jsonl" for j in range(i + 1)]


@pytest.mark.parametrize("name", ["a[1].jsonl", "a?.jsonl", "a::b.jsonl", "a b#c%20.jsonl"])
def test_local_file_is_found_by_just_its_name(corpus, name):
    write_rows(corpus.folder / "in" / name, DOCUMENTS)
    write_rows(corpus.folder / "in/a1.jsonl", rows(other="other"))
    recipe = corpus.load(sources=[{"name": "odd", "files": f"in/{name}"}])
    assert ingest(recipe, prepare.fn(recipe)[0]).out.documents == len(DOCUMENTS)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("in/**.jsonl", "cannot be listed: Invalid pattern"),
        ("HTTP://127.0.0.1:9/x.jsonl", "cannot be listed"),
        ("in/best-0.parquet/x.jsonl", "no file matches|cannot be listed"),
    ],
)
def test_error_for_an_invalid_pattern_has_one_line(corpus, pattern, message):
    with pytest.raises((BadInput, Unavailable), match=rf"source odd: .*({message})") as raised:
        list_files(corpus.load(sources=[{"name": "odd", "files": pattern}]).sources[0])
    assert len(str(raised.value).splitlines()) == 1


def test_missing_address_is_reported_with_the_status_of_its_server(web):
    _, port = web()
    url = f"http://127.0.0.1:{port}/missing.jsonl"
    with pytest.raises(BadInput, match=f"no file matches {url}: its server answered with status 404$"):
        list_files(Source(name="far", files=(url,)))


def test_file_without_a_stated_size_is_reported(web, monkeypatch):
    folder, port = web()
    write_inputs(folder)
    send_header = Ranges.send_header
    monkeypatch.setattr(
        Ranges,
        "send_header",
        lambda self, name, value: name == "Content-Length" or send_header(self, name, value),
    )
    monkeypatch.setattr(Ranges, "protocol_version", "HTTP/1.0")
    forget_connections()
    with pytest.raises(BadInput, match=r"a\.jsonl: its server does not state its size"):
        list_files(Source(name="far", files=(f"HTTP://127.0.0.1:{port}/a.jsonl",)))


def version(**info):
    from fsspec.implementations.local import LocalFileSystem

    from zyda_flows.tasks.sources.listing import to_input_file

    return to_input_file(
        "s", LocalFileSystem(), {"name": "/x", "size": 1, "type": "file", **info}, "x"
    ).version


def test_version_of_a_file_follows_its_content_and_not_its_metadata():
    google = {"md5Hash": "m", "crc32c": "c"}
    assert version(**google, etag="1", generation="1") == version(**google, etag="2", generation="2")
    assert version(crc32c="c", etag="1") == version(crc32c="c", etag="2")
    assert version(etag="1", generation="1") != version(etag="1", generation="2")
    assert version(ETag="1", LastModified="1") == version(ETag="1", LastModified="2")
    assert version(ETag="1") != version(ETag="2")
    assert version(**{"Last-Modified": "1"}) != version(**{"Last-Modified": "2"})


# The forms of files


def built(corpus, name, content, **changes):
    (corpus.folder / "in" / name).write_bytes(content)
    recipe = corpus.load(sources=[{"name": "odd", "files": f"in/{name}"}], **changes)
    (found,) = prepare.fn(recipe)
    return recipe, ingest(recipe, found)


LINE = b'{"text": "some text"}\n'


def test_byte_order_mark_is_no_part_of_the_first_row(corpus):
    assert built(corpus, "x.jsonl", b"\xef\xbb\xbf" + LINE * 3)[1].out.documents == 3


def test_zeros_behind_gzip_are_padding_and_anything_else_is_damage(corpus):
    assert built(corpus, "x.jsonl.gz", gzip.compress(LINE * 3) + bytes(1000))[1].out.documents == 3
    _, done = built(corpus, "y.jsonl.gz", gzip.compress(LINE * 3) + bytes(9) + b"x", on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (3, 1)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst", "x.parquet", "x.arrow"])
def test_file_of_no_bytes_is_damage_where_its_form_has_a_head(corpus, name):
    (corpus.folder / "in" / name).write_bytes(b"")
    with pytest.raises(ZydaError, match=rf"source odd, file .*{name}: each of its files has 0 bytes"):
        built(corpus, name, b"")
    write_rows(corpus.folder / "in/y.jsonl", DOCUMENTS)
    sources = [{"name": "odd", "files": [f"in/{name}", "in/y.jsonl"], "on_bad_rows": "set_aside"}]
    recipe = corpus.load(sources=sources)
    build_here(recipe)
    (aside,) = table_of(recipe, "set_aside")
    assert aside["file"].endswith(name)
    assert "the file is damaged" in aside["reason"]


def test_json_array_is_reported_as_not_json_lines(corpus):
    one = json.dumps({"text": "some text"})
    for content in (
        f"[{one}]",
        f"[\n{one},\n{one}\n]",
        json.dumps(json.loads(one), indent=1),
        f"[{one}," * 40_000,
    ):
        with pytest.raises(
            ZydaError, match=r"odd, file .*x\.json, .*looks like one JSON value, expected a line"
        ):
            built(corpus, "x.json", content.encode(), on_bad_rows="set_aside")


def test_line_that_is_too_long_is_a_row_that_is_set_aside(corpus):
    long = json.dumps({"text": "long " * 500_000}).encode() + b"\n"
    with replaced_limits(line_bytes=1 << 20):
        _, done = built(corpus, "x.jsonl", LINE + long + LINE + long.strip(), on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (2, 2)


class LookedAt(bytes):
    """Bytes that count how many bytes are searched or copied, also in values made from them."""

    total = 0

    def split(self, *given):
        LookedAt.total += len(self)
        return [LookedAt(part) for part in super().split(*given)]

    def count(self, *given):
        LookedAt.total += len(self)
        return super().count(*given)

    def __getitem__(self, place):
        return LookedAt(super().__getitem__(place))

    def __add__(self, other):
        LookedAt.total += len(self) + len(other)
        return LookedAt(super().__add__(other))


def test_each_byte_of_a_long_line_is_looked_at_a_few_times_however_long_it_is():
    size = 16 << 20
    content = io.BytesIO(b"x" * size + b"\n" + LINE)
    stream = SimpleNamespace(url="x.jsonl", read=lambda block: LookedAt(content.read(block)))
    assert [len(line) for line in ByteLines(stream)] == [size, len(LINE) - 1]
    assert size < LookedAt.total < 4 * size


def test_damaged_arrow_file_reports_the_number_of_lost_rows(corpus):
    path = corpus.folder / "in/x.arrow"
    table = pa.Table.from_pylist(DOCUMENTS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, 10)
    content = bytearray(path.read_bytes())
    place = content.index(DOCUMENTS[35]["text"][:20].encode()) - 600
    head = content.rindex(b"\xff\xff\xff\xff", 0, place)
    content[head : head + 40] = bytes(40)
    recipe, done = built(corpus, "x.arrow", bytes(content), on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (30, 1)
    folder = recipe.folder
    (aside,) = [path for path in folder.files("work/set_aside") if path.endswith(".parquet")]
    (row,) = pq.read_table(folder.path(aside)).to_pylist()
    assert row["row"] == 30
    assert "the file is damaged from here on" in row["reason"]


def test_first_line_that_is_broken_does_not_hide_the_columns_of_the_others(corpus):
    content = b"broken\n" + b'{"body": "a"}\n' * 3
    with pytest.raises(ZydaError, match="no column 'text'; there are 'body'"):
        built(corpus, "x.jsonl", content, on_bad_rows="set_aside")


def test_parquet_with_duplicate_column_names_raises(corpus):
    table = pa.table([["a"], ["b"], ["c"]], names=["text", "twice", "twice"])
    pq.write_table(table, corpus.folder / "in/x.parquet")
    with pytest.raises(ZydaError, match=r"x\.parquet: two columns are called 'twice'"):
        prepare.fn(corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}]))


# Rows in are rows out


@pytest.mark.parametrize("sample", [1, 0.3])
def test_rows_are_counted_by_footers_and_line_ends(corpus, monkeypatch, sample):
    write_inputs(corpus.folder / "in")
    lines = b"\n\n" + LINE * 50 + b"\n \n{broken\n" + LINE.strip()
    (corpus.folder / "in/d.jsonl").write_bytes(lines)
    with pa.OSFile(str(corpus.folder / "in/e.arrow"), "wb") as sink:
        table = pa.Table.from_pylist(DOCUMENTS)
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, 7)
    for name in ("a.jsonl", "b.jsonl.gz", "c.parquet", "d.jsonl", "e.arrow"):
        source = {"name": "s", "files": f"in/{name}", "on_bad_rows": "set_aside"}
        recipe = corpus.load(name=name[0], sources=[source], sample=sample)
        (found,) = prepare.fn(recipe)
        with monkeypatch.context() as patch:
            lose_rows(patch)
            with pytest.raises(
                NotConserved, match=rf"source s, file .*{name}: expected \d+ rows, but \d+ were read"
            ):
                ingest(recipe, found)
        done = ingest(recipe, found)
        if sample == 1:
            assert done.entering.documents == (52 if name == "d.jsonl" else 60)
        assert done.entering.documents == done.out.documents + done.set_aside.documents


def lose_rows(patch):
    """Drop all rows of each chunk except the first."""

    def losing(make):
        def made(*given):
            chunk = make(*given)
            return Chunk(chunk.rows[:1], chunk.table.slice(0, 1), chunk.bad, chunk.blank)

        return made

    patch.setattr(jsonl.GatheredLines, "chunk", losing(jsonl.GatheredLines.chunk))
    for module in (arrow, parquet):
        patch.setattr(module, "arrow_chunk", losing(arrow_chunk))


def test_parquet_with_a_changed_footer_raises(corpus):
    path = corpus.folder / "in/best-0.parquet"
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-0.parquet"}])
    (found,) = prepare.fn(recipe)
    (file,) = load_register(recipe.folder).files["best"]
    piece = file.pieces[0].model_copy(update={"rows": 99})
    assert file.pieces == (FilePiece(row_groups=(0,), rows=3),)
    job = file_pieces.PieceToIngest(recipe.folder, "best", 0, found.parameters, (), file, piece, ())
    with pytest.raises(BadInput, match=rf"{path}: it changed while it was read: it had 99 rows"):
        file_pieces.ingest_piece(job)


# Samples and numbers


def test_sample_goes_by_the_path_below_the_pattern(tmp_path):
    for place in ("a", "b"):
        for dump in range(40):
            for file in range(5):
                write_rows(tmp_path / place / f"dump-{dump}/{file:03d}.jsonl", [{"text": "x"}])

    def chosen(place):
        files = sampled_files(list_files(Source(name="s", files=(f"{tmp_path}/{place}/*/*.jsonl",))), 0.2)
        return [file.url.removeprefix(f"{tmp_path}/{place}/") for file in files]

    names = chosen("a")
    assert names == chosen("b")
    assert len(names) == 40
    assert len({name[-9:] for name in names}) == 5
    assert len({name.partition("/")[0] for name in names}) > 20


def test_sampled_rows_differ_between_files_with_the_same_name(tmp_path):
    for i in range(2):
        write_rows(tmp_path / f"{i}/x.jsonl", [{"text": "x"}])
    one, other = list_files(Source(name="s", files=(f"{tmp_path}/*/x.jsonl",)))
    assert one.seed != other.seed


def test_register_with_a_missing_entry_raises_and_no_number_is_reused(corpus):
    recipe = corpus.load()
    for i in range(2, 5):
        prepare.fn(recipe)
        write_rows(corpus.folder / f"in/best-{i}.parquet", rows(**{f"more{i}": prose(f"more {i}")}))
    folder = recipe.folder
    folder.delete("work/register/000001.json")
    with pytest.raises(Denied, match=r"work/register/000001\.json is missing"):
        prepare.fn(recipe)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_rows": 2}, r"source best, file .*: more than 2 rows"),
        ({"max_text": 100}, r"source best, file .*, row \d: a text of [0-9,]+ bytes, expected"),
    ],
)
def test_rows_that_do_not_fit_into_an_id_are_refused(corpus, limits, message):
    recipe = corpus.load()
    plan = prepare.fn(recipe)[0]
    file = load_listing(recipe.folder, plan.listing)[0]
    engine = stored_engine(recipe.folder, plan.parameters.tokenizer, plan.parameters.special_tokens)
    reader = RowConverter("best", file, 0, plan.parameters, engine, **limits)
    aside = SimpleNamespace(add=list)
    with pytest.raises(BadInput, match=message):
        list(reader.documents(read("best", file, file.pieces[0], plan.parameters.text, RowTally()), aside))


def test_gzip_is_read_up_to_shortly_before_a_damaged_byte(corpus):
    lines = b"".join(b'{"text": "%s"}\n' % os.urandom(60).hex().encode() for _ in range(3000))
    content = bytearray(gzip.compress(lines, mtime=0))
    content[len(content) // 2] ^= 16
    (corpus.folder / "in/x.jsonl.gz").write_bytes(bytes(content))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl.gz"}], on_bad_rows="set_aside")
    documents = build_here(recipe).of("ingest").documents
    set_aside = table_of(recipe, "set_aside")  # all that follows, and lines that the bit made others of
    assert 1000 < documents <= 3001
    assert set_aside[-1]["reason"].startswith("the file is damaged from here on")
