"""What a recipe may say of steps on documents, and what it is told of the rest."""

import re

import jsonschema
import pytest
import yaml

from zyda_flows.tasks.documents.planning import bounds_of, plan_documents, published_columns
from zyda_flows.tasks.errors import BadRecipe, Unavailable
from zyda_flows.tasks.recipe.cleaning import PersonalData
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.recipe.schema import schema
from zyda_flows.textkernels.texts import personal, prose


def of(step):
    return {"documents": [step]}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            {},
            "give one of license_filter, url_rules, extract, language_id, clean, filter, decontaminate, measure",
        ),
        (
            {"clean": "zyda1", "filter": "c4"},
            "give one of license_filter, url_rules, extract, language_id, clean, filter, decontaminate, measure",
        ),
        (
            {"clean": None},
            "give one of license_filter, url_rules, extract, language_id, clean, filter, decontaminate, measure",
        ),
        ({"sort": "zyda1"}, "sort: there is no such field"),
        ({"clean": "zyda3"}, "clean: there is no zyda3; there are zyda1, unicode"),
        ({"clean": 3}, "a name or a mapping is expected"),
        ({"clean": {}}, "clean: it says nothing to be cleaned"),
        ({"clean": {"newlines": False}}, "clean: it says nothing to be cleaned"),
        ({"clean": {"newlines": "yes"}}, "clean.newlines: expected true or false (found 'yes')"),
        ({"clean": {"unicode": "yes"}}, "clean.unicode: expected true or false (found 'yes')"),
        ({"clean": {"runs": {"ab": 3}}}, "clean.runs.ab: expected at most 1 character"),
        ({"clean": {"runs": {"a": 0}}}, "clean.runs.a: expected at least 1 (found 0)"),
        ({"clean": {"runs": {"a": 10**23}}}, "clean.runs.a: expected at most"),
        ({"clean": {"runs": "zyda2"}}, "clean.runs: expected 'zyda1' (found 'zyda2')"),
        ({"clean": {"lines": "c4"}}, "clean.lines: a mapping is expected"),
        ({"clean": {"lines": {}}}, "clean.lines.rules: this field is required"),
        ({"clean": {"lines": {"rules": "c5"}}}, "clean.lines.rules: expected 'c4' or 'refinedweb'"),
        (
            {"clean": {"lines": {"rules": "refinedweb", "terminal_punctuation": True}}},
            "terminal_punctuation is of the rules c4",
        ),
        ({"clean": {"lins": True}}, "clean.lins: there is no such field"),
        ({"clean": {"pii": True}}, "clean.pii: a mapping is expected: {mail: true, ip: true}, say"),
        ({"clean": {"pii": ["mail"]}}, "clean.pii: a mapping is expected"),
        ({"clean": {"pii": {"mial": True}}}, "clean.pii.mial: there is no such field"),
        ({"clean": {"pii": {"mail": 3}}}, "clean.pii.mail: true is expected, or a text"),
        ({"clean": {"pii": {"mail": None}}}, "clean.pii.mail: true is expected, or a text"),
        ({"clean": {"pii": {"mail": "\ud800"}}}, "clean.pii.mail: half a character of UTF-16 is no text"),
        ({"clean": {"pii": {"mail": False}}}, "clean: it says nothing to be cleaned"),
        ({"clean": {"pii": {}}}, "clean: it says nothing to be cleaned"),
        ({"filter": "pii"}, "pii: none of its rules has a value, so that it lets nothing go"),
        ({"filter": {"pii": {"mail": 3}}}, "pii.mail: two values are expected, [least, most]"),
        ({"filter": {"pii": {"male": [0, 3]}}}, "pii: there is no rule male; there are mail, ip, phone"),
        ({"measure": {"pii": {"mail": [0, 3]}}}, "pii.mail: a value is for a filter"),
        ({"filter": ["zyda1", "c4"]}, "filter: a name or a mapping is expected; a step for each"),
        ({"filter": {"c4": dict.fromkeys(RULE_SETS["c4"].rules)}}, "c4: none of its rules has a value"),
        ({"filter": {"zyda1": {"lists": {"sexual": 5}}}}, "zyda1.lists: a mapping of names to files is"),
        ({"filter": {"zyda1": {"lists": {"sexual": None}}}}, "zyda1.lists: a mapping of names to files is"),
        ({"measure": [5]}, "measure: a name, a list of names or a mapping is expected"),
        ({"measure": {"code": {"max_line_length": 5}}}, "code.max_line_length: a value is for a filter"),
        ({"measure": ["code", "mine:one"]}, "mine:one: a function has a step of its own"),
        ({"filter": "zyda3"}, "there is no rule set zyda3; there are zyda1, gopher-quality"),
        ({"filter": {}}, "filter: it names no rule set"),
        ({"filter": {"zyda1": {"digitz": 1}}}, "zyda1: there is no rule digitz; there are length"),
        ({"filter": {"zyda1": {"digits": "0.2"}}}, "zyda1.digits: a number is expected"),
        ({"filter": {"zyda1": {"digits": True}}}, "zyda1.digits: a number is expected"),
        ({"filter": {"zyda1": {"digits": [1]}}}, "zyda1.digits: two values are expected"),
        ({"filter": {"zyda1": {"digits": float("nan")}}}, "zyda1.digits: a number is expected"),
        (
            {"filter": {"zyda1": {"sexual": 3}}},
            "zyda1.sexual: it counts the list sexual, which `lists` has not",
        ),
        (
            {"filter": {"zyda1": {"lists": {"mine": "a.txt"}}}},
            "zyda1.lists: there is no list mine; there are zh_porn",
        ),
        ({"filter": {"zyda1": {"lists": {"sexual": "s3://a:b@c/d"}}}}, "a recipe holds no credentials"),
        ({"filter": {"zyda1": {"lists": "a.txt"}}}, "zyda1.lists: a mapping of names to files is expected"),
        ({"filter": {"gopher-quality": {"words": [5, 1]}}}, "gopher-quality.words: 5 is more than 1"),
        ({"filter": {"gopher-quality": {"words": 5}}}, "gopher-quality.words: two values are expected"),
        ({"filter": {"gopher-quality": {"lists": {}}}}, "gopher-quality: there is no rule lists"),
        (
            {"filter": {"c4": {"terminal_punctuation": 3}}},
            "c4.terminal_punctuation: true or false is expected",
        ),
        ({"filter": {"c4": []}}, "c4: a mapping of its rules to values is expected"),
        ({"filter": {"mine": {}}}, "there is no rule set mine"),
        ({"filter": {"mine": {"digits": [0, 1]}}}, "mine.digits: a statistic of a rule set is expected"),
        (
            {"filter": {"mine": {"zyda1.sexual": [0, 1]}}},
            "mine.zyda1.sexual: a statistic of a rule set is expected",
        ),
        ({"filter": {"mine": {"zyda1.digits": 0.2}}}, "mine.zyda1.digits: two values are expected"),
        ({"filter": {"mine": {"zyda1.digits": [None, None]}}}, "mine.zyda1.digits: two values are expected"),
        ({"measure": {"mine": {"zyda1.digits": [0, 1]}}}, "there is no rule set mine"),
        ({"measure": []}, "measure: it names no rule set"),
        ({"measure": ["zyda1", "zyda3"]}, "there is no rule set zyda3"),
    ],
)
def test_step_that_cannot_be_done_is_told_with_its_line(corpus, step, said):
    with pytest.raises(BadRecipe) as error:
        corpus.load(**of(step))
    assert re.match(r".*recipe\.yaml:\d+: documents", str(error.value))
    assert said in str(error.value)
    assert len(error.value.faults) == 1


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"clean": "nowhere_here:clean"}, "nowhere_here:clean is code, .* set ZYDA_STEPS=nowhere_here"),
        ({"filter": {"zyda1": {"lists": {"sexual": "gone.txt"}}}}, "gone.txt: there is no such file"),
        ({"clean": {"unicode": {"normalisation": "NFC"}}}, "normalisation"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_what_a_step_needs_is_looked_at_before_any_work(corpus, step, said, own):
    if own:
        corpus.recipe["sources"][1]["documents"] = [{"measure": "code"}, step]
        recipe, place = corpus.load(), r"sources\[1\]\.documents\[1\]"
    else:
        recipe, place = corpus.load(**of(step)), r"documents\[0\]"
    with pytest.raises(BadRecipe, match=rf"recipe\.yaml:\d+: {place}: .*{said}"):
        plan_documents(recipe, "middle")


@pytest.mark.parametrize("steps", ["zyda1", {"clean": "zyda1"}, ["zyda1"], 3, None])
def test_what_is_no_list_of_steps_is_one_line(corpus, steps):
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents: a (list of steps|step) is ") as error:
        corpus.load(documents=steps)
    assert len(error.value.faults) == 1


def test_term_that_is_no_regular_expression_is_named(corpus):
    (corpus.folder / "words.txt").write_text("moss\nfern(\n")
    recipe = corpus.load(**of({"filter": {"zyda1": {"lists": {"sexual": "words.txt"}}}}))
    with pytest.raises(
        BadRecipe, match=r"documents\[0\]: .*words.txt: 'fern\(' is no regular expression: missing"
    ):
        plan_documents(recipe, "best")


def test_list_in_a_store_that_may_answer_later_is_tried_again(corpus, monkeypatch):
    def unavailable(*_):
        raise Unavailable("later")

    monkeypatch.setattr("zyda_flows.tasks.documents.measures.content_of", unavailable)
    recipe = corpus.load(**of({"filter": {"zyda1": {"lists": {"sexual": "words.txt"}}}}))
    with pytest.raises(Unavailable):
        plan_documents(recipe, "best")


def test_same_columns_cannot_be_measured_twice(corpus):
    recipe = corpus.load(
        documents=[{"measure": "code"}, {"clean": "newlines"}, {"measure": ["fineweb", "code"]}]
    )
    with pytest.raises(BadRecipe, match="code_max_line_length is measured twice"):
        plan_documents(recipe, "best")


def test_options_of_ftfy_that_say_nothing_are_its_defaults(corpus):
    (step,) = corpus.load(documents=[{"clean": {"unicode": {}, "newlines": True, "runs": {}}}]).documents
    assert step.cleaning.unicode is True
    assert step.name == "newlines+unicode"


def test_function_cannot_measure_a_column_of_every_corpus(corpus, tmp_path, monkeypatch):
    (tmp_path / "steps_that_clash.py").write_text("def text(texts): return texts\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ZYDA_STEPS", "steps_that_clash")
    recipe = corpus.load(documents=[{"measure": "steps_that_clash:text"}])
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents: text is a column of every corpus"):
        plan_documents(recipe, "best")


@pytest.mark.parametrize("name", prose.SETS)
def test_rules_have_the_names_of_statistics(name):
    assert sorted(RULE_SETS[name].rules) == sorted(prose.SETS[name])


def test_rules_and_cleanings_of_personal_data_have_the_names_of_its_kinds():
    kinds = PersonalData.model_fields.keys() - {"columns"}
    assert sorted(RULE_SETS["pii"].rules) == sorted(kinds) == sorted(personal.KINDS)


def rules_of(corpus, *steps):
    return {bound.rule: (bound.low, bound.high) for bound in bounds_of(corpus.load(documents=steps), "best")}


def test_named_set_has_its_published_values_in_their_order(corpus):
    for name, of_set in RULE_SETS.items():
        if name == "pii" or of_set.by_language:  # they have none, or others for each language
            continue
        expected = {
            f"{name}.{rule}": one[:2] for rule, one in of_set.rules.items() if rule not in of_set.lists
        }
        assert list(rules_of(corpus, {"filter": name}).items()) == list(expected.items())


def test_recipe_says_other_values_or_none(corpus):
    rules = rules_of(
        corpus,
        {"filter": {"gopher-quality": {"words": [20, None], "hashes": 0.5, "ellipses": None}}},
        {"filter": {"mine": {"fineweb.short_lines": [0.1, 0.5], "code.max_line_length": [None, 80]}}},
    )
    assert rules["gopher-quality.words"] == (20, None)
    assert rules["gopher-quality.hashes"] == (None, 0.5)
    assert "gopher-quality.ellipses" not in rules
    assert rules["gopher-quality.stop_words"] == (2, None)
    assert rules["mine.fineweb.short_lines"] == (0.1, 0.5)
    assert rules["mine.code.max_line_length"] == (None, 80)


def test_lists_bring_their_rules_and_lie_beside_the_recipe(corpus):
    (corpus.folder / "words.txt").write_text("moss\nfern\n")
    step = {"filter": {"zyda1": {"lists": {"sexual": "words.txt"}, "sexual": 3}}}
    rules = rules_of(corpus, step)
    assert rules["zyda1.sexual"] == (None, 3)
    assert rules["zyda1.sexual_share"] == (None, 0.001)
    assert "zyda1.zh_porn" not in rules
    recipe = corpus.load(documents=[step])
    (planned_step,) = plan_documents(recipe, "best").steps
    assert planned_step.measures[0].terms == {"sexual": ("moss", "fern")}
    assert recipe.as_written["documents"] == [step]  # and not where this machine has it


def test_source_has_its_own_steps_or_none(corpus):
    corpus.recipe["sources"][0]["documents"] = []
    corpus.recipe["sources"][1]["documents"] = [{"measure": "code"}]
    recipe = corpus.load(documents=[{"filter": "fineweb"}])
    assert [len(plan_documents(recipe, source.name).steps) for source in recipe.sources] == [0, 1, 1]
    assert not bounds_of(recipe, "middle")
    assert len(bounds_of(recipe, "worst")) == 4
    columns = [column.name for column in published_columns(recipe.steps_of("middle"))]
    assert columns == [f"code_{name}" for name in RULE_SETS["code"].rules]


def test_what_is_written_is_read_again(corpus, tmp_path):
    steps = [
        {"clean": {"unicode": {"uncurl_quotes": False}, "runs": {"-": 9}}},
        {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
        {"clean": {"pii": {"mail": True, "phone": "", "card": "[a card]"}}},
        {"filter": {"gopher-quality": {"words": [50, None], "hashes": None}, "c4": {}}},
        {"measure": ["fineweb"]},
        {"filter": "steps:of_mine"},
    ]
    recipe = corpus.load(documents=steps, keep_text=True)
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(recipe.as_written | {"storage": "out"}))
    assert load_recipe(str(again)).documents == recipe.documents
    small = {name: corpus.recipe[name] for name in ("name", "storage", "tokenizer", "sources")}
    jsonschema.validate(small | {"documents": recipe.as_written["documents"]}, yaml.safe_load(schema()))
