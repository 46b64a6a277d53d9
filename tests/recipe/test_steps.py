"""The steps on documents in a recipe, and the errors for invalid steps."""

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


@pytest.mark.parametrize(
    ("step", "message"),
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
        ({"sort": "zyda1"}, "sort: unknown field"),
        ({"clean": "zyda3"}, "clean: unknown cleaning zyda3; use one of zyda1, unicode"),
        ({"clean": 3}, "a name or a mapping is expected"),
        ({"clean": {}}, "clean: no change is given; use one of unicode, newlines"),
        ({"clean": {"newlines": False}}, "clean: no change is given; use one of unicode, newlines"),
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
            "terminal_punctuation is an option of the rules c4 only",
        ),
        ({"clean": {"lins": True}}, "clean.lins: unknown field"),
        ({"clean": {"pii": True}}, "clean.pii: a mapping is expected, for example {mail: true, ip: true}"),
        ({"clean": {"pii": ["mail"]}}, "clean.pii: a mapping is expected"),
        ({"clean": {"pii": {"mial": True}}}, "clean.pii.mial: unknown field"),
        ({"clean": {"pii": {"mail": 3}}}, "clean.pii.mail: true or a replacement text is expected"),
        ({"clean": {"pii": {"mail": None}}}, "clean.pii.mail: true or a replacement text is expected"),
        (
            {"clean": {"pii": {"mail": "\ud800"}}},
            "clean.pii.mail: the replacement text holds an unpaired surrogate",
        ),
        ({"clean": {"pii": {"mail": False}}}, "clean: no change is given; use one of unicode, newlines"),
        ({"clean": {"pii": {}}}, "clean: no change is given; use one of unicode, newlines"),
        ({"filter": "pii"}, "pii: no rule of this set has a limit, so it would remove nothing; set a limit"),
        ({"filter": {"pii": {"mail": 3}}}, "pii.mail: two values are expected, [lowest, highest]"),
        ({"filter": {"pii": {"male": [0, 3]}}}, "pii: unknown rule male; use one of mail, ip, phone"),
        ({"measure": {"pii": {"mail": [0, 3]}}}, "pii.mail: `measure` takes no limits; use `filter`"),
        ({"filter": ["zyda1", "c4"]}, "filter: a name or a mapping is expected; use one step for each"),
        ({"filter": {"c4": dict.fromkeys(RULE_SETS["c4"].rules)}}, "c4: no rule of this set has a limit"),
        ({"filter": {"zyda1": {"lists": {"sexual": 5}}}}, "zyda1.lists: a mapping of names to files is"),
        ({"filter": {"zyda1": {"lists": {"sexual": None}}}}, "zyda1.lists: a mapping of names to files is"),
        ({"measure": [5]}, "measure: a name, a list of names or a mapping is expected"),
        (
            {"measure": {"code": {"max_line_length": 5}}},
            "code.max_line_length: `measure` takes no limits; use `filter`",
        ),
        ({"measure": ["code", "mine:own"]}, "mine:own: a function needs its own step"),
        ({"filter": "zyda3"}, "unknown rule set zyda3; use one of zyda1, gopher-quality"),
        ({"filter": {}}, "filter: no rule set is given"),
        ({"filter": {"zyda1": {"digitz": 1}}}, "zyda1: unknown rule digitz; use one of length"),
        ({"filter": {"zyda1": {"digits": "0.2"}}}, "zyda1.digits: a number is expected"),
        ({"filter": {"zyda1": {"digits": True}}}, "zyda1.digits: a number is expected"),
        ({"filter": {"zyda1": {"digits": [1]}}}, "zyda1.digits: two values are expected"),
        ({"filter": {"zyda1": {"digits": float("nan")}}}, "zyda1.digits: a number is expected"),
        (
            {"filter": {"zyda1": {"sexual": 3}}},
            "zyda1.sexual: this rule counts terms of the list sexual; add it to `lists`",
        ),
        (
            {"filter": {"zyda1": {"lists": {"mine": "a.txt"}}}},
            "zyda1.lists: unknown list mine; use one of zh_porn",
        ),
        (
            {"filter": {"zyda1": {"lists": {"sexual": "s3://a:b@c/d"}}}},
            "a recipe must not contain credentials",
        ),
        ({"filter": {"zyda1": {"lists": "a.txt"}}}, "zyda1.lists: a mapping of names to files is expected"),
        ({"filter": {"gopher-quality": {"words": [5, 1]}}}, "gopher-quality.words: 5 is more than 1"),
        ({"filter": {"gopher-quality": {"words": 5}}}, "gopher-quality.words: two values are expected"),
        ({"filter": {"gopher-quality": {"lists": {}}}}, "gopher-quality: unknown rule lists"),
        (
            {"filter": {"c4": {"terminal_punctuation": 3}}},
            "c4.terminal_punctuation: true or false is expected",
        ),
        ({"filter": {"c4": []}}, "c4: a mapping of its rules to values is expected"),
        ({"filter": {"mine": {}}}, "unknown rule set mine"),
        ({"filter": {"mine": {"digits": [0, 1]}}}, "mine.digits: a statistic of a rule set is expected"),
        (
            {"filter": {"mine": {"zyda1.sexual": [0, 1]}}},
            "mine.zyda1.sexual: a statistic of a rule set is expected",
        ),
        ({"filter": {"mine": {"zyda1.digits": 0.2}}}, "mine.zyda1.digits: two values are expected"),
        ({"filter": {"mine": {"zyda1.digits": [None, None]}}}, "mine.zyda1.digits: two values are expected"),
        ({"measure": {"mine": {"zyda1.digits": [0, 1]}}}, "unknown rule set mine"),
        ({"measure": []}, "measure: no rule set is given"),
        ({"measure": ["zyda1", "zyda3"]}, "unknown rule set zyda3"),
    ],
)
def test_invalid_step_raises_an_error_with_its_line(corpus, step, message):
    with pytest.raises(BadRecipe) as error:
        corpus.load(documents=[step])
    assert re.match(r".*recipe\.yaml:\d+: documents", str(error.value))
    assert message in str(error.value)
    assert len(error.value.faults) == 1


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"clean": "nowhere_here:clean"}, "nowhere_here:clean is code, .* set ZYDA_STEPS=nowhere_here"),
        ({"filter": {"zyda1": {"lists": {"sexual": "gone.txt"}}}}, "gone.txt: no such file"),
        ({"clean": {"unicode": {"normalisation": "NFC"}}}, "normalisation"),
    ],
)
@pytest.mark.parametrize("is_source_step", [False, True])
def test_missing_files_and_functions_of_a_step_raise_before_work_begins(
    corpus, step, message, is_source_step
):
    if is_source_step:
        corpus.recipe["sources"][1]["documents"] = [{"measure": "code"}, step]
        recipe, place = corpus.load(), r"sources\[1\]\.documents\[1\]"
    else:
        recipe, place = corpus.load(documents=[step]), r"documents\[0\]"
    with pytest.raises(BadRecipe, match=rf"recipe\.yaml:\d+: {place}: .*{message}"):
        plan_documents(recipe, "middle")


@pytest.mark.parametrize("steps", ["zyda1", {"clean": "zyda1"}, ["zyda1"], 3, None])
def test_value_that_is_not_a_list_of_steps_raises_one_error(corpus, steps):
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents: a (list of steps|step) is ") as error:
        corpus.load(documents=steps)
    assert len(error.value.faults) == 1


def test_invalid_regular_expression_of_a_term_list_raises_with_the_term(corpus):
    (corpus.folder / "words.txt").write_text("moss\nfern(\n")
    recipe = corpus.load(documents=[{"filter": {"zyda1": {"lists": {"sexual": "words.txt"}}}}])
    with pytest.raises(
        BadRecipe, match=r"documents\[0\]: .*words.txt: 'fern\(' is no regular expression: missing"
    ):
        plan_documents(recipe, "best")


def test_unavailable_store_of_a_term_list_raises_unavailable(corpus, monkeypatch):
    def unavailable(*_):
        raise Unavailable("later")

    monkeypatch.setattr("zyda_flows.tasks.documents.measures.content_of", unavailable)
    recipe = corpus.load(documents=[{"filter": {"zyda1": {"lists": {"sexual": "words.txt"}}}}])
    with pytest.raises(Unavailable):
        plan_documents(recipe, "best")


def test_measuring_the_same_columns_twice_raises(corpus):
    recipe = corpus.load(
        documents=[{"measure": "code"}, {"clean": "newlines"}, {"measure": ["fineweb", "code"]}]
    )
    with pytest.raises(BadRecipe, match="code_max_line_length is measured twice"):
        plan_documents(recipe, "best")


def test_empty_options_of_ftfy_are_its_defaults(corpus):
    (step,) = corpus.load(documents=[{"clean": {"unicode": {}, "newlines": True, "runs": {}}}]).documents
    assert step.cleaning.unicode is True
    assert step.name == "newlines+unicode"


def test_function_with_the_name_of_a_column_of_every_corpus_raises(corpus, tmp_path, monkeypatch):
    (tmp_path / "steps_that_clash.py").write_text("def text(texts): return texts\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ZYDA_STEPS", "steps_that_clash")
    recipe = corpus.load(documents=[{"measure": "steps_that_clash:text"}])
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents: text is a column of every corpus"):
        plan_documents(recipe, "best")


@pytest.mark.parametrize("name", prose.SETS)
def test_rules_have_the_names_of_their_statistics(name):
    assert sorted(RULE_SETS[name].rules) == sorted(prose.SETS[name])


def test_rules_and_cleanings_of_personal_data_have_the_names_of_the_kinds():
    kinds = PersonalData.model_fields.keys() - {"columns"}
    assert sorted(RULE_SETS["pii"].rules) == sorted(kinds) == sorted(personal.KINDS)


def rules_of(corpus, *steps):
    return {bound.rule: (bound.low, bound.high) for bound in bounds_of(corpus.load(documents=steps), "best")}


def test_rule_set_without_settings_has_the_published_limits_in_order(corpus):
    for name, rule_set in RULE_SETS.items():
        if name == "pii" or rule_set.by_language:  # no limits, or limits for each language
            continue
        expected = {
            f"{name}.{rule_name}": rule[:2]
            for rule_name, rule in rule_set.rules.items()
            if rule_name not in rule_set.lists
        }
        assert list(rules_of(corpus, {"filter": name}).items()) == list(expected.items())


def test_recipe_changes_and_removes_limits(corpus):
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


def test_term_lists_enable_their_rules_and_are_relative_to_the_recipe(corpus):
    (corpus.folder / "words.txt").write_text("moss\nfern\n")
    step = {"filter": {"zyda1": {"lists": {"sexual": "words.txt"}, "sexual": 3}}}
    rules = rules_of(corpus, step)
    assert rules["zyda1.sexual"] == (None, 3)
    assert rules["zyda1.sexual_share"] == (None, 0.001)
    assert "zyda1.zh_porn" not in rules
    recipe = corpus.load(documents=[step])
    (planned_step,) = plan_documents(recipe, "best").steps
    assert planned_step.measures[0].terms == {"sexual": ("moss", "fern")}
    assert recipe.as_written["documents"] == [step]  # the relative path


def test_steps_of_a_source_replace_the_steps_of_the_recipe(corpus):
    corpus.recipe["sources"][0]["documents"] = []
    corpus.recipe["sources"][1]["documents"] = [{"measure": "code"}]
    recipe = corpus.load(documents=[{"filter": "fineweb"}])
    assert [len(plan_documents(recipe, source.name).steps) for source in recipe.sources] == [0, 1, 1]
    assert not bounds_of(recipe, "middle")
    assert len(bounds_of(recipe, "worst")) == 4
    columns = [column.name for column in published_columns(recipe.steps_of("middle"))]
    assert columns == [f"code_{name}" for name in RULE_SETS["code"].rules]


def test_written_recipe_is_read_with_the_same_steps(corpus, tmp_path):
    steps = [
        {"clean": {"unicode": {"uncurl_quotes": False}, "runs": {"-": 9}}},
        {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
        {"clean": {"pii": {"mail": True, "phone": "", "card": "[a card]"}}},
        {"filter": {"gopher-quality": {"words": [50, None], "hashes": None}, "c4": {}}},
        {"measure": ["fineweb"]},
        {"filter": "steps:shouting"},
    ]
    recipe = corpus.load(documents=steps, keep_text=True)
    written = tmp_path / "again.yaml"
    written.write_text(yaml.safe_dump(recipe.as_written | {"storage": "out"}))
    assert load_recipe(str(written)).documents == recipe.documents
    small = {name: corpus.recipe[name] for name in ("name", "storage", "tokenizer", "sources")}
    jsonschema.validate(small | {"documents": recipe.as_written["documents"]}, yaml.safe_load(schema()))
