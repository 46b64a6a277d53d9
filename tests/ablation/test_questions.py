"""Questions of the nine evaluation sets as texts, and their scores."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import SHARED

from zyda_flows.tasks.ablation.questions import LAYOUTS, QuestionEncoder, layout_of, read_questions, scores
from zyda_flows.tasks.errors import BadInput

ROWS = {
    "arc": (
        {"id": "1", "question": "Why?", "choices": {"text": ["Yes", "No"], "label": ["A", "B"]}, "answerKey": "B"},
        [("Question: Why?\nAnswer:", " Yes"), ("Question: Why?\nAnswer:", " No")], 1,
    ),
    "openbookqa": (
        {"question_stem": "A stem is", "choices": {"text": ["long", "red"], "label": ["1", "2"]}, "answerKey": "1"},
        [("A stem is", " long"), ("A stem is", " red")], 0,
    ),
    "mmlu": (
        {"question": "Why? ", "subject": "s", "choices": ["a", "b"], "answer": 1},
        [("Question: Why?\nAnswer:", " a"), ("Question: Why?\nAnswer:", " b")], 1,
    ),
    "hellaswag": (
        {"activity_label": "Roof", "ctx_a": "A man [step] sits.", "ctx_b": "he", "endings": ["runs.", "[title] sings."], "label": "0"},
        [("Roof: A man sits. He", " runs."), ("Roof: A man sits. He", " sings.")], 0,
    ),
    "winogrande": (
        {"sentence": "So _ always won.", "option1": "Sarah", "option2": "Maria", "answer": "2"},
        [("So Sarah", " always won."), ("So Maria", " always won.")], 1,
    ),
    "piqa": (
        {"goal": "Sit.", "sol1": "Chair.", "sol2": "Roof.", "label": 0},
        [("Question: Sit.\nAnswer:", " Chair."), ("Question: Sit.\nAnswer:", " Roof.")], 0,
    ),
    "boolq": (
        {"question": "is it", "answer": True, "passage": "It is."},
        [("It is.\nQuestion: is it?\nAnswer:", " no"), ("It is.\nQuestion: is it?\nAnswer:", " yes")], 1,
    ),
    "sciq": (
        {"question": "Who?", "distractor1": "a", "distractor2": "b", "distractor3": "c", "correct_answer": "d", "support": ""},
        [("Question: Who?\nAnswer:", f" {letter}") for letter in "abcd"], 3,
    ),
}  # fmt: skip


@pytest.fixture
def encoder(tokenizer):
    return QuestionEncoder(tokenizer, 0)


@pytest.mark.parametrize("name", ROWS)
def test_texts_of_a_question(name):
    row, options, gold = ROWS[name]
    question = LAYOUTS[layout_of("a", "b", {*row})](row)
    assert (question.options, question.gold) == (options, gold)


@pytest.mark.parametrize("path", sorted((SHARED / "evals").glob("*.parquet")), ids=lambda path: path.stem)
def test_published_sets_are_read(path, encoder):
    options = read_questions("set", str(path), 20, encoder)
    assert len({*options.column("question").to_pylist()}) == 20
    assert options.column("is_gold").to_pylist().count(True) == 20
    contexts = [encoder.tokenizer.decode(ids[1:]) for ids in options.column("context").to_pylist()]
    assert all(contexts)


def test_the_ids_of_both_parts_are_those_of_the_whole_text(encoder):
    context, continuation = encoder.pair("Question: Why?\nAnswer:", " Because")
    whole = encoder.tokenizer.encode("Question: Why?\nAnswer: Because", add_special_tokens=False).ids
    assert context[0] == 0
    assert [*context[1:], *continuation] == whole
    assert encoder.tokenizer.decode(continuation) == " Because"


def test_a_file_without_a_column(tmp_path, encoder):
    path = tmp_path / "piqa.parquet"
    row = {name: value for name, value in ROWS["piqa"][0].items() if name != "sol2"}
    pq.write_table(pa.Table.from_pylist([row]), path)
    with pytest.raises(BadInput) as error:
        read_questions("piqa", str(path), 20, encoder)
    assert str(error.value) == (
        f"source evaluation piqa, file {path}: the column sol2 is missing; a set with goal, sol1, sol2, label is expected"
    )


def test_a_row_without_an_answer(tmp_path, encoder):
    path = tmp_path / "piqa.jsonl"
    rows = [ROWS["piqa"][0], {**ROWS["piqa"][0], "label": -1}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(BadInput, match=rf"file {path}, row 1 \(line 2\): .*the answer is option -1, of 2"):
        read_questions("piqa", str(path), 20, encoder)


def test_scores():
    options = pa.table(
        {
            "question": [0, 0, 1, 1, 1],
            "n_bytes": [2, 10, 4, 4, 8],
            "is_gold": [False, True, True, False, False],
        }
    )
    found = scores(options, np.array([3.0, 8.0, 4.0, 5.0, 7.0]))
    assert found["accuracy_sum"] == 0.5  # 3 < 8: wrong; 4 is the smallest: right
    assert found["accuracy"] == 0.5  # 1.5 > 0.8: right; 1.0 > 7/8: wrong
    assert found["gold"] == pytest.approx((8 + 4) / np.log(2) / 14)
