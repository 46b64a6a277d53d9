"""What `zyda explain` shows of a document that went for what its own row says."""

import pytest
from small_corpus import build_here, prose, table_of, write_rows

from zyda_flows.flows.command.explain import decision
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.lookup.explain import explain


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


def test_row_that_was_set_aside_says_so_with_its_reason(corpus):
    write_rows(corpus.folder / "in/bad.jsonl", [{"text": prose("a")}, {"text": None}])
    source = {"name": "bad", "files": "in/bad.jsonl", "on_bad_rows": "set_aside"}
    recipe = corpus.load(sources=[source])
    build_here(recipe)
    (document,) = table_of(recipe, "bad")
    with pytest.raises(BadInput, match=r"row 1 of .*bad\.jsonl was set aside: 'text' is null"):
        explain(recipe, str(document["doc_id"] + 1))
    with pytest.raises(BadInput, match=r"row 2 of .*bad\.jsonl is no document of this corpus"):
        explain(recipe, str(document["doc_id"] + 2))
