"""Compare Zyda-1's whole filter with the results of its published code."""

import numpy as np

from zyda_flows.tasks.documents.bounds import broken_rules, first_broken
from zyda_flows.tasks.documents.planning import bounds_of, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps


def test_zyda1_decisions_equal_the_published_code(judged, corpus):
    folder, published, texts = judged
    lists = {
        "profanity": "profanity_word_list", "sexual": "sexual_word_list", "zh_porn": "zh_pornsignals",
        "cursed": "cursed_substrings",
    }  # fmt: skip
    files = {name: folder / f"word-lists/{file}.json" for name, file in lists.items()}
    lists = {name: str(file) for name, file in files.items() if file.exists()}
    recipe = corpus.load(
        documents=[{"clean": "zyda1"}, {"filter": {"zyda1": {"lists": lists} if lists else {}}}]
    )
    bounds = bounds_of(recipe, "best")
    whole = run_steps(plan_documents(recipe.model_copy(update={"keep_text": True}), "best"), texts)
    early = run_steps(plan_documents(recipe, "best"), texts)
    names = {
        "length": "length<", "mean_word_length": "mean_word_length<", "xml": "count xml",
        "https_share": "fraction https://", "json_keys_share": 'fraction ":',
    }  # fmt: skip
    for result in (whole, early):
        first = first_broken(broken_rules(result.columns, bounds))
        rules = [bounds[i].rule.removeprefix("zyda1.") if i >= 0 else None for i in first]
        assert [rule and names[rule] for rule in rules] == [row["first_reason"] for row in published]
        assert (result.remaining == (first < 0)).all() or result is whole
    for name, column in (("xml", "count xml"), ("sexual", "count sexual_word_list.json")):
        if column not in published[0]:  # this word list is not part of the project
            continue
        counts = whole.columns[f"2.zyda1.{name}"].to_numpy().astype(int)
        assert counts.tolist() == [row[column] for row in published]
    lengths = np.array([max(1, row["length"]) for row in published])
    for name, column in (("profanity_share", "profanity_word_list"), ("cursed_share", "cursed_substrings")):
        if not lists:
            continue
        expected = np.array([row[f"count {column}.json"] for row in published]) / lengths
        np.testing.assert_allclose(whole.columns[f"2.zyda1.{name}"].to_numpy(), expected, atol=1e-12)
