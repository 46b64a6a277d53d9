"""The files that a pattern matches: links, names and versions."""

import pytest
from small_corpus import build_here, kept_names, prose, rows, write_rows
from source_documents import DOCUMENTS

from zyda_flows.tasks.errors import BadInput, Unavailable
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.storage.folder import Folder

pytestmark = pytest.mark.early(4)


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
