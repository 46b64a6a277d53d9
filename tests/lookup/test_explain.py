"""What `zyda explain` shows of a document that went for what its own row says."""

from small_corpus import build_here, prose, table_of

from flows.command.explain import decision
from tasks.lookup.explain import explain


def test_values_that_keep_read_are_shown(corpus):
    recipe = corpus.load()
    build_here(recipe)
    (gone,) = (row for row in table_of(recipe, "removed") if row["reason"] == "keep")
    found = explain(recipe, str(gone["doc_id"]))
    assert found.evidence["name"] == "middle_alone"
    assert decision(found).endswith("(name middle_alone)")
    assert found.text == prose("middle alone")


def test_keep_that_the_recipe_has_no_more_has_no_values(corpus):
    recipe = corpus.load()
    build_here(recipe)
    (gone,) = (row for row in table_of(recipe, "removed") if row["reason"] == "keep")
    del corpus.recipe["sources"][1]["keep"]
    assert "name" not in explain(corpus.load(), str(gone["doc_id"])).evidence
