"""Consecutive shards share published files: the same rows, and few files rewritten after a change."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, contents, listed_files, prose, rows, table_of, write_rows
from token_judges import random_judge

from zyda_flows.tasks.corpus.documents import published_row, published_texts, removal_row
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.lookup.verify_and_clean import faults_of, files_to_check, orphans_of, strangers_in
from zyda_flows.tasks.publish import published_shards
from zyda_flows.tasks.publish.published_shards import publish_shards
from zyda_flows.tasks.storage.documents import row_groups

SHARED_MIB = 0.015  # of 3 files of 5 kB
LONGER = {"filter": {"zyda1": {"length": 100}}}


@pytest.fixture
def many(corpus):
    """Return a corpus of 12 input files of 5 kB in a source, and a recipe by which published files have some of them."""
    for number in range(12):
        own = {f"own{number}_{i}": prose(f"{number} {i}", 150) for i in range(4)}
        write_rows(
            corpus.folder / f"in/all-{number:02d}.parquet", rows(**own, **{f"short{number}": "too short"})
        )
    write_rows(corpus.folder / "in/other.jsonl", [{"name": "copy", "stars": 1, "text": prose("5 2", 150)}])
    corpus.recipe |= {
        "name": "many", "documents": [LONGER], "published_mib": SHARED_MIB,
        "sources": [{"name": "other", "files": "in/other.jsonl"}, {"name": "all", "files": "in/all-*.parquet"}],
    }  # fmt: skip
    return corpus


def digests_in(recipe, place):
    return {file.path: file.sha256 for file in listed_files(recipe.folder) if file.path.startswith(place)}


def changed(before, after):
    return sorted(path for path, digest in after.items() if before.get(path) != digest)


def test_shared_files_have_the_rows_of_files_of_single_shards(many):
    shared, single = many.load(), many.load(name="single", published_mib=1e-6)
    for recipe in (shared, single):
        build_here(recipe)
    assert len(digests_in(single, "all/")) == 12
    names = [path.removeprefix("all/")[:14] for path in digests_in(shared, "all/")]
    assert names == [f"{number:06d}-000-000" for number in (0, 4, 8)]
    for place in ("all", "other", "removed", "clusters"):
        assert table_of(shared, place) == table_of(single, place)
    ids = [row["doc_id"] for row in table_of(shared, "all")]
    assert ids == sorted(ids)
    assert {path.rpartition("/")[0] for path in digests_in(shared, "removed/")} == {"removed/all"}


def test_one_changed_input_rewrites_few_files(many):
    recipe = many.load()
    build_here(recipe)
    before = digests_in(recipe, "all/")
    path = many.folder / "in/all-05.parquet"
    content = path.read_bytes()
    path.unlink()
    build_here(many.load())
    without = digests_in(recipe, "all/")
    assert changed(before, without) == [*changed(before, without)][:1]  # the file that had it
    assert len(before.keys() - without.keys()) == 1
    path.write_bytes(content)
    write_rows(path, [*pq.read_table(path).to_pylist(), *rows(new=prose("a new one", 150))])
    build_here(many.load())
    again = digests_in(recipe, "all/")
    (new,) = changed(without, again)
    assert new.startswith("all/000012-000-000-")  # it has a new number, after all others


def test_documents_are_found_by_id(many):
    recipe = many.load()
    build_here(recipe)
    corpus = PublishedCorpus.of(recipe)
    kept, removed = [*table_of(recipe, "all"), *table_of(recipe, "other")], table_of(recipe, "removed")
    assert (len(kept), len(removed)) == (48, 13)
    for row in kept:
        assert published_row(corpus, row["doc_id"]).column("name").to_pylist() == [row["name"]]
        assert not len(removal_row(corpus, row["doc_id"]))
    for row in removed:
        assert removal_row(corpus, row["doc_id"]).column("reason").to_pylist() == [row["reason"]]
        assert not len(published_row(corpus, row["doc_id"]))
    texts = published_texts(corpus, [row["doc_id"] for row in (*kept, *removed)])
    assert texts == {row["doc_id"]: row["text"] for row in kept}
    counts = {
        (row["source"], row["file_number"]): row["documents"] for row in corpus.source_files().to_pylist()
    }
    found = [(corpus.source_names[split(row["doc_id"])[0]], split(row["doc_id"])[1]) for row in kept]
    assert counts == {place: found.count(place) for place in counts}


def test_interrupted_publication_continues_with_the_unfinished_file(many, tmp_path, monkeypatch):
    monkeypatch.setattr(published_shards, "ROW_GROUP_BYTES", 4096)
    undisturbed = many.load(storage=str(tmp_path / "undisturbed"))
    build_here(undisturbed)
    recipe = many.load()
    begun, passed = [], []

    def counted(job):
        begun.append((job.source, job.name))
        return publish_shards(job)

    def failing(tables, limit):
        for table in row_groups(tables, limit):
            passed.append(len(table))
            if len(passed) == 5:
                raise KeyboardInterrupt
            yield table

    monkeypatch.setattr(published_shards, "publish_shards", counted)
    monkeypatch.setattr(published_shards, "row_groups", failing)
    with pytest.raises(KeyboardInterrupt):
        build_here(recipe)
    monkeypatch.setattr(published_shards, "row_groups", row_groups)
    assert not recipe.folder.exists("published")
    interrupted = begun[-1]
    build_here(recipe)
    assert {name: begun.count(name) for name in begun} == {name: 1 + (name == interrupted) for name in begun}
    assert contents(recipe) == contents(undisturbed)


def test_memory_of_the_writing_task_does_not_depend_on_its_shards(many, monkeypatch):
    """The bytes of Arrow that a task holds when it writes, with row groups of 4 kB: 12 shards beside 4."""
    monkeypatch.setattr(published_shards, "ROW_GROUP_BYTES", 4096)
    held, peaks = [], {}

    def measured_groups(tables, limit):
        for table in row_groups(tables, limit):
            held.append(pa.total_allocated_bytes())
            yield table

    def measured(job):
        before = pa.total_allocated_bytes()
        held.clear()
        published = publish_shards(job)
        peaks.setdefault(len(job.histories), []).append(max(held) - before)
        return published

    monkeypatch.setattr(published_shards, "row_groups", measured_groups)
    monkeypatch.setattr(published_shards, "publish_shards", measured)
    for name, published_mib in (("shared", SHARED_MIB), ("whole", 1)):
        build_here(many.load(name=name, published_mib=published_mib))
    assert {*peaks} == {1, 4, 12}
    assert max(peaks[12]) < 1.5 * max(peaks[4])


def test_tables_beside_the_documents_share_files_with_them(many):
    """Passages and vectors are in one file for each file of documents; rows set aside share files by their size."""
    for number in range(12):
        shared = {f"pair{number}": f"{prose(f'{number}', 60)} {prose('common', 40)}"}
        bad = [{"name": f"bad{number}", "stars": 1, "text": None}]
        own = {f"own{number}_{i}": prose(f"{number} {i}", 150) for i in range(4)}
        write_rows(many.folder / f"in/all-{number:02d}.parquet", [*rows(**own, **shared), *bad])
    judge = {"name": "own", "model": str(random_judge(many.folder / "own"))}
    options = {
        "passages": [{"length": 60}], "judges": [judge], "publish_vectors": "own", "on_bad_rows": "set_aside",
    }  # fmt: skip
    recipe, single = many.load(**options), many.load(name="single", published_mib=1e-6, **options)
    for each in (recipe, single):
        build_here(each)
    documents = [path.rpartition("/")[2][:14] for path in digests_in(recipe, "all/")]
    assert 1 < len(documents) < 12
    for place, names in {
        "passages": documents,
        "vectors/own": documents,
        "set_aside": ["000000-000", "000008-000"],
    }.items():
        assert [
            path.removeprefix(f"{place}/all/")[: len(names[0])]
            for path in digests_in(recipe, f"{place}/all/")
        ] == names
        assert len(digests_in(single, f"{place}/all/")) == 12
        shared = table_of(recipe, place)
        assert shared == table_of(single, place)
        assert len(shared) >= 12
    assert faults_in(recipe) == []
    work = recipe.folder.files("work/vectors/all")
    made = {path for path in work if path.startswith("work/vectors/all/own-000000")}
    assert len(made) == 3  # the vectors, and two records
    write_rows(many.folder / "in/all-01.parquet", rows(changed=prose("changed", 150)))
    build_here(recipe)
    assert {orphan.path for orphan in orphans_of(recipe, dry_run=True)} > made, "vectors of removed documents"
    assert not [path for path in strangers_in(recipe) if "/vectors/" in path]
    stored = [path for path in recipe.folder.files("work/vectors/all") if path.count("/") == 4]
    orphans = [orphan.path for orphan in orphans_of(recipe, dry_run=True) if orphan.path in stored]
    assert len({path.split("/")[3] for path in orphans}) == 1 < len({path.split("/")[3] for path in stored})


def faults_in(recipe):
    items, faults = files_to_check(recipe)
    return [*faults, *faults_of(recipe, items, lambda item: None)]


def test_new_inputs_do_not_rewrite_the_passages_of_others(many):
    for number in range(12):
        text = f"{prose(f'{number}', 150)} {prose('common', 40)}"
        write_rows(many.folder / f"in/all-{number:02d}.parquet", rows(**{f"d{number}": text}))
    recipe = many.load(passages=[{"length": 60}], published_mib=0.004)
    build_here(recipe)
    before = digests_in(recipe, "passages/all/")
    assert 2 < len(before) < 12
    write_rows(many.folder / "in/all-12.parquet", rows(new=prose("new", 150)))
    build_here(recipe)
    assert digests_in(recipe, "passages/all/") == before  # the new input has no passage, and its own file
    pair = f"{prose('one of a pair', 40)} "
    write_rows(many.folder / "in/all-13.parquet", rows(one=pair + prose("one", 90)))
    write_rows(many.folder / "in/all-14.parquet", rows(two=pair + prose("two", 90)))
    build_here(recipe)
    assert len(changed(before, digests_in(recipe, "passages/all/"))) == 1
    assert not strangers_in(recipe)
