"""Test copies of sources: they are made once, verified, and give the same documents as the originals."""

import io
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from small_corpus import SOURCES, Corpus, build_here, contents, kept_names, prose, published, rows, write_rows

from zyda_flows.flows.command import fetch as command
from zyda_flows.tasks.errors import BadInput, BadRecipe, Denied, Unavailable
from zyda_flows.tasks.planning import fetching
from zyda_flows.tasks.planning.fetching import Fetch
from zyda_flows.tasks.sources.copies import FETCHED, list_source_files, read_fetched, write_fetched
from zyda_flows.tasks.storage import stores
from zyda_flows.tasks.storage.folder import Folder

AT_ONCE = 3


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


def copies(corpus):
    return Folder(str(corpus.folder / "copies"))


def fetch(corpus, *, verify=False):
    """Fetch the sources of a corpus; return the number of copied files and their bytes."""
    sizes, fetcher = [], Fetch(corpus.load(), copies(corpus))
    if verify:
        fetcher.verify_all(AT_ONCE, lambda _: None)
    to_copy = fetcher.to_copy
    fetcher.copy_all(AT_ONCE, sizes.append)
    return len(to_copy), sum(sizes)


def digests_of_data(recipe):
    """Return the digests of the published files, except the files with paths and times of the sources."""
    without_data = {"manifest.json", "sources.parquet", "README.md"}
    return {path: digest for path, digest in contents(recipe).items() if path not in without_data}


def test_corpus_from_copies_equals_the_corpus_from_deleted_originals(corpus):
    (corpus.folder / "in/labels.jsonl").write_text('{"id": "one_copy", "grade": 3}\n')
    join = {"from": "in/labels.jsonl", "on": "id", "take": ["grade"]}
    corpus.recipe["sources"][0] |= {"id": "name", "join": join}
    size = sum(path.stat().st_size for path in (corpus.folder / "in").iterdir())
    assert fetch(corpus) == (len(SOURCES) + 1, size)
    local = corpus.load()
    build_here(local)
    for path in (corpus.folder / "in").iterdir():
        path.unlink()
    copied = corpus.load(storage=str(corpus.folder / "other"), inputs="copies")
    build_here(copied)
    assert digests_of_data(copied) == digests_of_data(local)
    tables = [
        pq.read_table(io.BytesIO(published(recipe).read("sources.parquet"))) for recipe in (local, copied)
    ]
    assert tables[0].equals(tables[1])
    corpus.recipe["sources"][0]["join"]["from"] = "in/other.jsonl"
    with pytest.raises(
        BadRecipe, match=r"source best, join: \S+other\.jsonl was not fetched to .*; run zyda fetch"
    ):
        build_here(corpus.load(inputs="copies"))


def test_only_selected_files_of_a_list_are_copied_and_read(corpus):
    names = sorted(path.name for path in (corpus.folder / "in").glob("best-*"))
    (corpus.folder / "in/list.txt").write_text("\n".join(names))
    corpus.recipe["sources"] = [{"name": "best", "files_from": {"url": "in/list.txt", "select": 1}}]
    assert fetch(corpus)[0] == 1
    for name in names:
        (corpus.folder / "in" / name).unlink()
    assert build_here(corpus.load(inputs="copies")).of("ingest").documents == 3
    corpus.recipe["sources"][0]["files_from"]["select"] = 2
    with pytest.raises(BadRecipe, match=r"select 2 was not fetched to .*; run zyda fetch"):
        build_here(corpus.load(inputs="copies"))


def test_switching_a_built_corpus_to_copies_ingests_nothing_again(corpus):
    recipe = corpus.load()
    build_here(recipe)
    written_files = recipe.folder.written("work/ingest")
    fetch(corpus)
    build_here(corpus.load(inputs="copies"))
    assert recipe.folder.written("work/ingest") == written_files


def test_copied_files_are_not_copied_again(corpus):
    fetch(corpus)
    assert fetch(corpus) == (0, 0)
    write_rows(corpus.folder / "in/best-0.parquet", rows(new=prose("new")))
    assert fetch(corpus)[0] == 1
    names = {row["name"] for row in pq.read_table(path_of_copy(corpus, "best-0")).to_pylist()}
    assert names == {"new"}


def path_of_copy(corpus, name):
    (file,) = [file for file in read_fetched(copies(corpus)) if name in file.url]
    return f"{copies(corpus).url}/{file.path}"


def test_copy_with_another_time_is_replaced_and_a_flipped_bit_is_found_by_digest(corpus):
    fetch(corpus)
    path = Path(path_of_copy(corpus, "worst-1"))
    stamp, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert fetch(corpus) == (0, 0)
    assert fetch(corpus, verify=True)[0] == 1
    assert fetch(corpus, verify=True)[0] == 0
    os.utime(path)
    assert fetch(corpus)[0] == 1


def test_changed_copy_raises(corpus):
    fetch(corpus)
    os.utime(path_of_copy(corpus, "best-1"), (1, 1))
    with pytest.raises((BadInput, BadRecipe), match=r"best-1\.parquet: it changed while it was read"):
        build_here(corpus.load(inputs="copies"))


def test_file_without_a_copy_is_read_from_its_original(corpus):
    sampled = corpus.load().model_copy(update={"sample": 0.5})
    fetcher = Fetch(sampled, copies(corpus))
    assert 0 < len(fetcher.to_copy) < len(SOURCES)
    fetcher.copy_all(AT_ONCE, lambda _: None)
    recipe = corpus.load(inputs="copies")
    urls = [file.url for source in recipe.sources for file in list_source_files(source, recipe.inputs)]
    assert sorted(os.path.basename(url) for url in urls) == sorted(SOURCES)
    build_here(recipe)


def test_other_files_are_copied_if_a_file_fails(corpus, monkeypatch):
    open_input = fetching.open_input

    def open_other_files(source, url, *more, **options):
        if "middle" in url:
            raise BadInput(f"source {source}, file {url}: gone")
        return open_input(source, url, *more, **options)

    monkeypatch.setattr(fetching, "open_input", open_other_files)
    with pytest.raises(BadRecipe, match=r"middle\.jsonl\.gz: gone"):
        fetch(corpus)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == len(SOURCES) - 1
    monkeypatch.undo()
    assert fetch(corpus)[0] == 1


def test_interrupted_fetch_writes_the_table_of_finished_copies(corpus, monkeypatch):
    calls, sizes = threading.Semaphore(2), []

    def stop(size):
        sizes.append(size)
        if not calls.acquire(blocking=False):
            raise KeyboardInterrupt

    fetcher = Fetch(corpus.load(), copies(corpus))
    with pytest.raises(KeyboardInterrupt):
        fetcher.copy_all(1, stop)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == 2
    assert fetch(corpus)[0] == len(SOURCES) - 2


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"files": "in/other-*.jsonl"}, "was not fetched to .*; run zyda fetch"),
        ({"name": "unknown"}, "was not fetched to .*; run zyda fetch"),
    ],
)
def test_source_that_was_not_fetched_raises_with_the_command(corpus, changes, fault):
    fetch(corpus)
    first, *others = corpus.recipe["sources"]
    with pytest.raises(BadRecipe, match=fault):
        build_here(corpus.load(inputs="copies", sources=[{**first, **changes}, *others]))


def test_damaged_table_of_copies_raises_with_the_remedy(corpus):
    fetch(corpus)
    table = Path(copies(corpus).url, FETCHED)
    content = bytearray(table.read_bytes())
    content[40:80] = bytes(40)
    table.write_bytes(content)
    with pytest.raises(
        (BadRecipe, Denied), match=rf"{FETCHED} is damaged: .*; delete it, and run zyda fetch"
    ):
        build_here(corpus.load(inputs="copies"))


def test_command_copies_and_prints_the_recipe_line_for_the_copies(corpus, capsys):
    path = corpus.write()
    command.fetch(path, to=str(corpus.folder / "copies"), at_once=2, verify=False, sample=None)
    output = capsys.readouterr().out
    assert "copied 5 files" in output
    line = output.splitlines()[-1]
    assert line == f"to build from the copies, add to the recipe: inputs: {corpus.folder}/copies"
    recipe = corpus.load(**yaml.safe_load(line.partition("recipe: ")[2]))
    build_here(recipe)
    command.fetch(corpus.write(inputs="copies"), to=None, at_once=2, verify=True, sample=None)
    assert capsys.readouterr().out.splitlines()[-1] == f"all 5 files are in {corpus.folder}/copies"


def test_command_without_enough_disk_space_raises(corpus, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(Denied, match="are needed for the copies, and 1 bytes are free"):
        command.fetch(corpus.write(), to="copies", at_once=2, verify=False, sample=None)


def test_two_recipes_share_a_folder_of_copies(corpus):
    """A second recipe and a renamed source reuse the copies, and no fetch removes the copies of the other recipe."""
    fetch(corpus)
    source = corpus.recipe["sources"][0]
    second = corpus.elsewhere(corpus.folder)
    second.recipe = {**second.recipe, "name": "second", "sources": [{**source, "name": "renamed"}]}
    assert fetch(second) == (0, 0)
    assert fetch(corpus) == (0, 0)
    build_here(corpus.load(inputs="copies"))
    build_here(second.load(inputs="copies"))


def test_two_concurrent_fetches_write_valid_copies(corpus):
    first, second = (Fetch(corpus.load(), copies(corpus)) for _ in range(2))
    assert len(first.to_copy) == len(second.to_copy) == len(SOURCES)
    threads = [
        threading.Thread(target=fetcher.copy_all, args=(2, lambda _: None)) for fetcher in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetch(corpus) == (0, 0)
    build_here(corpus.load(inputs="copies"))


def test_copies_replaced_by_a_concurrent_fetch_are_used(corpus, monkeypatch):
    first, second = (Fetch(corpus.load(), copies(corpus)) for _ in range(2))
    read_table, waiting = fetching.read_fetched, [second]

    def read_before_another_is_done(folder):
        rows = read_table(folder)
        while waiting:
            waiting.pop().copy_all(2, lambda _: None)
        return rows

    monkeypatch.setattr(fetching, "read_fetched", read_before_another_is_done)
    first.copy_all(2, lambda _: None)
    assert fetch(corpus) == (0, 0)


def test_damaged_copy_that_cannot_be_replaced_is_not_in_the_table(corpus, monkeypatch):
    """The damaged copy is fetched again although its size and time equal the row of the table."""
    fetch(corpus)
    path = Path(path_of_copy(corpus, "worst-1"))
    stamp, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def fail(source, url, *_, **__):
        raise BadInput(f"source {source}, file {url}: gone")

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "open_input", fail)
        with pytest.raises(BadRecipe, match=r"worst-1\.arrow: gone"):
            fetch(corpus, verify=True)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == len(SOURCES) - 1
    assert fetch(corpus)[0] == 1


def test_copies_are_checked_by_one_listing_of_the_store(corpus, monkeypatch):
    fetch(corpus)
    calls = []
    monkeypatch.setattr(fetching, "copy_version", lambda *_: calls.append(1))
    table = Path(copies(corpus).url, FETCHED).stat().st_mtime_ns
    assert fetch(corpus) == (0, 0)
    assert not calls
    assert Path(copies(corpus).url, FETCHED).stat().st_mtime_ns == table  # an unchanged table is not written


def test_moved_copies_are_used_after_verification(corpus):
    fetch(corpus)
    for file in read_fetched(copies(corpus)):
        os.utime(f"{copies(corpus).url}/{file.path}", (1, 1))
    assert fetch(corpus, verify=True) == (0, 0)
    build_here(corpus.load(inputs="copies"))


def test_each_flipped_bit_of_the_table_is_found(corpus):
    fetch(corpus)
    table = Path(copies(corpus).url, FETCHED)
    content, files = table.read_bytes(), read_fetched(copies(corpus))
    for place in range(0, len(content), 7):
        table.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with suppress(Denied):
            assert read_fetched(copies(corpus)) == files


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "../secret"},
        {"path": "copies/best/0123456789ab/../../../secret"},
        {"path": "/etc/passwd"},
        {"copy_version": ""},
    ],
)
def test_row_with_an_invalid_path_of_a_copy_raises(corpus, changes):
    fetch(corpus)
    first, *others = read_fetched(copies(corpus))
    write_fetched(copies(corpus), [first.model_copy(update=changes), *others])
    with pytest.raises(Denied, match="is not the path of a copy"):
        read_fetched(copies(corpus))


def test_source_pattern_that_matches_the_folder_of_copies_raises(corpus):
    first, *others = corpus.recipe["sources"]
    corpus.recipe["sources"] = [{**first, "files": "**/*.parquet"}, *others]
    Fetch(corpus.load(), copies(corpus)).copy_all(AT_ONCE, lambda _: None)
    with pytest.raises(BadRecipe, match="the folder of copies; choose another one by --to"):
        Fetch(corpus.load(), copies(corpus))


def test_truncated_and_missing_copies_raise_with_the_remedy(corpus):
    fetch(corpus)
    truncated, missing = Path(path_of_copy(corpus, "middle")), Path(path_of_copy(corpus, "best-1"))
    truncated.write_bytes(truncated.read_bytes()[:50])
    missing.unlink()
    with pytest.raises(BadRecipe) as error:
        build_here(corpus.load(inputs="copies"))
    assert f"{truncated}: it changed while it was read: it was" in str(error.value)
    assert f"{missing}: it is missing, although it existed when the sources were listed" in str(error.value)
    assert str(error.value).count("it is a copy: run zyda fetch again") == 2


def test_copies_of_files_with_special_characters_have_plain_names(corpus):
    odd = "a::b #?%41 é'\"[1]*.jsonl"
    write_rows(corpus.folder / "in" / odd, rows(odd=prose("odd")))
    corpus.recipe["sources"] = [{"name": "odd", "files": ["in/a*"]}]
    fetch(corpus)
    (file,) = read_fetched(copies(corpus))
    assert (file.url, Path(file.path).name) == (
        str(corpus.folder / "in" / odd),
        "a__b____41_____1__.jsonl",
    )
    recipe = corpus.load(inputs="copies")
    build_here(recipe)
    assert kept_names(recipe) == {"odd"}


def test_interrupt_ends_the_wait_for_a_busy_host(corpus, monkeypatch):
    """A host may request a wait of hours; an interrupt ends it within seconds."""
    busy, fetcher = Unavailable("busy"), Fetch(corpus.load(), copies(corpus))
    busy.seconds, busy.host = 3600.0, "busy.example"

    def open_busy(*_, **__):
        return stores.ask_again(lambda: (_ for _ in ()).throw(busy))

    monkeypatch.setattr(fetching, "open_input", open_busy)
    threading.Timer(0.5, fetcher.is_stopped.set).start()
    start = time.monotonic()
    with pytest.raises(BadRecipe, match="it was stopped"):
        fetcher.copy_all(AT_ONCE, lambda _: None)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("to", "fault"),
    [("s3://user:pw@lab/in", "--to: a recipe must not contain credentials"), ("foo://x", "--to: ")],
)
def test_invalid_url_for_copies_raises(corpus, to, fault):
    with pytest.raises(BadRecipe, match=fault):
        command.fetch(corpus.write(), to=to, at_once=1, verify=False, sample=None)
