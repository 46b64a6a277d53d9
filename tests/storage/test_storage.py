"""Storage that fails, refuses or lacks something: what is tried again, what is not, and what stays whole."""

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


def test_store_that_fails_while_an_artifact_is_read_is_tried_again(monkeypatch):
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

    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *a, **k: Failing(opened(*a, **k)))
    for read in (lambda: read_table(folder, artifact), lambda: list(tables_of(folder, artifact, ["doc_id"]))):
        with pytest.raises(Unavailable, match=r"work/a\.parquet: ConnectionResetError"):
            read()


class WithResponse(OSError):
    """An error as botocore, aiohttp or the hub's client raise it."""

    def __init__(self, **fields):
        super().__init__("refused")
        self.__dict__.update(fields)


class NoCredentialsError(OSError):
    """As botocore calls it."""


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
def test_what_cannot_get_better_is_not_tried_again(error, final):
    assert is_final(error) == final
    with pytest.raises(Denied if final else Unavailable), explain_errors("s3://bucket/x"):
        raise error


def test_failures_of_the_hubs_client_are_those_of_a_store():
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
    """Say whether the published files of a store are those of its manifest."""
    listed = {file.path: file.sha256 for file in listed_files(folder)}
    there = folder.folder("published")
    return {path: hashlib.sha256(there.read(path)).hexdigest() for path in listed} == listed


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["manifest.json", "README.md", "ledger.json", "a deletion"])
def test_publication_in_a_store_that_was_interrupted_is_finished_by_the_next_build(
    corpus, monkeypatch, moment
):
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


def test_footers_that_are_kept_take_a_bounded_amount_of_memory():
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


def test_place_where_nothing_can_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_bytes(b"")
    Folder(str(tmp_path / "not/there/yet")).check_writable()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file"]
    with pytest.raises(Denied, match="nothing can be written there"):
        Folder(str(tmp_path / "a-file/below")).check_writable()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere but on what is read-only
    with pytest.raises(Denied, match="nothing can be written there"):
        Folder(str(tmp_path)).check_writable()


def test_store_where_nothing_can_be_written_is_refused_before_any_work(s3, monkeypatch):
    place = Folder(f"{s3}/writable")
    place.check_writable()
    assert place.files("") == []

    def refuse(*_, **__):
        raise PermissionError("you may only read")

    monkeypatch.setattr(place.fs, "pipe_file", refuse)
    with pytest.raises(Denied, match="you may only read"):
        place.check_writable()


def test_folder_that_may_only_be_read_is_said_and_not_what_cleaning_up_meets(tmp_path, monkeypatch):
    """A corpus on a mount that may only be read: nothing can be written there, and nothing deleted."""

    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    folder = Folder(str(tmp_path))
    monkeypatch.setattr("pathlib.Path.write_bytes", refused)
    monkeypatch.setattr("pathlib.Path.unlink", refused)
    with pytest.raises(Denied, match="Read-only file system"):
        folder.write("work/a.json", b"{}")
