"""The card: `datasets` reads a published corpus by its configurations."""

from types import SimpleNamespace

import pytest
from small_corpus import SOURCES, STEPS, Corpus, build_here, table_of, write_rows

from zyda_flows.tasks.publish.card import configurations, without_local_folders
from zyda_flows.tasks.publish.published_columns import REMOVED

OF_ALL = ["doc_id", "source", "text", "n_tokens"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, compiled):
    """Return a corpus whose sources have different columns, and whose stages publish different evidence."""
    corpus = Corpus(tmp_path_factory.mktemp("card"))
    middle = [{"language": "en", **row} for row in SOURCES["middle.jsonl.gz"]]
    write_rows(corpus.folder / "in/middle.jsonl.gz", middle)
    best, *others = corpus.recipe["sources"]
    sources = [{**best, "documents": STEPS}, *others]
    recipe = corpus.load(sources=sources, dedup={"scope": "global", "verify": {"containment": 0.8}})
    build_here(recipe)
    return recipe


@pytest.fixture
def load(recipe, tmp_path):
    """Return a function that loads the default configuration, or a configuration by name."""
    import datasets  # late: it takes seconds

    folder = recipe.folder.folder("published").url
    return lambda *name: datasets.load_dataset(
        folder, *name, split="train", cache_dir=str(tmp_path)
    ).to_list()


def test_default_configuration_loads_all_documents(recipe, load):
    rows = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    assert len({frozenset(row) for row in rows}) > 1
    assert load() == [{name: row[name] for name in OF_ALL} for row in rows]


@pytest.mark.parametrize("place", ["best", "middle", "worst", "clusters"])
def test_source_and_cluster_configurations_have_all_columns(recipe, load, place):
    assert load(place) == table_of(recipe, place)


def test_removed_configuration_has_the_columns_of_all_sources(recipe, load):
    rows = table_of(recipe, "removed")
    assert len({frozenset(row) for row in rows}) == 1  # null if a file lacks the column
    assert set(rows[0]) > set(REMOVED.names)
    assert load("removed") == [{name: row[name] for name in REMOVED.names} for row in rows]


def test_name_of_the_default_configuration_is_no_source_name(tmp_path):
    corpus = Corpus(tmp_path)
    with pytest.raises(Exception, match="default is the name of a file or folder in every published corpus"):
        corpus.load(sources=[{"name": "default", "files": "in/best-*.parquet"}])


def test_each_configuration_has_a_name_that_datasets_accepts():
    """Subfolders of a source whose name begins with `clusters`, and a subfolder with the name of another source."""
    sources = ("clusters-web", "a", "a-b", "removed-x")
    places = {
        "clusters-web/2", "a/b", "a/c", "a-b", "removed-x", "clusters", "clusters3", "passages/a", "pairs2",
        "contradictions", "removed/a",
    }  # fmt: skip
    manifest = SimpleNamespace(vectors=None, ledger=SimpleNamespace(sources=sources))
    found = [(each["config_name"], each["data_files"]) for each in configurations(manifest, places)]
    assert found[1:] == [
        ("clusters-web", "clusters-web/**/*.parquet"), ("a", "a/**/*.parquet"), ("a-b", "a-b/*.parquet"),
        ("removed-x", "removed-x/*.parquet"), ("clusters-web-2", "clusters-web/2/*.parquet"),
        ("a-c", "a/c/*.parquet"), ("clusters", "clusters/*.parquet"), ("clusters3", "clusters3/*.parquet"),
        ("contradictions", "contradictions/*.parquet"), ("pairs2", "pairs2/*.parquet"),
        ("passages", "passages/*/*.parquet"), ("removed", "removed/*/*.parquet"),
    ]  # fmt: skip


def test_card_has_no_local_folders(recipe):
    text = (recipe.folder.read("published/README.md")).decode()
    assert recipe.storage in str(recipe.folder.url)
    assert str(recipe.storage).rpartition("/")[0] not in text
    assert "tokenizer: …/demo-tokenizer.json" in text
    written = ["/home/anna/web/**/*.parquet", "/home/anna/x.json", "hf://datasets/a/b.jsonl", "../x", 3]
    assert without_local_folders(written) == [
        "…/web/**/*.parquet", "…/x.json", "hf://datasets/a/b.jsonl", "../x", 3,
    ]  # fmt: skip
