"""Test rule values and stop words per language, from files in FineWeb-2's format, and languages as components."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from language_models import WORDS, train_model
from small_corpus import REPOSITORY, TOKENIZER, build_here

from zyda_flows.flows.command.try_recipe import limits
from zyda_flows.tasks.documents import rules as rules_stage
from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.bounds import broken_rules, first_broken
from zyda_flows.tasks.documents.language_rules import (
    LanguageRules,
    check_written_with_spaces,
    read_language_rules,
)
from zyda_flows.tasks.documents.planning import bounds_of
from zyda_flows.tasks.documents.steps.rules import RuleFiltering
from zyda_flows.tasks.documents.steps.step import StepOfRecipe
from zyda_flows.tasks.errors import BadInput, BadRecipe, NotConserved
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.steps.language_id import LanguageId, LanguageIdStep
from zyda_flows.tasks.recipe.steps.rules import FilterStep

ORACLES = REPOSITORY / "tests/data/published"

PUBLISHED = """
dup_line_frac: 0.263
dup_n_grams:
- - 5
  - 0.141
- - 10
  - 0.098
language_score: 0.821
line_punct_thr: 0.0
max_avg_word_length: 15
max_non_alpha_words_ratio: 0.774
min_avg_word_length: 0
new_line_ratio: 0.152
stopwords:
- der
- "f\\xFCr"
top_n_grams:
- - 2
  - 0.169
"""
# datatrove's name of a reason, and ours.
REASONS = {
    "dup_line_frac": "duplicate_lines", "line_punct_ratio": "line_punctuation", "gopher_short_doc": "words",
    "char_dup_ratio": "duplicate_line_characters", "gopher_below_alpha_threshold": "alphabetic_words",
    "gopher_enough_stop_words": "stop_words",
    **{f"top_{n}_gram": f"top_{n}_grams" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"duplicate_{n}_grams" for n in range(5, 11)},
}  # fmt: skip
DE, EN = "deu_Latn", "eng_Latn"
FILES = {
    DE: {
        "language_score": 0.6,
        "stopwords": ["der", "die", "und"],
        "words": [10, 30],
        "line_punct_thr": 0,
        "max_avg_word_length": 9,
    },
    EN: {
        "language_score": 0.7,
        "stopwords": ["the", "of", "is"],
        "words": [20, 40],
        "line_punct_thr": 0.5,
        "min_avg_word_length": 1,
        "new_line_ratio": 0.5,
    },
}
# Repetition removes no document: the texts repeat the same few words.
LENIENT = {
    f"{kind}_{n}_grams": [None, 9]
    for kind, ns in (("top", (2, 3, 4)), ("duplicate", range(5, 11)))
    for n in ns
}
LENIENT |= {"duplicate_lines": None, "duplicate_line_characters": None, "new_lines": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a recipe for texts in two languages, of 5 to 44 words, with and without a final full stop."""
    folder = tmp_path_factory.mktemp("languages")
    train_model(folder, (DE, EN))
    rows = [
        {"text": " ".join((words * 9)[: 5 + n]) + end, "is": label, "words": 5 + n, "ends": bool(end)}
        for label, words in zip((DE, EN), WORDS.values(), strict=True)
        for n in range(40)
        for end in ("", " .")
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "configs").mkdir()
    for name, content in FILES.items():
        (folder / f"configs/{name}.yml").write_text(yaml.safe_dump(content))
    write_recipe(folder, "recipe", {"languages": "configs/*.yml", **LENIENT})
    return folder


def write_recipe(folder, name, rules, keep="configs/*.yml", *, language_id=True, before=(), component=True):
    language_steps = [{"language_id": {"model": "model.bin", "keep": keep}}] if language_id else []
    recipe = {
        "name": name, "storage": "out", "tokenizer": str(TOKENIZER), "dedup": {"exact": "text", "scope": "global"},
        "documents": [*before, *language_steps, {"filter": {"fineweb-2": rules}}],
        "sources": [{"name": "rows", "files": "rows.jsonl"}],
    }  # fmt: skip
    if component:
        recipe["sources"][0]["component"] = {"language": True, "folders": True}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    return str(folder / f"{name}.yaml")


def expected_reason(row):
    """Return the reason by which the files remove a row, or None if the row is kept."""
    low, high = FILES[row["is"]]["words"]
    if row["is"] == EN and not row["ends"]:
        return "fineweb-2.line_punctuation"  # the share of lines with final punctuation is 0, below 0.5
    return None if low <= row["words"] <= high else "fineweb-2.words"


@pytest.fixture(scope="module")
def built(folder):
    build_here(load_recipe(str(folder / "recipe.yaml")))
    return folder / "out/recipe/published"


def test_documents_are_filtered_by_the_values_of_their_language(folder, built):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    removed = {row["doc_id"] % 2**20: row for row in pq.read_table(built / "removed").to_pylist()}
    kept = {row["doc_id"] % 2**20 for row in pq.read_table(built / "rows", columns=["doc_id"]).to_pylist()}
    assert kept | removed.keys() == {*range(len(rows))}
    reasons = {place: removed[place]["reason"] if place in removed else None for place in range(len(rows))}
    rule_reasons = {
        place: reason for place, reason in reasons.items() if not str(reason).startswith("language_id")
    }
    assert len(rule_reasons) > 100  # the model recognises most texts
    assert rule_reasons == {place: expected_reason(rows[place]) for place in rule_reasons}
    thresholds = {
        (rows[row_number]["is"], row["threshold"])
        for row_number, row in removed.items()
        if row["reason"] == "fineweb-2.words"
    }
    assert thresholds == {(DE, 10), (DE, 30), (EN, 20), (EN, 40)}


def test_each_language_is_a_component_with_a_folder(built):
    kept = {label: pq.read_table(built / f"rows/{label}").to_pylist() for label in (DE, EN)}
    assert all({row["language"] for row in rows} == {label} for label, rows in kept.items())
    assert {row["language_script"] for rows in kept.values() for row in rows} == {"Latn"}
    counted = pq.read_table(built / "components.parquet").to_pylist()
    assert {row["component"] for row in counted} == {DE, EN}
    assert sum(row["documents"] for row in counted) == 160
    published = {row["component"]: row["documents"] for row in counted if row["stage"] is None}
    assert published == {label: len(rows) for label, rows in kept.items()}


def test_trial_shows_the_values_of_each_language(folder):
    trial = try_steps(load_recipe(str(folder / "recipe.yaml")), 160)
    shown = limits(trial.rules["fineweb-2.words"])
    assert shown == f"{DE} at least 10 and at most 30, {EN} at least 20 and at most 40 is kept"


def test_published_configuration_file_is_read(tmp_path):
    (tmp_path / "deu_Latn.yml").write_text(PUBLISHED)
    rules = read_language_rules("keep", [str(tmp_path / "deu_Latn.yml")])["deu_Latn"]
    assert (rules.score, rules.stop_words) == (0.821, ("der", "für"))
    assert rules.bounds == {
        "duplicate_lines": (None, 0.263), "duplicate_5_grams": (None, 0.141), "duplicate_10_grams": (None, 0.098),
        "line_punctuation": (0.0, None), "mean_word_length": (None, 15), "alphabetic_words": (0.774, None),
        "new_lines": (None, 0.152), "top_2_grams": (None, 0.169),
    }  # fmt: skip


def test_reasons_in_many_languages_equal_datatrove():
    oracle = pq.read_table(ORACLES / "oracles/fineweb2.parquet")
    keep = dict.fromkeys(oracle.column("language").unique().to_pylist(), 0.5)
    language_step = LanguageIdStep(language_id=LanguageId(model="any.bin", keep=keep))
    filter_step = FilterStep(filter={"fineweb-2": {"languages": str(ORACLES / "fineweb2/*.yml")}})
    step = StepOfRecipe(2, filter_step, (language_step,))
    planned, bounds = RuleFiltering.plan(step), [*RuleFiltering.bounds_of(step)]
    texts, n = oracle.column("text").combine_chunks().cast(pa.large_string()), len(oracle)
    documents = Documents(
        texts, texts, {"1.language": oracle.column("language").combine_chunks()},
        is_changed=np.zeros(n, np.bool_), remaining=np.ones(n, np.bool_),
    )  # fmt: skip
    for part in planned.parts([planned]):
        part(documents)
    reasons = [
        bounds[i].rule if i >= 0 else None for i in first_broken(broken_rules(documents.columns, bounds))
    ]
    assert reasons == [
        reason and f"fineweb-2.{REASONS[reason]}" for reason in oracle.column("reason").to_pylist()
    ]


def test_value_in_the_recipe_overrides_the_files(folder):
    path = write_recipe(folder, "own", {"languages": "configs/*.yml", "words": [7, None], "stop_words": None})
    bounds = {bound.rule: bound for bound in bounds_of(load_recipe(path), "rows")}
    words, new_lines = bounds["fineweb-2.words"], bounds["fineweb-2.new_lines"]
    assert ((words.low, words.high), words.by_language) == ((7, None), {})
    assert new_lines.by_language == {
        DE: (None, 0.3),
        EN: (None, 0.5),
    }  # German has the default of the rule set
    assert "fineweb-2.stop_words" not in bounds


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("words", "a mapping is expected"), ("dup_lines: 1", "unknown rule dup_lines"),
        ("dup_line_frac: many", "dup_line_frac: a number is expected"), ("top_n_grams: 3", "pairs of a number"),
        ("top_n_grams: [[12, 0.1]]", "pairs of a number"), ("stopwords: [der, no]", "a list of words is expected"),
        ("language_score: 7", "a probability is expected"), ("words: 3", "two values are expected"),
        ("a: [", "expected the node content"), ("stopwords: [" + "a, " * 1001 + "]", "it has 1,001 words"),
        ("top_n_grams: [[.inf, 1]]", "pairs of a number"), ("max_avg_word_length: .inf", "a number is expected"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("stopwords: []", "keep: the file of deu_Latn has no language_score"),
    ],
)  # fmt: skip
def test_invalid_language_file_raises(folder, tmp_path, content, message):
    (tmp_path / "deu_Latn.yml").write_text(content)
    keep = str(tmp_path / "deu_Latn.yml")
    path = write_recipe(folder, "wrong", {"languages": keep}, keep)
    with pytest.raises(BadRecipe, match=message):
        build_here(load_recipe(path))


@pytest.mark.parametrize(
    ("rules", "more", "message"),
    [
        ({}, {}, "fineweb-2.languages: files are expected"),
        ({"languages": 7}, {}, "fineweb-2.languages: files are expected"),
        ({"languages": "gone/*.yml"}, {}, "fineweb-2.languages: no file matches"),
        ({"languages": f"configs/{DE}.yml"}, {}, f"there is no file for {EN}, which language_id keeps"),
        ({"languages": "configs/*.yml"}, {"keep": {}}, "add a step language_id with `keep`"),
        (
            {"languages": "configs/*.yml"},
            {"language_id": False, "component": False},
            "add a step language_id",
        ),
        ({"languages": "configs/*.yml"}, {"language_id": False}, "source rows needs a step language_id"),
        ({"languages": ["configs/*.yml", "again/*.yml"]}, {}, f"a second file for {DE}"),
        ({"languages": "configs/*.yml", "lists": {}}, {}, "unknown rule lists"),
    ],
)
def test_language_rules_with_missing_settings_raise(folder, rules, more, message):
    (folder / "again").mkdir(exist_ok=True)
    (folder / f"again/{DE}.yml").write_text("{}")
    with pytest.raises(BadRecipe, match=message):
        build_here(load_recipe(write_recipe(folder, "wrong", rules, **more)))


@pytest.mark.parametrize(
    ("labels", "are_refused"),
    [
        ("ja zh th lo km my bo wuu yue", True),  # all such labels of lid.176
        (
            "ja_Jpan jpn_Jpan jpn_Hira zho_Hans yue_Hant cmn_Hani lao_Laoo khm_Khmr mya_Mymr bod_Tibt dzo_Tibt",
            True,
        ),
        ("jpn zho cmn tha khm mya bod zh-Hans zh_CN ja-JP __label__ja JA", True),
        ("zho_Latn nan_Latn_tailo ko kor_Hang vi en deu_Latn hi ar he mt jam_Latn", False),
    ],
)
def test_languages_without_spaces_are_recognised_by_the_labels_of_all_models(labels, are_refused):
    for label in labels.split():
        rules = {label: LanguageRules(language=label)}
        if not are_refused:
            check_written_with_spaces("rules", rules)
            continue
        with pytest.raises(BadInput, match=f"{label} is written without spaces between words"):
            check_written_with_spaces("rules", rules)


@pytest.mark.parametrize("label", ["tha_Thai", "ja"])
def test_recipe_with_a_language_without_spaces_raises(folder, tmp_path, label):
    train_model(tmp_path, (label, EN))
    (tmp_path / f"{label}.yml").write_text("language_score: 0.9")
    path = write_recipe(folder, "thai", {"languages": str(tmp_path / "*.yml")}, str(tmp_path / "*.yml"))
    with open(path) as file:
        recipe = file.read().replace("model.bin", str(tmp_path / "model.bin"))
    with open(path, "w") as file:
        file.write(recipe)
    with pytest.raises(BadRecipe, match=f"{label} is written without spaces between words"):
        build_here(load_recipe(path))


def test_values_that_change_during_a_build_raise(folder, monkeypatch):
    def without_word_rule(recipe, source):
        return tuple(bound for bound in bounds_of(recipe, source) if bound.rule != "fineweb-2.words")

    monkeypatch.setattr(rules_stage, "bounds_of", without_word_rule)
    path = write_recipe(folder, "changing", {"languages": "configs/*.yml", **LENIENT})
    with pytest.raises(NotConserved, match="the result of a rule has changed since it was ingested"):
        build_here(load_recipe(path))
