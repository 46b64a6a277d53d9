"""The rules of a build, on a small corpus of named documents."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import (
    SOURCES,
    build_here,
    contents,
    edited,
    kept_names,
    listed_files,
    prose,
    rows,
    table_of,
    write_rows,
)  # fmt: skip

from zyda_flows.tasks.accounts.published import manifest_if_there
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Unavailable
from zyda_flows.tasks.ids import BITS, MAX_SOURCES, first_id, split
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning import prepare, survey
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.signatures import bands, merging
from zyda_flows.tasks.signatures.minhash import minhash
from zyda_flows.tasks.sources.register import Register, extend_register, load_register
from zyda_flows.tasks.stage.verdicts import Trail

ALL = {row["name"] for found in SOURCES.values() for row in found}
ACCOUNTED = (
    "ingest",
    "minhash",
    "removals",
    "filter",
    "publish",
)  # stages of a recipe without models and rules
DUPLICATES = {"middle_copy", "worst_copy", "exact_copy_of_middle_alone", "same_short"}


def test_best_source_keeps_its_internal_duplicates(corpus):
    recipe = corpus.load()
    build_here(recipe)
    assert kept_names(recipe) == ALL - DUPLICATES - {"middle_alone"}


def test_global_scope_keeps_one_document_of_each_cluster(corpus):
    recipe = corpus.load(dedup={"scope": "global"})
    build_here(recipe)
    assert kept_names(recipe) == ALL - DUPLICATES - {"middle_alone", "its_internal_copy", "twin_2"}


def test_word_shingles_ignore_case_and_punctuation(corpus):
    shouted = prose("middle alone").upper().replace(" ", ", ")
    write_rows(corpus.folder / "in/worst-2.jsonl.zst", rows(shouted=shouted, no_words="!?! ..."))
    write_rows(corpus.folder / "in/best-2.parquet", rows(no_words_either="... !"))
    for shingle, expected in (("characters", {"shouted"}), ("words", set())):
        recipe = corpus.load(name=f"by-{shingle}", dedup={"shingle": shingle})
        build_here(recipe)
        names = kept_names(recipe)
        assert names & {"shouted"} == expected
        assert {"no_words", "no_words_either"} < names


def test_removed_documents_have_place_reason_and_kept_document(corpus):
    recipe = corpus.load()
    build_here(recipe)
    removed = {
        (row["source"], split(row["doc_id"])[1:], row["stage"], row["reason"], row["kept_doc_id"])
        for row in table_of(recipe, "removed")
    }
    best_of_all, middle_alone = 0, 1 << 54 | 3
    assert removed == {
        ("middle", (0, 0), "removals", "duplicate", best_of_all),
        ("middle", (0, 4), "removals", "duplicate", 1 << 30),
        ("middle", (0, 3), "filter", "keep", None),
        ("worst", (0, 0), "removals", "duplicate", best_of_all),
        ("worst", (1, 0), "removals", "duplicate", middle_alone),
    }
    clustered = {row["cluster_id"] for row in table_of(recipe, "removed")}
    assert clustered == {best_of_all, 1 << 30, middle_alone}


@pytest.mark.parametrize("bits", [BITS, (8, 24, 32)], ids=str)
def test_ids_encode_source_file_and_row(bits):
    _, file_bits, row_bits = bits
    for place in ((0, 0, 0), (1, 2, 3), tuple((1 << n) - 1 for n in bits)):
        source, file, row = place
        doc_id = source << file_bits + row_bits | file << row_bits | row
        assert doc_id < 1 << 64
        assert split(doc_id, bits) == place
        if bits == BITS:
            assert (split(doc_id), first_id(source, file) + row) == (place, doc_id)


def test_corpus_does_not_depend_on_the_numbers_of_its_sources(corpus):
    """The numbers of a corpus with a thousand earlier sources need more than a byte."""
    few, many = corpus.load(), corpus.load(name="many")
    earlier = {f"gone{number}": number for number in range(MAX_SOURCES - 3)}
    extend_register(many.folder, Register(), Register(sources=earlier))
    build_here(few)
    build_here(many)
    assert {split(row["doc_id"])[0] for row in table_of(many, "best")} == {MAX_SOURCES - 3}

    def as_in_few(value):
        return value - first_id(MAX_SOURCES - 3, 0)

    for place in ("best", "middle", "worst", "removed", "clusters"):
        rows_of_many = table_of(many, place)
        for row in rows_of_many:
            for name in ("doc_id", "cluster_id", "kept_doc_id"):
                if row.get(name) is not None:
                    row[name] = as_in_few(row[name])
        assert rows_of_many == table_of(few, place)
    assert PublishedCorpus.of(many).manifest.ledger == PublishedCorpus.of(few).manifest.ledger
    place = explain(many, str(first_id(MAX_SOURCES - 1, 1))).place
    assert (place.source, place.file) == ("worst", explain(few, str(first_id(2, 1))).place.file)
    listed = pq.read_table(pa.BufferReader(many.folder.read("published/sources.parquet")))
    assert set(listed["source_number"].to_pylist()) == {1021, 1022, 1023}
    with pytest.raises(BadInput, match=r"source another: this corpus has had 1024 sources; start one with a"):
        build_here(
            corpus.load(name="many", sources=[{"name": "another", "files": "in/best-0.parquet"}]),
            replace=True,
        )


def test_ledger_has_a_line_for_every_stage_and_source_and_adds_up(corpus):
    recipe = corpus.load()
    ledger = build_here(recipe)
    assert [(line.stage, line.source) for line in ledger.lines] == [
        (stage, source) for stage in ACCOUNTED for source in ("best", "middle", "worst")
    ]
    assert ledger.of("ingest").documents == len(ALL)
    assert ledger.of("publish").documents == len(kept_names(recipe))
    tokens = sum(row["n_tokens"] for source in ledger.sources for row in table_of(recipe, source))
    assert ledger.of("publish").tokens == tokens
    text = sum(len(row["text"].encode()) for source in ledger.sources for row in table_of(recipe, source))
    assert ledger.of("publish").bytes == text
    assert PublishedCorpus.of(recipe).manifest.ledger == ledger


def test_texts_and_other_columns_are_published_unchanged(corpus):
    recipe = corpus.load()
    build_here(recipe)
    inputs = {row["name"]: row for source_rows in SOURCES.values() for row in source_rows}
    for source in ("best", "middle", "worst"):
        for row in table_of(recipe, source):
            assert {name: row[name] for name in ("name", "stars", "text")} == inputs[row["name"]]


def test_second_build_writes_nothing(corpus):
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    before = {path: folder.fs.info(folder.path(path))["mtime"] for path in folder.files("work/ingest")}
    paths, corpus_before = set(folder.files("")), contents(recipe)
    build_here(recipe)
    assert set(folder.files("")) == paths
    assert contents(recipe) == corpus_before
    after = {path: folder.fs.info(folder.path(path))["mtime"] for path in folder.files("work/ingest")}
    assert after == before


def places(recipe):
    """Return (source, file, row) of every published document, and of every removed document."""
    from zyda_flows.tasks.lookup.document_reader import DocumentReader

    reader = DocumentReader.of(recipe)
    kept = [row["doc_id"] for source in recipe.sources for row in table_of(recipe, source.name)]
    removed = [row["doc_id"] for row in table_of(recipe, "removed")]

    def places_of(doc_ids):
        positions = map(reader.place, doc_ids)
        return {(place.source, place.file, place.row) for place in positions}

    return places_of(kept), places_of(removed)


def band_files(recipe):
    folder = recipe.folder
    return {path: folder.read(path) for path in folder.files("work/minhash")}


def test_band_keys_of_ingest_equal_band_keys_of_minhash(corpus):
    words = {"shingle": "words", "bands": 16}
    recipe = corpus.load()
    build_here(recipe)
    in_passing, folder = band_files(recipe), recipe.folder
    ingested = {path: folder.read(path) for path in folder.files("work/ingest")}
    for stage in ("work/minhash", "work/manifests"):
        for path in folder.files(stage):
            folder.delete(path)
    build_here(recipe)
    assert band_files(recipe) == in_passing

    build_here(corpus.load(dedup=words))
    from_shards = {path: content for path, content in band_files(recipe).items() if path not in in_passing}
    assert {path: folder.read(path) for path in folder.files("work/ingest")} == ingested
    fresh = corpus.load(dedup=words, name="fresh")
    build_here(fresh)
    assert band_files(fresh) == from_shards


def test_minhash_does_not_read_newly_ingested_shards(corpus):
    recipe = corpus.load()
    inputs = prepare.prepare.fn(recipe)
    trails = [Trail(source_inputs.source, [ingest(recipe, source_inputs)]) for source_inputs in inputs]
    folder = recipe.folder
    for path in folder.files("work/ingest"):
        if path.endswith(".parquet"):
            folder.delete(path)
    (dedup_round,) = rounds_of(recipe)
    assert [minhash(dedup_round, trail).out for trail in trails] == [trail.remaining for trail in trails]


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
def test_added_file_is_processed_alone_and_equals_a_full_build(corpus, scope):
    recipe = corpus.load(dedup={"scope": scope})
    build_here(recipe)
    folder = recipe.folder
    before = set(folder.files("work"))
    # The file sorts before the other files: the order of arrival must not matter.
    new = rows(
        new_copy_of_last=prose("last alone"),
        new_alone=prose("new alone"),
        twin_3=edited(prose("in one source"), 2),
    )
    write_rows(corpus.folder / "in/best-+.parquet", new)
    build_here(recipe)
    added = [path for path in folder.files("work") if path not in before and path.endswith(".parquet")]
    assert {path.split("/")[-1][:6] for path in added if path.startswith("work/ingest")} == {"000002"}
    assert {path.split("/")[-1][:6] for path in added if path.startswith("work/minhash")} == {"000002"}
    fresh = corpus.load(dedup={"scope": scope}, name="fresh")
    build_here(fresh)
    assert places(recipe) == places(fresh)
    assert "new_copy_of_last" in kept_names(recipe)
    assert "last_alone" not in kept_names(recipe)


def test_documents_of_changed_and_deleted_files_are_removed(corpus):
    recipe = corpus.load()
    build_here(recipe)
    write_rows(corpus.folder / "in/middle.jsonl.gz", rows(only=prose("only")))
    (corpus.folder / "in/best-0.parquet").unlink()
    build_here(recipe)
    names = kept_names(recipe)
    assert {"only", "worst_copy", "exact_copy_of_middle_alone"} <= names
    assert not {"twin_1", "best_of_all", "best_alone"} & names


def test_build_with_an_outdated_register_raises_unavailable(corpus, monkeypatch):
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    stale = load_register(folder)
    write_rows(corpus.folder / "in/worst-2.jsonl.zst", rows(late=prose("late")))
    build_here(recipe)
    write_rows(corpus.folder / "in/worst-3.jsonl.zst", rows(later=prose("later")))
    with monkeypatch.context() as patch:
        patch.setattr(survey, "whole_register", lambda _: stale)
        with pytest.raises(Unavailable, match="at the same time"):
            prepare.prepare.fn(recipe)
    build_here(recipe)
    assert {"late", "later"} < kept_names(recipe)
    assert load_register(folder).entries == 3


def test_sample_is_a_separate_and_deterministic_corpus(corpus):
    write_rows(corpus.folder / "in/best-2.parquet", rows(**{f"n{i}": prose(f"n{i}", 40) for i in range(400)}))
    recipe = corpus.load(sample=0.2)
    ledger = build_here(recipe)
    assert recipe.corpus == "small-sample-0.2"
    again = corpus.load(sample=0.2, name="again")
    build_here(again)
    assert kept_names(recipe) == kept_names(again)
    assert 0 < ledger.of("ingest", "best").documents < 300


def test_small_shards_give_the_same_corpus(corpus):
    recipe, small = corpus.load(), corpus.load(name="small-shards", shard_mib=0.002, published_mib=0.002)
    build_here(recipe)
    build_here(small)
    assert len(small.folder.files("published/best")) > 2
    assert kept_names(small) == kept_names(recipe)
    assert places(small) == places(recipe)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "rows_of_range", "files"),
    [(64, 8 << 20, range(2, 8)), (64, 16, range(2, 8)), (3, 16, range(20, 60))],
)
def test_band_files_of_many_shards_are_merged(corpus, monkeypatch, most, rows_of_range, files):
    for i in range(70):
        write_rows(corpus.folder / f"in/worst-{i:03d}.arrow", rows(**{f"m{i}": prose(f"m{i % 69}")}))
    monkeypatch.setattr(merging, "GROUP_SHARDS", most)
    monkeypatch.setattr(bands, "RANGE_ROWS", rows_of_range)
    recipe = corpus.load(dedup={"scope": "global"})
    build_here(recipe)
    names = kept_names(recipe)
    merged = [path for path in recipe.folder.files("work/bands") if path.endswith("parquet")]
    assert len(merged) in files
    assert len(recipe.folder.files("work/edges")) >= 2 * 8 * (1 if rows_of_range > 99 else 2)
    assert "m68" in names
    assert "m0" in names
    assert "m69" not in names


def test_added_or_deleted_file_changes_few_groups_of_merged_band_files():
    shards = [SimpleNamespace(name=f"{i:06d}-000-000") for i in range(0, 40_000, 2)]
    before = merging.groups_of(shards, 1)
    sizes = [len(group) for group in before]
    assert max(sizes) <= 4 * merging.GROUP_SHARDS
    assert 48 < sum(sizes) / len(sizes) < 80
    shards.insert(7_000, SimpleNamespace(name="013999-000-000"))
    after = merging.groups_of(shards, 1)
    assert len(set(map(repr, after)) - set(map(repr, before))) <= 3
    del shards[2_000]
    assert len(set(map(repr, merging.groups_of(shards, 1))) - set(map(repr, after))) <= 3
    many = [SimpleNamespace(name=f"{number}-000-000") for number in (1_000_000, 999_999, 10)]
    in_order = [shard.name for group in merging.groups_of(many, 1) for shard in group]
    assert in_order == ["10-000-000", "999999-000-000", "1000000-000-000"]


def test_band_files_are_merged_in_the_order_of_file_numbers(corpus, monkeypatch):
    monkeypatch.setattr(merging, "GROUP_SHARDS", 4)
    recipe = corpus.load(dedup={"scope": "global"})
    for odd in (0, 1):
        for i in range(odd, 24, 2):
            write_rows(corpus.folder / f"in/worst-{i:03d}.arrow", rows(**{f"m{i}": prose("all the same")}))
        build_here(recipe)
    assert kept_names(recipe) & {f"m{i}" for i in range(24)} == {"m0"}
    written = [path for path in recipe.folder.files("work/bands") if path.endswith("parquet")]
    for path in written:
        table = pq.read_table(recipe.folder.path(path))
        assert table.equals(table.sort_by([(name, "ascending") for name in table.column_names]))


def test_source_columns_with_reserved_names_are_renamed(corpus):
    table = pa.table({"body": ["a b c", "d e f"], "doc_id": ["x", "y"], "text": [1, 2]})
    pq.write_table(table, corpus.folder / "in/other.parquet")
    source = {
        "name": "other",
        "files": "in/other.parquet",
        "text": "body",
        "keep": "body like 'a%' or source_text = 3",
    }
    recipe = corpus.load(sources=[source])
    build_here(recipe)
    (row,) = table_of(recipe, "other")
    assert row["text"] == "a b c"
    assert row["source_doc_id"] == "x"
    assert row["source_text"] == 1


def test_columns_with_mixed_types_are_kept_as_json(corpus):
    documents = [{"text": "one two", "meta": {"a": 1}}, {"text": "three four", "meta": "b"}, {"text": "five"}]
    write_rows(corpus.folder / "in/mixed.jsonl", documents)
    recipe = corpus.load(sources=[{"name": "mixed", "files": "in/mixed.jsonl"}])
    build_here(recipe)
    assert [row["meta"] for row in table_of(recipe, "mixed")] == ['{"a":1}', '"b"', None]


def test_manifest_lists_all_published_files(corpus):
    recipe = corpus.load()
    build_here(recipe)
    first = contents(recipe)
    accounts = manifest_if_there(recipe.folder).accounts
    listed = {file.path: file.sha256 for file in (*listed_files(recipe.folder), *accounts)}
    assert listed == {path: first[path] for path in first.keys() - {"manifest.json", "files.parquet"}}
