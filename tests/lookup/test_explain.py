"""`zyda explain` for documents that were removed by a filter, and for rows set aside."""

import pytest
from small_corpus import build_here, prose, table_of, write_rows

from zyda_flows.flows.command.explain import decision
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.lookup.explain import explain


def test_columns_of_keep_are_shown(corpus):
    recipe = corpus.load()
    build_here(recipe)
    (removed,) = (row for row in table_of(recipe, "removed") if row["reason"] == "keep")
    explanation = explain(recipe, str(removed["doc_id"]))
    assert explanation.evidence["name"] == "middle_alone"
    assert decision(explanation).endswith("(name middle_alone)")
    assert explanation.text == prose("middle alone")


def test_no_columns_are_shown_if_keep_was_removed_from_the_recipe(corpus):
    recipe = corpus.load()
    build_here(recipe)
    (gone,) = (row for row in table_of(recipe, "removed") if row["reason"] == "keep")
    del corpus.recipe["sources"][1]["keep"]
    assert "name" not in explain(corpus.load(), str(gone["doc_id"])).evidence


def test_row_set_aside_is_reported_with_its_reason(corpus):
    write_rows(corpus.folder / "in/bad.jsonl", [{"text": prose("a")}, {"text": None}])
    source = {"name": "bad", "files": "in/bad.jsonl", "on_bad_rows": "set_aside"}
    recipe = corpus.load(sources=[source])
    build_here(recipe)
    (document,) = table_of(recipe, "bad")
    with pytest.raises(BadInput, match=r"row 1 of .*bad\.jsonl was set aside: 'text' is null"):
        explain(recipe, str(document["doc_id"] + 1))
    with pytest.raises(BadInput, match=r"row 2 of .*bad\.jsonl is no document of this corpus"):
        explain(recipe, str(document["doc_id"] + 2))
