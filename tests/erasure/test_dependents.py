"""All places with a document are listed in the searched folders: a corpus, and exports, mixtures and corpora of it."""

import json
import shutil

import numpy as np
import pytest
from small_corpus import Corpus, build_here, prose, rows, table_of, write_rows
from small_mixtures import mixed_in, mixing_of, mixture_file, run_here

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.dependent_kinds import TODO, Subject
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.planning.fetching import Fetch
from zyda_flows.tasks.publish.export_planning import ExportOptions
from zyda_flows.tasks.publish.exporting import Export
from zyda_flows.tasks.storage.folder import Folder

ASKED, OTHER = prose("asked"), prose("the other one")


@pytest.fixture(scope="module")
def made(tmp_path_factory, compiled):
    """Return the folder of a corpus and its dependents, and the ids of two documents."""
    folder = tmp_path_factory.mktemp("made")
    corpus = Corpus(folder)
    write_rows(folder / "in/a-0.jsonl", rows(asked=ASKED, kept=prose("kept")))
    write_rows(folder / "in/a-1.jsonl", rows(more=prose("more")))
    write_rows(folder / "in/b.jsonl", rows(other=OTHER, twin=ASKED))
    sources = [{"name": "a", "files": "in/a-*.jsonl"}, {"name": "b", "files": "in/b.jsonl"}]
    corpus.recipe |= {"name": "mine", "sources": sources}
    recipe = corpus.load()
    build_here(recipe)
    exports = {
        "lines": ExportOptions(),
        "parquet": ExportOptions(format="parquet", sources=("b",)),
        "plain": ExportOptions(format="jsonl", columns=("text",), sources=("a",)),
        "columns": ExportOptions(format="parquet", columns=("doc_id", "name")),
    }
    for name, options in exports.items():
        Export(recipe, Folder(str(folder / "exports" / name)), options).write(
            lambda jobs: [job() for job in jobs]
        )
    # An export of a corpus of another name with equal doc_ids.
    others = [{"name": "a", "files": "in/a-1.jsonl"}, {"name": "b", "files": "in/a-1.jsonl"}]
    unlike = corpus.load(name="unlike", sources=others)
    build_here(unlike)
    Export(unlike, Folder(str(folder / "exports/unlike")), ExportOptions()).write(
        lambda jobs: [job() for job in jobs]
    )
    for url in (folder / "fetched", folder / "fetched-b"):
        only = sources if url.name == "fetched" else sources[1:]
        fetched = Fetch(corpus.load(sources=only), Folder(str(url)))
        fetched.copy_all(1, lambda _: None)
        fetched.write_table()
    same = corpus.load(name="sampled", sources=[{"name": "other-name", "files": "in/*.jsonl"}])
    build_here(same)
    shutil.copytree(folder / "out/mine", folder / "copy/mine")
    build_here(corpus.load())
    shutil.copytree(folder / "out/mine/work", folder / "half/mine/work")
    parts = [{"name": "all", "weight": 1}]
    mix = {"parts": parts, "budget": {"epochs": 1}}
    mixed_in(mixture_file(folder, [corpus], **mix, formats=["text"], storage=str(folder / "mixes/text")))

    def interrupted(jobs, step):
        if step == "files of ids":
            jobs[0]()
            raise KeyboardInterrupt
        return run_here(jobs, step)

    with pytest.raises(KeyboardInterrupt):
        mixing_of(mixture_file(folder, [corpus], **mix, storage=str(folder / "mixes/cut")), interrupted).mix()
    ids = {row["text"]: row["doc_id"] for name in ("a", "b") for row in table_of(recipe, name)}
    return folder, [ids[ASKED], ids[OTHER]]


def test_all_places_with_a_document_are_listed_with_the_next_step(made):
    folder, ids = made
    search = Search()
    for name in ("exports/lines", "out", "exports", "fetched", "fetched-b", "copy", "mixes", "half"):
        search.look_into(str(folder / name))
    search.follow(Subject(PublishedCorpus.at(str(folder / "out/mine")), np.array(sorted(ids), np.uint64)))
    dependents = [
        (dependent.kind, dependent.url.removeprefix(f"{folder}/"), dependent.documents)
        for dependent in search.dependents
    ]
    assert len(dependents) == len({*dependents})  # although a folder is searched twice
    versions = {url for kind, url, _ in dependents if kind in {"mixture", "unfinished mix"}}
    expected = {
        ("export", "exports/lines", 2), ("export", "exports/parquet", 1), ("export", "exports/plain", 0),
        ("export", "exports/columns", 2), ("copied sources", "fetched", 2), ("copied sources", "fetched-b", 1),
        ("copy", "copy/mine/published", 2), ("same sources", "out/sampled/published", 2),
        ("token ids", "mixes/text/mixture/work", 2), ("token ids", "mixes/cut/mixture/work", 2),
    }  # fmt: skip
    assert {
        dependent for dependent in dependents if dependent[0] not in {"mixture", "unfinished mix"}
    } == expected
    assert {url.rpartition("/")[0] for url in versions} == {"mixes/text/mixture", "mixes/cut/mixture"}
    assert {count for kind, _, count in dependents if kind == "mixture"} == {2}
    assert all(dependent.todo == TODO[dependent.kind] for dependent in search.dependents)
    (note,) = [dependent.note for dependent in search.dependents if dependent.url.endswith("exports/plain")]
    assert note == "no doc_ids of a, so it may have more documents"
    assert search.not_searched == [f"{folder}/half/mine/work/ingest: texts of a corpus that is not published"]


def test_unreadable_places_are_listed(made, tmp_path):
    folder, ids = made
    shutil.copytree(folder / "exports/lines", tmp_path / "cut")
    shutil.copytree(folder / "exports/parquet", tmp_path / "bent")
    shutil.copytree(folder / "fetched", tmp_path / "fetched")
    (file,) = (tmp_path / "cut/a").rglob("*.zst")
    file.write_bytes(file.read_bytes()[:-9])
    (file,) = (tmp_path / "bent/b").rglob("*.parquet")
    file.write_bytes(b"x" * file.stat().st_size)
    table = tmp_path / "fetched/fetched.parquet"
    table.write_bytes(table.read_bytes()[:-40])
    shutil.copytree(folder / "exports/columns", tmp_path / "lists")
    for file in (tmp_path / "lists/a").rglob("*.parquet"):
        file.write_bytes(b"[" * file.stat().st_size)
    shutil.copytree(folder / "exports/lines", tmp_path / "noise")
    (file,) = (tmp_path / "noise/a").rglob("*.zst")
    file.write_bytes(file.read_bytes()[:8] + bytes(file.stat().st_size - 8))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange/exported.parquet").write_bytes(json.dumps({}).encode())
    search = Search()
    search.look_into(str(tmp_path))
    search.follow(Subject(PublishedCorpus.at(str(folder / "out/mine")), np.array(sorted(ids), np.uint64)))
    assert not search.dependents
    assert sorted(line.removeprefix(f"{tmp_path}/").split(":")[0] for line in search.not_searched) == [
        "bent", "cut", "fetched", "lists", "noise", "strange",
    ]  # fmt: skip
