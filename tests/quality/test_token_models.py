"""Judges of token ids: their answers are those of plain Python to the last bit, and their files are checked."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from small_corpus import SOURCES, build_here, prose, table_of
from token_judges import plain_features, plain_outputs, random_judge

from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.quality import token_models
from zyda_flows.tasks.quality.forms import digest_of_model, form_of, judged_model, load_model
from zyda_flows.tasks.quality.integer_layers import exp
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.textkernels.pooling import pooled

TEXTS = [
    "",
    "one",
    "naïve café 漢字 🙂 " * 30,
    prose("long", 2000),
    *(row["text"] for row in SOURCES["middle.jsonl.gz"]),
]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return random_judge(tmp_path_factory.mktemp("judges") / "hq")


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return random_judge(tmp_path_factory.mktemp("judges") / "score", labels=())


def answers_of(folder, texts, **fields):
    model = judged_model(Judge(name="a", model=str(folder), **fields))
    return dict(zip(model.added_columns, load_model(model, 8)(pa.chunked_array([texts])), strict=True))


@given(st.lists(st.lists(st.integers(0, 20), max_size=60), max_size=5), st.integers(1, 256), st.data())
def test_features_are_those_of_plain_python(documents, window, data):
    table = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-128, 128, (21, 3)).astype(np.int8)
    table[0] = -128
    ids = np.array([token for document in documents for token in document], np.uint32)
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    expected = [plain_features(document, table, window) for document in documents]
    assert pooled(ids, ends, table, window).tolist() == expected


def test_longest_window_of_the_smallest_numbers_does_not_overflow():
    table = np.full((1, 2), -128, np.int8)
    features = pooled(np.zeros(256, np.uint32), np.array([0, 256]), table, 256)
    assert features.tolist() == [[-128 * 256] * 6]
    with pytest.raises(ValueError, match="token 1: expected ids below 1"):
        pooled(np.ones(1, np.uint32), np.array([0, 1]), table, 256)
    with pytest.raises(ValueError, match="window: expected 1 to 256 tokens, got 257"):
        pooled(np.zeros(1, np.uint32), np.array([0, 1]), table, 257)


def test_answers_are_those_of_plain_python(judge, scorer):
    scores = answers_of(scorer, TEXTS)
    expected = [plain_outputs(scorer, text)[0] for text in TEXTS]
    (score, whole) = scores.values()
    assert score.to_pylist() == [float(np.float32(value)) for value in expected]
    assert whole.to_pylist() == [round(min(max(value, 0), 5)) for value in expected]
    columns = {field.name: column for field, column in answers_of(judge, TEXTS, probabilities=True).items()}
    assert [*columns] == ["a_pred", "a_prob", "a_cc", "a_hq"]
    outputs = np.array([plain_outputs(judge, text) for text in TEXTS])
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(columns["a_hq"], probabilities[:, 1], rtol=1e-6)
    assert columns["a_pred"].to_pylist() == [("cc", "hq")[place] for place in outputs.argmax(axis=1)]
    assert 0 < columns["a_pred"].to_pylist().count("hq") < len(TEXTS)


def test_powers_are_those_of_numpy():
    numbers = -np.linspace(0, 650, 10_001)
    np.testing.assert_allclose(exp(numbers), np.exp(numbers), rtol=1e-12)
    assert exp(np.array([0.0, -1e6])).tolist() == [1.0, pytest.approx(0, abs=1e-300)]


def test_answer_for_a_text_does_not_depend_on_other_texts(judge):
    together = answers_of(judge, TEXTS)
    for number, text in enumerate(TEXTS):
        assert [column[0] for column in answers_of(judge, [text]).values()] == [
            column[number] for column in together.values()
        ]
    assert [len(column) for column in answers_of(judge, pa.array([], pa.string())).values()] == [0, 0]


def test_build_publishes_the_answers(corpus, judge):
    recipe = corpus.load(
        judges=[{"name": "own", "model": str(judge), "probabilities": True, "keep": "own_hq > 0.5"}]
    )
    build_here(recipe)
    rows = [row for source in ("best", "middle", "worst") for row in table_of(recipe, source)]
    assert rows
    for row in rows:
        cc, hq = plain_outputs(judge, row["text"])
        assert row["own_hq"] == pytest.approx(1 / (1 + np.exp(cc - hq)), rel=1e-6)
        assert row["own_hq"] > 0.5
    assert any(row["stage"] == "keep_own" for row in table_of(recipe, "removed"))


def test_model_is_known_by_its_folder_and_hashed_without_its_card(judge, tmp_path):
    copy = shutil.copytree(judge, tmp_path / "copy")
    assert form_of(str(copy)) == "tokens"
    (copy / "README.md").write_text("A card.")
    assert digest_of_model(str(copy)) == digest_of_model(str(judge))
    (copy / "judge.json").write_text((copy / "judge.json").read_text() + " ")
    assert digest_of_model(str(copy)) != digest_of_model(str(judge))


def test_model_of_the_hub_is_known_after_its_download(judge, tmp_path, monkeypatch):
    cached = shutil.copytree(judge, tmp_path / "snapshots/0123abc")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(cached))
    model = judged_model(Judge(name="a", model="lab/judge"))
    assert (model.form, model.revision, model.labels) == ("tokens", "0123abc", ("cc", "hq"))
    assert len(load_model(model, 8)(pa.chunked_array([TEXTS]))[0]) == len(TEXTS)


def with_config(folder, **changes):
    path = folder / "judge.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def with_tensors(folder, **changes):
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: array for name, array in (tensors | changes).items() if array is not None}
    save_file(tensors, folder / "model.safetensors")


def cut(folder, name, size):
    (folder / name).write_bytes((folder / name).read_bytes()[:size])


FAULTS = {
    "model.safetensors: Error while deserializing header: incomplete": lambda folder: cut(folder, "model.safetensors", -1),
    "model.safetensors: Error while deserializing header": lambda folder: cut(folder, "model.safetensors", 4),
    "it has no tokenizer.json; expected a folder with": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer.json is not the tokenizer with which": lambda folder: with_config(folder, tokenizer="0" * 20),
    "tokenizer.json cannot be loaded": lambda folder: cut(folder, "tokenizer.json", 1000),
    "judge.json is no JSON": lambda folder: cut(folder, "judge.json", 10),
    "judge.json is no JSON: maximum": lambda folder: (folder / "judge.json").write_text("[" * 100_000),
    "judge.json: form: Input should be": lambda folder: with_config(folder, form="pickle"),
    "judge.json: code: Extra inputs": lambda folder: with_config(folder, code="import os"),
    "judge.json: window: Input should be less": lambda folder: with_config(folder, window=1 << 40),
    "1.weight: expected int16 of the shape \\[3, 5\\], got": lambda folder: with_config(folder, labels=["a", "b", "c"]),
    "table: expected int8 of the shape \\[4096, 4\\], got int8 of \\[4095, 4\\]": lambda folder: with_tensors(
        folder, table=load_file(folder / "model.safetensors")["table"][:-1]
    ),
    "table: expected int8 .* got float64 of \\[0, 0\\]": lambda folder: with_tensors(folder, table=None),
    "0.bias: its numbers are not all finite": lambda folder: with_tensors(folder, **{"0.bias": np.full(5, np.nan)}),
    "1.scale: its numbers are not all finite": lambda folder: with_tensors(folder, **{"1.scale": np.array([np.inf])}),
    "expected the tensors 0.weight, 0.scale and 0.bias, for at most 4": lambda folder: with_tensors(folder, other=np.ones(1)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_or_hostile_model_is_one_error(judge, tmp_path, fault):
    damaged = shutil.copytree(judge, tmp_path / "damaged")
    FAULTS[fault](damaged)
    with pytest.raises(BadInput, match=f"^judge a.model: {damaged}: .*{fault}") as raised:
        judged_model(Judge(name="a", model=str(damaged)))
    assert len(raised.value.faults) == 1


def test_large_files_are_refused_before_they_are_read(judge):
    with (
        replaced_limits(model_bytes=100),
        pytest.raises(ZydaError, match=r"model\.safetensors has more than 100 bytes"),
    ):
        judged_model(Judge(name="a", model=str(judge)))
    with pytest.raises(token_models.Fault, match=r"it has no judge\.json"):
        token_models.check(judge.parent)
