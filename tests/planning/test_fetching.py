"""Copies of sources: made once, verified, and read in place of the originals with the same documents."""

import bz2
import hashlib
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
    """Fetch the sources of a corpus; return how many files were copied, and their bytes."""
    told, made = [], Fetch(corpus.load(), copies(corpus))
    if verify:
        made.verify_all(AT_ONCE, lambda _: None)
    to_copy = made.to_copy
    made.copy_all(AT_ONCE, told.append)
    return len(to_copy), sum(told)


def data_of(recipe):
    """Return the digests of all that is published, but for what says where files were read and when."""
    of_recipe = {"manifest.json", "sources.parquet", "README.md"}
    return {path: digest for path, digest in contents(recipe).items() if path not in of_recipe}


def test_corpus_from_copies_is_that_from_the_originals_which_may_be_gone(corpus):
    size = sum(path.stat().st_size for path in (corpus.folder / "in").iterdir())
    assert fetch(corpus) == (len(SOURCES), size)
    local = corpus.load()
    build_here(local)
    for path in (corpus.folder / "in").iterdir():
        path.unlink()
    copied = corpus.load(storage=str(corpus.folder / "other"), inputs="copies")
    build_here(copied)
    assert data_of(copied) == data_of(local)
    listed = [pq.read_table(io.BytesIO(published(one).read("sources.parquet"))) for one in (local, copied)]
    assert listed[0].equals(listed[1])


def test_files_of_a_list_are_copied_and_read_as_they_were_selected(corpus):
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


def test_build_goes_on_from_copies_with_nothing_made_again(corpus):
    recipe = corpus.load()
    build_here(recipe)
    made = recipe.folder.written("work/ingest")
    fetch(corpus)
    build_here(corpus.load(inputs="copies"))
    assert recipe.folder.written("work/ingest") == made


def test_what_was_copied_is_not_copied_again(corpus):
    fetch(corpus)
    assert fetch(corpus) == (0, 0)
    write_rows(corpus.folder / "in/best-0.parquet", rows(new=prose("new")))
    assert fetch(corpus)[0] == 1
    names = {row["name"] for row in pq.read_table(path_of_copy(corpus, "best-0")).to_pylist()}
    assert names == {"new"}


def path_of_copy(corpus, name):
    (file,) = [file for file in read_fetched(copies(corpus)) if name in file.url]
    return f"{copies(corpus).url}/{file.path}"


def test_copy_that_was_touched_is_made_again_and_one_that_was_flipped_is_found_by_its_digest(corpus):
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


def test_copy_that_changed_since_is_not_read(corpus):
    fetch(corpus)
    os.utime(path_of_copy(corpus, "best-1"), (1, 1))
    with pytest.raises((BadInput, BadRecipe), match=r"best-1\.parquet: it changed while it was read"):
        build_here(corpus.load(inputs="copies"))


def test_file_without_a_copy_is_read_where_it_is(corpus):
    sampled = corpus.load().model_copy(update={"sample": 0.5})
    made = Fetch(sampled, copies(corpus))
    assert 0 < len(made.to_copy) < len(SOURCES)
    made.copy_all(AT_ONCE, lambda _: None)
    recipe = corpus.load(inputs="copies")
    urls = [file.url for source in recipe.sources for file in list_source_files(source, recipe.inputs)]
    assert sorted(os.path.basename(url) for url in urls) == sorted(SOURCES)
    build_here(recipe)


def test_fault_of_one_file_lets_the_others_be_copied(corpus, monkeypatch):
    opened = fetching.open_input

    def open_but_one(source, url, *more, **options):
        if "middle" in url:
            raise BadInput(f"source {source}, file {url}: gone")
        return opened(source, url, *more, **options)

    monkeypatch.setattr(fetching, "open_input", open_but_one)
    with pytest.raises(BadRecipe, match=r"middle\.jsonl\.gz: gone"):
        fetch(corpus)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == len(SOURCES) - 1
    monkeypatch.undo()
    assert fetch(corpus)[0] == 1


def test_interrupt_leaves_a_table_of_what_was_copied(corpus, monkeypatch):
    calls, told = threading.Semaphore(2), []

    def stop(size):
        told.append(size)
        if not calls.acquire(blocking=False):
            raise KeyboardInterrupt

    made = Fetch(corpus.load(), copies(corpus))
    with pytest.raises(KeyboardInterrupt):
        made.copy_all(1, stop)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == 2
    assert fetch(corpus)[0] == len(SOURCES) - 2


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"files": "in/other-*.jsonl"}, "was not fetched to .*; run zyda fetch"),
        ({"name": "unknown"}, "was not fetched to .*; run zyda fetch"),
    ],
)
def test_source_that_was_not_fetched_is_named(corpus, changes, fault):
    fetch(corpus)
    first, *others = corpus.recipe["sources"]
    with pytest.raises(BadRecipe, match=fault):
        build_here(corpus.load(inputs="copies", sources=[{**first, **changes}, *others]))


def test_damaged_table_of_copies_is_said(corpus):
    fetch(corpus)
    table = Path(copies(corpus).url, FETCHED)
    content = bytearray(table.read_bytes())
    content[40:80] = bytes(40)
    table.write_bytes(content)
    with pytest.raises(
        (BadRecipe, Denied), match=rf"{FETCHED} is damaged: .*; delete it, and run zyda fetch"
    ):
        build_here(corpus.load(inputs="copies"))


def test_command_copies_and_says_how_to_build_from_there(corpus, capsys):
    path = corpus.write()
    command.fetch(path, to=str(corpus.folder / "copies"), at_once=2, verify=False, sample=None)
    said = capsys.readouterr().out
    assert "copied 5 files" in said
    line = said.splitlines()[-1]
    assert line == f"to build from the copies, add to the recipe: inputs: {corpus.folder}/copies"
    recipe = corpus.load(**yaml.safe_load(line.partition("recipe: ")[2]))
    build_here(recipe)
    command.fetch(corpus.write(inputs="copies"), to=None, at_once=2, verify=True, sample=None)
    assert capsys.readouterr().out.splitlines()[-1] == f"all 5 files are in {corpus.folder}/copies"


def test_command_says_where_there_is_no_room(corpus, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(Denied, match="are needed for the copies, and 1 bytes are free"):
        command.fetch(corpus.write(), to="copies", at_once=2, verify=False, sample=None)


def test_two_recipes_share_a_folder_of_copies(corpus):
    """Each finds what it has fetched, whatever the other one fetches afterwards; a source renamed finds its own."""
    fetch(corpus)
    one = corpus.recipe["sources"][0]
    second = corpus.elsewhere(corpus.folder)
    second.recipe = {**second.recipe, "name": "second", "sources": [{**one, "name": "renamed"}]}
    assert fetch(second) == (0, 0)
    assert fetch(corpus) == (0, 0)
    build_here(corpus.load(inputs="copies"))
    build_here(second.load(inputs="copies"))


def test_two_fetches_at_once_leave_copies_that_are_read(corpus):
    first, second = (Fetch(corpus.load(), copies(corpus)) for _ in range(2))
    assert len(first.to_copy) == len(second.to_copy) == len(SOURCES)
    threads = [threading.Thread(target=one.copy_all, args=(2, lambda _: None)) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetch(corpus) == (0, 0)
    build_here(corpus.load(inputs="copies"))


def test_copies_that_another_fetch_replaces_while_the_table_is_written_are_taken(corpus, monkeypatch):
    first, second = (Fetch(corpus.load(), copies(corpus)) for _ in range(2))
    read, waiting = fetching.read_fetched, [second]

    def read_before_another_is_done(folder):
        rows = read(folder)
        while waiting:
            waiting.pop().copy_all(2, lambda _: None)
        return rows

    monkeypatch.setattr(fetching, "read_fetched", read_before_another_is_done)
    first.copy_all(2, lambda _: None)
    assert fetch(corpus) == (0, 0)


def test_damaged_copy_that_cannot_be_made_again_is_not_in_the_table(corpus, monkeypatch):
    """What was found damaged is not taken from the table again, though its size and time are as they were."""
    fetch(corpus)
    path = Path(path_of_copy(corpus, "worst-1"))
    stamp, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def gone(source, url, *_, **__):
        raise BadInput(f"source {source}, file {url}: gone")

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "open_input", gone)
        with pytest.raises(BadRecipe, match=r"worst-1\.arrow: gone"):
            fetch(corpus, verify=True)
    assert sum(bool(file.path) for file in read_fetched(copies(corpus))) == len(SOURCES) - 1
    assert fetch(corpus)[0] == 1


def test_store_of_copies_is_asked_for_one_listing_and_not_for_each_copy(corpus, monkeypatch):
    fetch(corpus)
    asked = []
    monkeypatch.setattr(fetching, "copy_version", lambda *_: asked.append(1))
    table = Path(copies(corpus).url, FETCHED).stat().st_mtime_ns
    assert fetch(corpus) == (0, 0)
    assert not asked
    assert Path(copies(corpus).url, FETCHED).stat().st_mtime_ns == table  # nothing new is not written


def test_copies_that_were_moved_are_taken_once_they_have_been_verified(corpus):
    fetch(corpus)
    for file in read_fetched(copies(corpus)):
        os.utime(f"{copies(corpus).url}/{file.path}", (1, 1))
    assert fetch(corpus, verify=True) == (0, 0)
    build_here(corpus.load(inputs="copies"))


def test_flipped_bit_of_the_table_is_found_wherever_it_is(corpus):
    fetch(corpus)
    table = Path(copies(corpus).url, FETCHED)
    whole, files = table.read_bytes(), read_fetched(copies(corpus))
    for place in range(0, len(whole), 7):
        table.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
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
def test_row_that_names_no_copy_is_refused(corpus, changes):
    fetch(corpus)
    first, *others = read_fetched(copies(corpus))
    write_fetched(copies(corpus), [first.model_copy(update=changes), *others])
    with pytest.raises(Denied, match="is no path of a copy"):
        read_fetched(copies(corpus))


def test_source_that_reads_the_folder_of_copies_is_refused(corpus):
    first, *others = corpus.recipe["sources"]
    corpus.recipe["sources"] = [{**first, "files": "**/*.parquet"}, *others]
    Fetch(corpus.load(), copies(corpus)).copy_all(AT_ONCE, lambda _: None)
    with pytest.raises(BadRecipe, match="the folder of copies; choose another one by --to"):
        Fetch(corpus.load(), copies(corpus))


def test_copy_that_is_cut_or_gone_is_named_with_what_to_do(corpus):
    fetch(corpus)
    cut, gone = Path(path_of_copy(corpus, "middle")), Path(path_of_copy(corpus, "best-1"))
    cut.write_bytes(cut.read_bytes()[:50])
    gone.unlink()
    with pytest.raises(BadRecipe) as raised:
        build_here(corpus.load(inputs="copies"))
    assert f"{cut}: it changed while it was read: it was" in str(raised.value)
    assert f"{gone}: it is missing, although it existed when the sources were listed" in str(raised.value)
    assert str(raised.value).count("it is a copy: run zyda fetch again") == 2


def test_odd_names_have_copies_with_plain_ones(corpus):
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


def test_wait_for_a_host_ends_with_an_interrupt(corpus, monkeypatch):
    """A host may ask to wait for hours; an interrupt has to be heard within a second."""
    refused, made = Unavailable("busy"), Fetch(corpus.load(), copies(corpus))
    refused.seconds, refused.host = 3600.0, "busy.example"

    def open_busy(*_, **__):
        return stores.ask_again(lambda: (_ for _ in ()).throw(refused))

    monkeypatch.setattr(fetching, "open_input", open_busy)
    threading.Timer(0.5, made.is_stopped.set).start()
    start = time.monotonic()
    with pytest.raises(BadRecipe, match="it was stopped"):
        made.copy_all(AT_ONCE, lambda _: None)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("to", "fault"),
    [("s3://user:pw@lab/in", "--to: a recipe must not contain credentials"), ("foo://x", "--to: ")],
)
def test_place_for_copies_is_checked_as_any_url_of_a_recipe(corpus, to, fault):
    with pytest.raises(BadRecipe, match=fault):
        command.fetch(corpus.write(), to=to, at_once=1, verify=False, sample=None)


def test_dump_is_compared_with_the_checksum_that_its_host_publishes(tmp_path):
    """The list is as dumps.wikimedia.org has it: also `latest` has names with the date."""
    page = (
        "<page><title>A</title><ns>0</ns><id>1</id><revision><id>7</id><text>a text</text></revision></page>"
    )
    dump = bz2.compress(f"<mediawiki>{page}</mediawiki>".encode())
    cases = [
        ("20260101", dump, None),
        ("latest", dump, None),
        ("20260201", dump[:40] + b"lost" + dump[44:], "SHA-1"),
    ]
    for date, content, fault in cases:
        folder = tmp_path / date
        folder.mkdir()
        (folder / f"xwiki-{date}-pages-articles.xml.bz2").write_bytes(content)
        (folder / f"xwiki-{date}-sha1sums.txt").write_text(
            f"{'0' * 40}  xwiki-20260101-stub.xml.gz\n"
            f"{hashlib.sha1(dump).hexdigest()}  xwiki-20260101-pages-articles.xml.bz2\n"
        )
        source = {"name": "wiki", "files": str(folder / "*.bz2"), "format": "wikipedia"}
        copied = Folder(str(tmp_path / f"copies-{date}"))
        fetched = Fetch(Corpus(folder).load(sources=[source]), copied)
        if fault is None:
            fetched.copy_all(AT_ONCE, lambda _: None)
            assert [file.read_bytes() for file in (tmp_path / f"copies-{date}").rglob("*.bz2")] == [content]
        else:
            with pytest.raises(BadRecipe, match=fault):
                fetched.copy_all(AT_ONCE, lambda _: None)
