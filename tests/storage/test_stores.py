"""Builds on a real S3 server and on a GCS server equal builds on local files."""

import os
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from object_stores import KEY, SECRET
from small_corpus import build_here, contents, zyda

from zyda_flows.flows.server.local_server import free_port
from zyda_flows.tasks.errors import BadInput, Denied, Unavailable
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.storage import tables
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, tables_of, write_artifact

pytestmark = pytest.mark.early(6)


@pytest.fixture(params=["s3", "gcs"])
def bucket(request):
    return request.getfixturevalue(request.param)


def test_corpus_on_an_object_store_has_the_same_bytes_as_on_disk(corpus, bucket):
    local, remote = corpus.load(), corpus.load(storage=f"{bucket}/same")
    build_here(local)
    build_here(remote)
    assert contents(remote) == contents(local)


def test_second_build_on_an_object_store_writes_nothing(corpus, bucket):
    recipe = corpus.load(storage=f"{bucket}/twice")
    build_here(recipe)
    before = set(recipe.folder.files(""))
    build_here(recipe)
    assert set(recipe.folder.files("")) == before


def test_second_creation_of_a_file_fails(bucket, tmp_path):
    for folder in (Folder(f"{bucket}/created"), Folder(str(tmp_path))):
        assert folder.create("some/entry.json", b"first")
        assert not folder.create("some/entry.json", b"second")
        assert folder.read("some/entry.json") == b"first"


def test_brackets_in_names_are_not_patterns(bucket):
    folder = Folder(f"{bucket}/with [ab] in it")
    for path in ("one/[ab].json", "one/a.json", "two/a.json"):
        folder.write(path, b"content")
    folder.delete("one/[ab].json")
    assert folder.files("") == ["one/a.json", "two/a.json"]
    folder.delete("one")
    folder.delete("nothing")
    assert folder.files("") == ["two/a.json"]


def test_creation_without_conditional_writes_checks_existence(monkeypatch):
    def pipe_file(self, path, value, mode="overwrite"):
        if mode == "create":
            raise NotImplementedError("this store knows no conditions")
        with self.open(path, "wb") as file:
            file.write(value)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_file)
    folder = Folder("memory://created")
    assert folder.create("entry.json", b"first")
    assert not folder.create("entry.json", b"second")
    assert folder.read("entry.json") == b"first"


def test_reads_of_columns_fetch_few_bytes_in_few_requests(bucket, monkeypatch):
    texts = [os.urandom(4096).hex() for _ in range(400)]
    table = pa.table({"doc_id": pa.array(range(400), pa.uint64()), "n_tokens": range(400), "text": texts})
    folder = Folder(f"{bucket}/parts")
    shard = write_artifact(
        folder, "a.parquet", "a", lambda path: pq.write_table(table, path, row_group_size=100)
    )
    with folder.open("a.parquet") as file:
        kind, size = type(file.stream), file.stream.size
    sizes, fetch = [], kind._fetch_range

    def counted(self, start, end):
        sizes.append(end - start)
        return fetch(self, start, end)

    monkeypatch.setattr(kind, "_fetch_range", counted)
    monkeypatch.setattr(tables, "PART_BYTES", 1)
    assert read_table(folder, shard, ["doc_id", "n_tokens"]) == table.select(["doc_id", "n_tokens"])
    footer = sizes[0]
    assert sum(sizes) < footer + size / 20
    assert len(sizes) == 1 + 4
    sizes.clear()
    assert pa.concat_tables(tables_of(folder, shard)) == table
    assert sum(sizes) <= footer + size
    assert len(sizes) == 4  # the footer is cached


def test_files_of_a_deleted_source_are_removed(corpus, bucket):
    recipe = corpus.load(storage=f"{bucket}/stale")
    build_here(recipe)
    fewer = corpus.load(storage=f"{bucket}/stale", sources=corpus.recipe["sources"][:2])
    build_here(fewer, replace=True)
    assert not fewer.folder.files("published/worst")


def files_with(secret, folder):
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_build_on_s3_equals_a_local_build_and_hides_the_secret(corpus, s3, terminal):
    """Prefect's home contains its database with all log lines, parameters and artifacts, and our logs."""
    environment = {**terminal(), "PREFECT_LOGGING_LEVEL": "DEBUG"}
    home = Path(environment["PREFECT_HOME"])
    finished = zyda("build", corpus.write(storage=f"{s3}/secret"), env=environment)
    assert finished.returncode == 0, finished.stderr
    local = corpus.load(storage=str(corpus.folder / "out"))
    build_here(local)
    assert contents(corpus.load(storage=f"{s3}/secret")) == contents(local)
    wrong = {**environment, "AWS_SECRET_ACCESS_KEY": "wrong-test-secret"}
    failed = zyda("build", corpus.write(storage=f"{s3}/wrong"), env=wrong)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    for secret in (SECRET, "wrong-test-secret"):
        assert secret not in finished.stdout + finished.stderr + failed.stdout + failed.stderr
        assert not files_with(secret, home)
        assert not files_with(secret, corpus.folder / "out")
    assert files_with("Progress", home)  # the database exists and has records
    folder = corpus.load(storage=f"{s3}/secret").folder
    paths = [path for path in folder.files("") if not path.endswith(".parquet")]
    assert len(paths) > 20
    assert not [path for path in paths if SECRET.encode() in folder.read(path)]


def test_missing_bucket_is_denied_and_silent_store_unavailable(s3):
    with pytest.raises(Denied, match="s3://nowhere"):
        Folder("s3://nowhere/x").read("a")
    port = free_port()
    fs = f"s3://corpora-{port}"
    quiet = Folder(fs)
    quiet.__dict__["_opened"] = (
        fsspec.filesystem("s3", endpoint_url=f"http://127.0.0.1:{port}", key=KEY, secret=SECRET, skip_instance_cache=True,
                          config_kwargs={"retries": {"max_attempts": 1}, "connect_timeout": 1}),
        "corpora/x",
    )  # fmt: skip
    with pytest.raises(Unavailable):
        quiet.read("a")


def test_source_in_a_missing_or_unreachable_bucket_is_named(corpus, s3, monkeypatch):
    source = corpus.load(sources=[{"name": "far", "files": "s3://nowhere/*.parquet"}]).sources[0]
    with pytest.raises(BadInput, match=r"source far: .*s3://nowhere/\*\.parquet"):
        list_files(source)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with pytest.raises(Unavailable, match=r"source far: s3://nowhere/\*\.parquet cannot be listed"):
        list_files(source)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_wrong_secret_is_final_and_not_shown(s3):
    folder = Folder(f"{s3}/x")
    folder.__dict__["_opened"] = (
        fsspec.filesystem(
            "s3",
            endpoint_url=os.environ["AWS_ENDPOINT_URL"],
            key=KEY,
            secret="wrong-secret",
            skip_instance_cache=True,
        ),
        "corpora/x",
    )
    with pytest.raises(Denied) as raised:
        folder.write("a", b"b")
    assert "wrong-secret" not in str(raised.value)
