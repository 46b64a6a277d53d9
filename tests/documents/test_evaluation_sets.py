"""Test the reading of evaluation sets: their formats, columns, templates and errors."""

import gzip
import json

import pytest
import zstandard
from small_corpus import build_here

from zyda_flows.tasks.documents.evaluation_sets import items_of, plan_set
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.recipe.evaluation import EvaluationSet

FORMS = {
    "letters": {"question": "q", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"},
    "endings": {"ctx": "q", "endings": ["x", "y"], "label": "1"},
    "blank": {"sentence": "q _", "option1": "x", "option2": "y", "answer": "2"},
    "solutions": {"goal": "q", "sol1": "x", "sol2": "y", "label": 1},
    "words": {"question": "q", "answer": "y"},
    "aliases": {"question": "q", "answer": {"value": "y", "aliases": ["z"]}},
    "spans": {"question": "q", "answers": {"text": ["y", "z"], "answer_start": [1, 2]}},
}


@pytest.mark.parametrize("form", FORMS)
def test_question_and_answer_are_recognised_by_the_columns_of_known_sets(tmp_path, form):
    path = tmp_path / "set.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(FORMS[form]).encode() + b"\n\n"))
    (item,) = items_of(plan_set("a", EvaluationSet(files=[str(path)])))
    assert (item.question, item.answer) == (("q y", None) if form == "blank" else ("q", "y"))


SECRET = [
    {"ctx": "q", "endings": ["x", "y"], "label": ""}, {"goal": "q", "sol1": "x", "sol2": "y", "label": -1},
    {"question": "q", "answer": None}, {"question": "q", "choices": {"text": ["x"], "label": ["A"]}, "answerKey": ""},
]  # fmt: skip


@pytest.mark.parametrize("row", SECRET, ids=["endings", "solutions", "words", "letters"])
def test_set_with_secret_answers_raises(tmp_path, row):
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(BadInput, match="none of its 1 items has an answer"):
        list(items_of(plan_set("a", EvaluationSet(files=[str(path)]))))


@pytest.mark.parametrize("answer", [1, "1", "B", 1.0], ids=repr)
def test_correct_choice_is_given_by_position_or_letter(tmp_path, answer):
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"question": "q", "choices": ["x", "y"], "answer": answer}))
    (item,) = items_of(plan_set("a", EvaluationSet(files=[str(path)])))
    assert item.answer == "y"


def test_all_zstd_frames_of_a_set_are_read_and_a_truncated_frame_raises(tmp_path):
    path = tmp_path / "set.jsonl.zst"
    lines = [json.dumps({"question": f"q{n}", "answer": "y"}).encode() + b"\n" for n in range(2)]
    content = b"".join(map(zstandard.compress, lines))
    path.write_bytes(content)
    assert [item.question for item in items_of(plan_set("a", EvaluationSet(files=[str(path)])))] == [
        "q0",
        "q1",
    ]
    path.write_bytes(content[:-3])
    with pytest.raises(BadInput, match="cannot be read as Parquet or JSON Lines"):
        list(items_of(plan_set("a", EvaluationSet(files=[str(path)]))))


def test_templates_select_question_and_answer_of_other_columns(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"task": "q", "options": ["x", "y"], "right": 1}')
    settings = EvaluationSet(files=[str(path)], question="{{ task }}", answer="{{ options[right] }}")
    assert [(item.question, item.answer) for item in items_of(plan_set("a", settings))] == [("q", "y")]


BAD = {
    "missing file": (None, {}, r"set.jsonl"),
    "invalid JSON": ("\n{", {}, "line 1: invalid JSON"),
    "list in place of an object": ("[1]", {}, "line 0: not a JSON object"),
    "empty file": ("\n", {}, "it has no items"),
    "unknown columns": ('{"a": "q", "b": "y"}', {}, "over its columns: a, b"),
    "no answers": ('{"question": "q", "answer": ""}', {}, "none of its 1 items has an answer"),
    "only short items": (
        '{"question": "Why?", "answer": "No."}',
        {},
        "an answer and at least 6 words",
    ),
    "unknown choice": (
        '{"question": "q", "choices": ["x"], "answer": 4}',
        {},
        "row 0: the template of its question or answer fails",
    ),
    "unknown column": ('{"a": "q"}', {"question": "{{ b }}"}, "'b' is undefined"),
    "template that calls methods": ('{"a": "q"}', {"question": "{{ a.__class__.mro() }}"}, "is unsafe"),
}


@pytest.mark.parametrize("fault", BAD)
def test_unreadable_set_raises_with_its_name_and_row(corpus, fault):
    content, settings, expected = BAD[fault]
    path = corpus.folder / "set.jsonl"
    if content is not None:
        path.write_text(content)
    recipe = corpus.load(documents=[{"decontaminate": {"sets": {"mine": {"files": str(path), **settings}}}}])
    with pytest.raises((BadRecipe, BadInput), match="mine") as error:
        build_here(recipe)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "sets"), ({"sets": {}}, "sets"), ({"sets": {"a": "x"}, "share": 0}, "share"),
        ({"sets": {"a": {"files": "x", "answer": "{{ b }}"}}}, "give `question`, too"),
        ({"sets": {"a/b": "x"}}, "a/b"), ({"sets": {"a": "x"}, "action": "drop"}, "action"),
    ],
)  # fmt: skip
def test_invalid_decontaminate_step_raises(corpus, settings, expected):
    with pytest.raises(BadRecipe, match=expected):
        corpus.load(documents=[{"decontaminate": settings}])


def test_set_name_with_two_meanings_raises(corpus):
    step = {"decontaminate": {"sets": {"a": "x"}}}
    with pytest.raises(BadRecipe, match="decontaminate is given twice"):
        corpus.load(documents=[step, step])
    sources = [{"name": name, "files": f"in/{name}-0.*"} for name in ("best", "worst")]
    sources[1]["documents"] = [{"decontaminate": {"sets": {"a": "y"}}}]
    with pytest.raises(BadRecipe, match="the evaluation set a of source worst differs"):
        corpus.load(sources=sources, documents=[step])


def test_set_that_changes_during_a_build_raises(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"question": "q", "answer": "y"}')
    planned = plan_set("a", EvaluationSet(files=[str(path)]))
    path.write_text('{"question": "q", "answer": "z"}')
    with pytest.raises(BadInput, match="changed while it was read"):
        list(items_of(planned))
