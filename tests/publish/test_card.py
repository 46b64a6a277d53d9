"""The card: what the field's own reader, which goes by it, makes of a published corpus."""

import pytest
from small_corpus import SOURCES, STEPS, Corpus, build_here, table_of, write_rows

from zyda_flows.tasks.publish.card import without_local_folders
from zyda_flows.tasks.publish.published_columns import REMOVED

OF_ALL = ["doc_id", "source", "text", "n_tokens"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, compiled):
    """Give a corpus whose sources have other columns each, and whose stages say other things of what went."""
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
    """Return what reads the corpus, all of it or what has a name."""
    import datasets  # late: it takes seconds

    folder = recipe.folder.folder("published").url
    return lambda *name: datasets.load_dataset(
        folder, *name, split="train", cache_dir=str(tmp_path)
    ).to_list()


def test_corpus_without_a_name_is_all_documents(recipe, load):
    rows = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    assert len({frozenset(row) for row in rows}) > 1
    assert load() == [{name: row[name] for name in OF_ALL} for row in rows]


@pytest.mark.parametrize("place", ["best", "middle", "worst", "clusters"])
def test_source_and_clusters_have_all_their_columns(recipe, load, place):
    assert load(place) == table_of(recipe, place)


def test_removed_are_those_of_all_sources_with_the_columns_that_all_have(recipe, load):
    rows = table_of(recipe, "removed")
    assert len({frozenset(row) for row in rows}) == 1  # read with null where a file has no such column
    assert set(rows[0]) > set(REMOVED.names)
    assert load("removed") == [{name: row[name] for name in REMOVED.names} for row in rows]


def test_name_that_the_card_gives_to_all_documents_is_no_name_of_a_source(tmp_path):
    corpus = Corpus(tmp_path)
    with pytest.raises(Exception, match="default is in every published corpus"):
        corpus.load(sources=[{"name": "default", "files": "in/best-*.parquet"}])


def test_card_names_no_folder_of_this_machine(recipe):
    text = (recipe.folder.read("published/README.md")).decode()
    assert recipe.storage in str(recipe.folder.url)
    assert str(recipe.storage).rpartition("/")[0] not in text
    assert "tokenizer: …/demo-tokenizer.json" in text
    written = ["/home/anna/web/**/*.parquet", "/home/anna/x.json", "hf://datasets/a/b.jsonl", "../x", 3]
    assert without_local_folders(written) == [
        "…/web/**/*.parquet", "…/x.json", "hf://datasets/a/b.jsonl", "../x", 3,
    ]  # fmt: skip
