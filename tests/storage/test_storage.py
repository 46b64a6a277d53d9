"""Failing storage: temporary and final errors, interrupted publications, and storage without hard links."""

import errno
import hashlib
import os

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from small_corpus import build_here, contents, listed_files, prose, rows, write_rows

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import Denied, Unavailable
from zyda_flows.tasks.storage.failures import is_final
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import explain_errors
from zyda_flows.tasks.storage.tables import read_table, tables_of, write_table

TABLE = pa.table({"doc_id": pa.array(range(1000), pa.uint64()), "text": ["some text"] * 1000})


def test_failure_while_an_artifact_is_read_raises_unavailable(monkeypatch):
    folder = Folder("memory://read")
    artifact = write_table(folder, "work/a.parquet", "a", TABLE)
    opened = MemoryFileSystem._open

    class Failing:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def read(self, size=-1):
            raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(
        MemoryFileSystem, "_open", lambda *arguments, **options: Failing(opened(*arguments, **options))
    )
    for read in (lambda: read_table(folder, artifact), lambda: list(tables_of(folder, artifact, ["doc_id"]))):
        with pytest.raises(Unavailable, match=r"work/a\.parquet: ConnectionResetError"):
            read()


class WithResponse(OSError):
    """An error with the fields of errors of botocore, aiohttp and the hub's client."""

    def __init__(self, **fields):
        super().__init__("refused")
        self.__dict__.update(fields)


class NoCredentialsError(OSError):
    """An error with the name of botocore's error."""


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (OSError("could not refresh credentials: timeout"), False),
        (NoCredentialsError("Unable to locate credentials"), True),
        (WithResponse(response={"Error": {"Code": "NoSuchBucket"}}), True),
        (WithResponse(response={"Error": {"Code": "SlowDown"}}), False),
        (WithResponse(status=403), True),
        (WithResponse(status=503), False),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (TimeoutError(), False),
    ],
)
def test_final_errors_are_denied_and_others_unavailable(error, final):
    assert is_final(error) == final
    with pytest.raises(Denied if final else Unavailable), explain_errors("s3://bucket/x"):
        raise error


def test_errors_of_the_hubs_client_raise_unavailable():
    import httpx2

    for error in (
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("late"),
        httpx2.RemoteProtocolError("cut"),
    ):
        with pytest.raises(Unavailable), explain_errors("hf://datasets/a/b/c.parquet"):
            raise error


def test_file_system_without_hard_links_can_be_used(corpus, monkeypatch):
    recipe = corpus.load()
    build_here(recipe)
    undisturbed = contents(recipe)

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "chmod", refuse)
    other = corpus.load(storage=str(corpus.folder / "exfat"))
    build_here(other)
    assert contents(other) == undisturbed
    folder = Folder(str(corpus.folder / "exfat"))
    assert folder.create("entry", b"first")
    assert not folder.create("entry", b"second")
    assert folder.read("entry") == b"first"


def is_as_listed(folder):
    """Return whether the published files of a store are equal to the files in its manifest."""
    listed = {file.path: file.sha256 for file in listed_files(folder)}
    published = folder.folder("published")
    return {path: hashlib.sha256(published.read(path)).hexdigest() for path in listed} == listed


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["manifest.json", "README.md", "ledger.json", "a deletion"])
def test_interrupted_publication_is_finished_by_the_next_build(corpus, monkeypatch, moment):
    storage = f"memory://interrupted-{moment.replace(' ', '-')}"
    recipe = corpus.load(storage=storage)
    build_here(recipe)
    corpus.recipe["sources"][1]["keep"] = "name <> 'twin_1'"
    write_rows(corpus.folder / "in/best-2.parquet", rows(late=prose("late")))
    (corpus.folder / "in/worst-1.arrow").unlink()
    corpus.recipe["sources"][2]["files"] = "in/worst-*.zst"
    changed, folder = corpus.load(storage=storage), recipe.folder
    put, remove = Folder.put, Folder.remove

    def interrupted(self, scratch, path, **options):
        if path == f"published/{moment}":
            raise KeyboardInterrupt
        return put(self, scratch, path, **options)

    def interrupted_deletion(self, path):
        if moment == "a deletion" and path.startswith("published/"):
            raise KeyboardInterrupt
        return remove(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", interrupted)
        patch.setattr(Folder, "remove", interrupted_deletion)
        with pytest.raises(KeyboardInterrupt):
            build_here(changed)
    assert is_as_listed(folder)
    build_here(changed)
    fresh = corpus.load(storage=f"memory://fresh-{moment.replace(' ', '-')}")
    build_here(fresh)
    names = {path.rpartition("-")[0] or path for path in contents(fresh)}
    assert {path.rpartition("-")[0] or path for path in contents(changed)} == names
    manifest = published_manifest(folder)
    listed = {file.path for file in (*listed_files(folder), *manifest.named)}
    assert set(folder.folder("published").files("")) == {*listed, "manifest.json"}
    assert is_as_listed(folder)


def test_memory_of_cached_footers_is_bounded():
    from zyda_flows.tasks.storage import tables

    folder, before = Folder("memory://footers"), tables.FOOTERS.maxsize
    artifacts = [write_table(folder, f"work/{i}.parquet", "a", TABLE.slice(i)) for i in range(9)]
    try:
        tables.FOOTERS.clear()
        tables.FOOTERS._Cache__maxsize = (
            3 * tables.footer_of(folder, artifacts[0]).serialized_size * tables.PARSED + 1
        )
        for artifact in artifacts:
            assert tables.footer_of(folder, artifact).num_rows == artifact.rows
        assert 1 <= len(tables.FOOTERS) <= 3
    finally:
        tables.FOOTERS.clear()
        tables.FOOTERS._Cache__maxsize = before


def test_read_only_folder_is_rejected_before_work(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_bytes(b"")
    Folder(str(tmp_path / "not/there/yet")).check_writable()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file"]
    with pytest.raises(Denied, match="nothing can be written there"):
        Folder(str(tmp_path / "a-file/below")).check_writable()
    monkeypatch.setattr(
        os, "access", lambda *_: False
    )  # root may write everywhere except to read-only file systems
    with pytest.raises(Denied, match="nothing can be written there"):
        Folder(str(tmp_path)).check_writable()


def test_read_only_store_is_rejected_before_work(s3, monkeypatch):
    place = Folder(f"{s3}/writable")
    place.check_writable()
    assert place.files("") == []

    def refuse(*_, **__):
        raise PermissionError("you may only read")

    monkeypatch.setattr(place.fs, "pipe_file", refuse)
    with pytest.raises(Denied, match="you may only read"):
        place.check_writable()


def test_error_of_a_read_only_folder_hides_the_error_of_the_cleanup(tmp_path, monkeypatch):
    """A corpus on a read-only mount: files can be neither written nor deleted."""

    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    folder = Folder(str(tmp_path))
    monkeypatch.setattr("pathlib.Path.write_bytes", refused)
    monkeypatch.setattr("pathlib.Path.unlink", refused)
    with pytest.raises(Denied, match="Read-only file system"):
        folder.write("work/a.json", b"{}")
