"""Inputs: the files of a pattern, failing stores and changed files."""

import http.server
import os
import ssl
import subprocess
import threading
from functools import partial

import aiohttp
import fsspec
import pytest
from broken_proxy import Proxy
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from small_corpus import build_here, contents, write_rows
from source_documents import DOCUMENTS, write_inputs

from zyda_flows.tasks.errors import BadInput, Unavailable
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources import compression
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.storage import stores
from zyda_flows.tasks.storage.folder import Folder

pytestmark = pytest.mark.early(4)


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
