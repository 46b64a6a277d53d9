"""Components: named by a column or by the path of a file, published as a column and in folders, accounted for."""

import json
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from small_corpus import (
    Corpus,
    build_here,
    contents,
    edited,
    prose,
    published,
    rows,
    table_of,
    write_rows,
    zyda_here,
)

from zyda_flows.tasks.accounts import components
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.lookup.verify_and_clean import faults_of, files_to_check
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.publish import published_tables
from zyda_flows.tasks.sources.document_components import folder_name
from zyda_flows.tasks.sources.named_values import column_texts
from zyda_flows.tasks.stage import trees
from zyda_flows.tasks.storage.tables import tables_of

DUMPS = ("CC-MAIN-2024-10", "CC-MAIN-2024-18")
BY_PATH = {"path": "data/(CC-MAIN-[0-9-]+)/"}


def documents_of(dump):
    return rows(
        **{f"{dump}_{i}": prose(f"{dump} {i}") for i in range(4)}, **{f"{dump}_shared": prose("shared")}
    )


@pytest.fixture
def corpus(tmp_path):
    """Return a corpus of two dumps in folders, and of a file with two subsets and rows without a subset."""
    corpus = Corpus(tmp_path)
    for dump in DUMPS:
        write_rows(tmp_path / f"in/data/{dump}/000.parquet", documents_of(dump))
        write_rows(tmp_path / f"in/data/{dump}/001.jsonl.gz", rows(**{f"{dump}_late": prose(f"{dump} late")}))
    metas = [{"subset": "arXiv"}, {"subset": "Pile of Law/EU"}, {"subset": None}, {}, {"subset": "arXiv"}]
    texts = [prose("of arxiv"), prose("shared"), prose("of law"), prose("of none"), edited(prose("of arxiv"))]
    piled = [
        {"name": f"piled_{i}", "text": text, "meta": meta, "component": i}
        for i, (text, meta) in enumerate(zip(texts, metas, strict=True))
    ]
    write_rows(tmp_path / "in/piled.jsonl.gz", piled)
    write_rows(tmp_path / "in/plain.parquet", rows(plain=prose("plain"), plain_shared=prose("shared")))
    corpus.recipe["sources"] = [
        {"name": "crawl", "files": "in/data/**", "component": {**BY_PATH, "folders": True}},
        {"name": "piled", "files": "in/piled.jsonl.gz", "component": {"column": "meta.subset"}},
        {"name": "plain", "files": "in/plain.parquet"},
    ]
    corpus.recipe["dedup"] = {"scope": "global"}
    corpus.recipe["documents"] = [{"filter": {"zyda1": {"length": [300, None], "mean_word_length": None}}}]
    return corpus


def changed(corpus, place, **fields):
    sources = [dict(source) for source in corpus.recipe["sources"]]
    sources[place].update(fields)
    return corpus.load(sources=sources)


def test_components_have_a_column_and_folders_and_their_counts_add_up(corpus):
    write_rows(corpus.folder / "in/data/CC-MAIN-2024-18/002.jsonl.gz", rows(short="Too short."))
    recipe = corpus.load()
    build_here(recipe)
    crawl, piled = table_of(recipe, "crawl"), table_of(recipe, "piled")
    for dump in DUMPS:
        in_folder = {row["name"] for row in table_of(recipe, f"crawl/{dump}")}
        assert in_folder == {row["name"] for row in crawl if row["component"] == dump}
        assert in_folder == {row["name"] for row in crawl if row["name"].startswith(dump)}
        assert in_folder
    assert {row["name"]: (row["component"], row["source_component"]) for row in piled} == {
        "piled_0": ("arXiv", 0),
        "piled_2": (None, 2),
        "piled_3": (None, 3),
    }
    assert "component" not in table_of(recipe, "plain")[0]
    removed = {row["n_tokens"]: row for row in table_of(recipe, "removed") if row["stage"] == "rules"}
    assert {row["component"] for row in removed.values()} == {"CC-MAIN-2024-18"}

    expected = Counter()
    for row in [*crawl, *piled]:
        source = "crawl" if row in crawl else "piled"
        expected[source, row["component"], None, None] += 1
    for row in table_of(recipe, "removed"):
        if row["source"] != "plain":
            expected[row["source"], row["component"], row["stage"], row["reason"]] += 1
    accounts = pq.read_table(corpus.folder / "out/small/published/components.parquet").to_pylist()
    ends = {
        (row["source"], row["component"], row["stage"], row["reason"]): row["documents"] for row in accounts
    }
    assert ends == expected
    ledger = json.loads(published(recipe).read("ledger.json"))
    for unit in ("documents", "tokens", "bytes"):
        in_ledger = sum(row[unit] for row in ledger if row["stage"] == "ingest" and row["source"] != "plain")
        assert sum(row[unit] for row in accounts) == in_ledger

    assert faults_of(recipe, files_to_check(recipe)[0], lambda _: None) == []
    near = nearest(recipe, prose("CC-MAIN-2024-18 2"))[0]
    assert near.jaccard == 1.0
    explained = explain(recipe, str(near.doc_id))
    assert explained.is_published
    assert explained.place.file.endswith("CC-MAIN-2024-18/000.parquet")
    card = published(recipe).read("README.md").decode()
    assert "Components of `crawl`" in card
    configs = {
        configuration["config_name"]: configuration["data_files"]
        for configuration in yaml.safe_load(card.split("---")[1])["configs"]
    }
    assert configs["crawl"] == "crawl/**/*.parquet"
    assert configs["crawl-CC-MAIN-2024-10"] == "crawl/CC-MAIN-2024-10/*.parquet"
    assert configs["piled"] == "piled/*.parquet"


@pytest.mark.slow
def test_setting_folders_moves_files_without_reading_sources(corpus, monkeypatch):
    recipe = corpus.load()
    build_here(recipe)
    before, again = contents(recipe), []
    monkeypatch.setattr("zyda_flows.tasks.ingest.file_pieces.ingest_piece", lambda job: again.append(job))
    plain = changed(corpus, 0, component=BY_PATH)
    build_here(plain)
    assert not again
    assert {path.rpartition("/")[0] for path in contents(plain) if path.startswith("crawl")} == {"crawl"}
    build_here(corpus.load())
    assert contents(corpus.load()) == before


def test_store_has_one_copy_of_each_file_in_a_folder(corpus, s3, request):
    recipe = corpus.load(storage=f"{s3}/{request.node.name}", shard_mib=0.005)
    build_here(recipe)
    local = corpus.load(shard_mib=0.005)
    build_here(local)
    assert contents(recipe) == contents(local)
    texts = [path for path in recipe.folder.files("work/publish") if path.endswith(".parquet")]
    assert all("/removed/" in path for path in texts)
    build_here(recipe)
    assert contents(recipe) == contents(local)
    plain = corpus.load(storage=recipe.storage, shard_mib=0.005, sources=[
        {**source, **({"component": BY_PATH} if source["name"] == "crawl" else {})}
        for source in corpus.recipe["sources"]
    ])  # fmt: skip
    build_here(plain)
    assert not [path for path in contents(plain) if path.startswith("crawl/CC")]
    build_here(recipe)
    assert contents(recipe) == contents(local)


@pytest.mark.parametrize(
    ("component", "fault"),
    [
        (
            {"path": "parts/([0-9]+)/"},
            "component.path: its URL does not match parts.*; of 2 files 2 do not",
        ),
        ({"path": "data/(CC-MAIN-2024-10)/"}, "does not match data.*; of 2 files 1 do not"),
        ({"column": "subset"}, "component.column: no column 'subset'"),
    ],
)
def test_missing_component_is_an_error_before_any_work(corpus, component, fault):
    with pytest.raises(BadRecipe, match=fault) as raised:
        prepare.fn(changed(corpus, 0, files="in/data/*/000.parquet", component=component))
    assert "crawl" in str(raised.value)
    assert not (corpus.folder / "out/small/work/ingest").exists()


@pytest.mark.parametrize(
    ("component", "fault"),
    [
        ({}, "give one of column, path and language"),
        ({"path": "data/(x", "folders": True}, "invalid regular expression"),
        ({"path": "data/.*"}, "one group"),
        ({"path": "(a)(b)"}, "one group"),
        ({"path": "(a)", "column": "b"}, "give one of column, path and language"),
        ({"column": " "}, "component.column"),
        ("CC-MAIN", "component"),
        ({"column": "name", "folders": "perhaps"}, "component.folders"),
    ],
)
def test_empty_component_is_an_error(corpus, component, fault):
    with pytest.raises(BadRecipe, match=fault):
        changed(corpus, 0, component=component)


def test_column_of_a_component_is_published(corpus):
    for fields in ({"columns": ["name"]}, {"without": ["meta"]}, {"without": ["meta.subset"]}):
        with pytest.raises(BadRecipe, match="component: "):
            changed(corpus, 1, **fields)
    recipe = changed(corpus, 1, columns=["meta"])
    build_here(recipe)
    assert {row["component"] for row in table_of(recipe, "piled")} == {"arXiv", None}


def test_component_column_of_lists_is_an_error_that_names_the_file(corpus):
    for part in ("000.parquet", "001.parquet"):
        table = pa.Table.from_pylist([{"text": prose(part), "tags": ["a", "b"]}])
        pq.write_table(table, corpus.folder / f"in/{part}")
    recipe = changed(corpus, 2, files="in/00*.parquet", component={"column": "tags"})
    with pytest.raises((BadInput, BadRecipe), match=r"000\.parquet.*column 'tags' is list"):
        prepare.fn(recipe)


def test_components_are_read_from_columns_and_nested_fields():
    table = pa.table(
        {
            "a.b": ["dotted", None],
            "a": [{"c": {"d": 7}}, None],
            "json": pa.chunked_array([['{"x": {"y": true}}', '{"x": []}']]),
            "day": pa.array([0, 1], pa.date32()),
        }
    )
    table = table.set_column(
        2, pa.field("json", pa.string(), metadata={b"zyda": b"json"}), table.column("json")
    )
    assert column_texts(table, "a.b", "component").to_pylist() == ["dotted", None]
    assert column_texts(table, "a.c.d", "component").to_pylist() == ["7", None]
    assert column_texts(table, "a.c.z", "component").to_pylist() == [None, None]
    assert column_texts(table, "json.x.y", "component").to_pylist() == ["true", None]
    assert column_texts(table, "day", "component").to_pylist() == ["1970-01-01", "1970-01-02"]
    assert column_texts(table, "nowhere", "component").to_pylist() == [None, None]
    with pytest.raises(ValueError, match="which has no fields"):
        column_texts(table, "day.of", "component")


def test_names_of_components_are_escaped_in_the_card(corpus):
    odd = ["<b>h|i</b>", "<script>alert(9)</script>", "x" * 400, "", "a\nb", "`code` [link](javascript:1)"]
    write_rows(
        corpus.folder / "in/plain.parquet",
        [{"text": prose(f"odd {i}"), "part": name} for i, name in enumerate(odd)],
    )
    recipe = changed(corpus, 2, component={"column": "part", "folders": True})
    build_here(recipe)
    card = published(recipe).read("README.md").decode()
    table = card.partition("Components of `plain`")[2].partition("\n\n")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    assert len(lines) == len(odd)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    assert not re.search(r"<b>|<script|x{101}", card.partition("## How it was made")[0])
    assert {row["component"] for row in table_of(recipe, "plain")} == {name or None for name in odd}
    assert table_of(recipe, "plain/other")


@pytest.mark.parametrize(
    ("component", "folder"),
    [
        ("CC-MAIN-2024-10", "CC-MAIN-2024-10"), ("../../etc", "etc"), ("..", "other"), ("", "other"),
        (None, "other"), ("a b/c\\d", "a-b-c-d"), ("漢字", "other"), ("x" * 300, "x" * 100), (".hidden", "hidden"),
    ],
)  # fmt: skip
def test_folder_names_are_safe(component, folder):
    assert folder_name(component) == folder


def test_shards_with_documents_of_many_folders_are_read_once(corpus, monkeypatch):
    """The first folder by name has documents of the last shard only."""
    for file in range(3):
        documents = rows(**{f"d{file}_{i}": prose(f"{file} {i}", 300) for i in range(20)})
        parts = ["b", "c", "d"] if file < 2 else ["a", "b", None, "e"]
        listed = [{**row, "part": parts[i % len(parts)]} for i, row in enumerate(documents)]
        write_rows(corpus.folder / f"in/many-{file}.parquet", listed)
    source = {"name": "many", "files": "in/many-*.parquet", "component": {"column": "part", "folders": True}}
    recipe, read = corpus.load(sources=[source]), []

    def counted(folder, shard, *options):
        read.append(shard.name)
        return tables_of(folder, shard, *options)

    monkeypatch.setattr(published_tables, "tables_of", counted)
    build_here(recipe)
    assert read == [f"{file:06d}-000-000" for file in range(3)]
    for part in ("a", "b", "c", "d", "e", "other"):
        found = table_of(recipe, f"many/{part}")
        assert {row["component"] or "other" for row in found} == {part}
        ids = [row["doc_id"] for row in found]
        assert ids == sorted(ids)
    assert len({row["name"] for row in table_of(recipe, "many")}) == 60


def test_too_many_folders_are_an_error_with_an_example(corpus, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.publish.published_shards.MOST_FOLDERS", 2)
    with pytest.raises(
        BadInput, match=r"source piled: component\.folders: a shard has documents of 3 components"
    ):
        build_here(changed(corpus, 1, component={"column": "name", "folders": True}))


def test_the_command_line_names_file_and_line_of_a_pattern_that_matches_nothing(corpus):
    sources = corpus.recipe["sources"]
    sources[0]["component"] = {"path": "nowhere/([0-9]+)/"}
    process = zyda_here("check", corpus.write(sources=sources))
    assert process.returncode != 0
    assert "its URL does not match nowhere" in " ".join((process.stderr + process.stdout).split())


def with_names(folder, files, names_of_file):
    """Return a corpus of files whose documents have `names_of_file` different components, other ones in each file."""
    corpus = Corpus(folder)
    for number in range(files):
        documents = [
            {
                "name": f"{number}_{i}",
                "text": prose(f"{number} {i}"),
                "subset": f"{number}/{i % names_of_file}",
            }
            for i in range(2 * names_of_file)
        ]
        write_rows(folder / f"in/piled-{number}.parquet", documents)
    source = {"name": "piled", "files": "in/piled-*.parquet", "component": {"column": "subset"}}
    corpus.recipe["sources"] = [source]
    return corpus


@pytest.mark.parametrize(("files", "names_of_file", "number"), [(1, 4, 4), (3, 3, 9)])
def test_too_many_components_of_a_shard_or_a_source_stop_the_build(tmp_path, files, names_of_file, number):
    recipe = with_names(tmp_path, files, names_of_file).load()
    message = rf"piled.*component: {number} different values \(0/0, 0/1, \.\.\.\), expected at most 3; name a column"
    with replaced_limits(component_names=3), pytest.raises(BadInput, match=message):
        build_here(recipe)
    assert not [*recipe.folder.files("published")]
    # A shard stops at ingest; the sum over shards is checked before anything is published.
    assert bool([*recipe.folder.files("work/publish")]) == (files > 1)
    with replaced_limits(component_names=number):
        build_here(recipe)
    assert len(pq.read_table(tmp_path / "out/small/published/components.parquet")) == number


def test_counts_do_not_depend_on_the_tree_that_adds_them_up(tmp_path, monkeypatch):
    corpus = with_names(tmp_path, 9, 3)
    corpus.recipe["published_mib"] = 1e-6  # a published file for each input file
    whole = corpus.load(storage=str(tmp_path / "whole"))
    build_here(whole)
    monkeypatch.setattr(trees, "FAN_IN", 2)
    monkeypatch.setattr(components, "MOST_ROWS", 4)
    divided = corpus.load(storage=str(tmp_path / "divided"))
    build_here(divided)
    tables = [
        path.rpartition("/")[2] for path in divided.folder.files("work/counts") if path.endswith(".parquet")
    ]
    levels = Counter(level for name in tables if len(level := name.partition("-")[0]) == 1)
    assert levels == {"0": 5, "1": 3, "2": 2, "3": 1}
    assert contents(divided) == contents(whole)
    published_table = published(divided).read("components.parquet")
    rows_of_table = pq.read_table(pa.BufferReader(published_table)).to_pylist()
    assert {row["component"]: row["documents"] for row in rows_of_table} == {
        f"{number}/{i}": 2 for number in range(9) for i in range(3)
    }


def test_rarest_names_of_licences_are_counted_together_by_the_tree():
    ends = {"stage": None, "reason": None, "tokens": 1, "bytes": 1}
    counted = [
        {"category": "licenses", "component": name, "documents": documents, **ends}
        for name, documents in [("MIT", 1), ("unknown: a", 1), ("unknown: b", 5), ("unknown: c", 2)]
    ] + [{"category": "components", "component": "unknown: a", "documents": 1, **ends}]
    table = components.added_up([pa.Table.from_pylist(counted, components.COUNTED)], components.COUNTED)
    rows_of_table = components.with_others(table, 1).to_pylist()
    assert [(row["category"], row["component"], row["documents"]) for row in rows_of_table] == [
        ("components", "unknown: a", 1), ("licenses", "MIT", 1), ("licenses", "unknown: (others)", 3),
        ("licenses", "unknown: b", 5),
    ]  # fmt: skip
