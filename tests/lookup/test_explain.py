"""`zyda explain` for documents that were removed by a filter, and for rows set aside."""

import pytest
from small_corpus import build_here, prose, table_of, write_rows

from zyda_flows.flows.command.explain import decision, print_explanation
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


def test_condition_of_the_build_is_shown_if_the_recipe_has_changed(corpus):
    recipe = corpus.load()
    build_here(recipe)
    (removed,) = (row for row in table_of(recipe, "removed") if row["reason"] == "keep")
    condition = corpus.recipe["sources"][1].pop("keep")
    explanation = explain(corpus.load(), str(removed["doc_id"]))
    assert explanation.condition == condition
    assert explanation.evidence == {"name": "middle_alone"}


def test_facts_that_the_kept_document_lacks_are_shown(corpus, capsys):
    text = prose("a page", 80)
    write_rows(corpus.folder / "in/best-9.jsonl", [{"name": "kept", "text": f"{text} It has 5 km in Rome."}])
    write_rows(
        corpus.folder / "in/worst-9.jsonl", [{"name": "other", "text": f"{text} It has 6 km in Rome."}]
    )
    sources = [{"name": name, "files": f"in/{name}-9.jsonl"} for name in ("best", "worst")]
    recipe = corpus.load(sources=sources)
    build_here(recipe)
    (removed,) = table_of(recipe, "removed")
    explanation = explain(recipe, str(removed["doc_id"]))
    assert explanation.lacks == {"number": ("6 km",)}
    print_explanation(explanation)
    assert "the other has):\n  number: 6 km\n" in capsys.readouterr().out


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
