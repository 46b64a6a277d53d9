"""Models of similar meaning in integers: their vectors are those of Python's numbers, and each fault is one error."""

import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pytest
from language_models import train_model
from meaning_models import DIMS, texts_of_packages
from safetensors.numpy import load_file, save_file
from small_corpus import prose
from token_judges import ids_of, plain_features, random_judge

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.quality.similarity_models import UNIT, load_similarity, mean_of, similarity_model

TEXTS = ["", "one", "naïve café 漢字 🙂 " * 30, prose("long", 2000), prose("short", 9)]


@pytest.fixture
def judge(tmp_path):
    return random_judge(tmp_path / "judge")


def model_in(folder):
    return similarity_model("dedup.semantic.model", str(folder), None)


def vectors_of(folder, texts):
    found = load_similarity(model_in(folder), None)(pa.chunked_array([texts]))
    assert not found.windows_left_out.any()
    return found.vectors


def plain_vector(folder, text):
    """Return the mean of the embeddings of all tokens, with the length UNIT, by Python's whole numbers."""
    tensors = load_file(folder / "model.safetensors")
    mean = plain_features(ids_of(folder, text), tensors["table"], 7)[: tensors["table"].shape[1]]
    length = math.sqrt(sum(number * number for number in mean))
    return [round(number * UNIT / length) if length else 0 for number in mean]


def test_vectors_are_the_means_of_all_embeddings_with_the_length_unit(judge):
    assert model_in(judge).dims == 4
    assert model_in(judge).precision("cuda") == model_in(judge).precision(None) == "int8"
    assert vectors_of(judge, TEXTS).tolist() == [plain_vector(judge, text) for text in TEXTS]


def test_chunks_and_no_texts_have_vectors(judge):
    vectors = load_similarity(model_in(judge), None)
    chunks = pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], pa.string())
    assert vectors(chunks).vectors.tolist() == vectors_of(judge, TEXTS).tolist()
    nothing = vectors(pa.chunked_array([], pa.string()))
    assert (nothing.vectors.shape, nothing.windows_left_out.shape) == ((0, 4), (0,))


def test_judges_with_other_heads_on_one_body_have_the_same_digest_and_vectors(judge, tmp_path):
    other = shutil.copytree(judge, tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    tensors["1.bias"] += 1
    save_file(tensors, other / "model.safetensors")
    assert model_in(other).digest == model_in(judge).digest
    assert vectors_of(other, TEXTS).tolist() == vectors_of(judge, TEXTS).tolist()
    tensors["table"][5, 0] ^= 1
    save_file(tensors, other / "model.safetensors")
    assert model_in(other).digest != model_in(judge).digest


def test_static_model_finds_the_other_half_of_a_text(static_model):
    texts = [text for text in texts_of_packages() if len(text) > 2000][::4]
    halves = [text[: len(text) // 2] for text in texts] + [text[len(text) // 2 :] for text in texts]
    model = model_in(static_model)
    assert model.dims == DIMS
    vectors = (vectors_of(static_model, halves) - mean_of(model)).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.split(vectors, 2)
    ranks = ((first @ second.T) > (first * second).sum(axis=1)[:, None]).sum(axis=1)
    assert np.median(ranks) <= 1  # of some dozen


def test_mean_is_that_of_the_file_and_changes_the_digest(judge):
    before = model_in(judge)
    assert mean_of(before).tolist() == [0] * 4
    mean = np.array([0.5, -0.25, 0, 1 / 3], np.float32)
    save_file({"mean": mean}, judge / "mean.safetensors")
    assert mean_of(model_in(judge)).tolist() == [UNIT // 2, -UNIT // 4, 0, round(UNIT / 3)]
    assert model_in(judge).digest != before.digest
    with pytest.raises(BadInput, match="its files have changed since the build began"):
        mean_of(before)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mean": np.zeros(3, np.float32)}, r"float32 of the shape \[4\], got float32 of \[3\]"),
        ({"mean": np.zeros(4)}, r"got float64 of \[4\]"),
        ({"means": np.zeros(4, np.float32)}, "got no such tensor"),
        ({"mean": np.array([0, np.nan, 0, 0], np.float32)}, "a longer or infinite one"),
        ({"mean": np.ones(4, np.float32)}, "a longer or infinite one"),
        ({"mean": np.zeros(100_000, np.float32)}, "has 400,"),
        (None, "copy the file again"),
    ],
)
def test_invalid_means_are_one_error(judge, tensors, message):
    (judge / "mean.safetensors").write_bytes(b"cut")
    if tensors is not None:
        save_file(tensors, judge / "mean.safetensors")
    with pytest.raises(BadInput, match=rf"^dedup\.semantic\.model: \S+: mean\.safetensors.*{message}"):
        model_in(judge)


def test_model_whose_files_changed_is_not_loaded(judge):
    model = model_in(judge)
    tensors = load_file(judge / "model.safetensors")
    tensors["table"][5, 0] ^= 1
    save_file(tensors, judge / "model.safetensors")
    with pytest.raises(BadInput, match=r"judge: its files have changed since the build began"):
        load_similarity(model, None)


def test_models_without_vectors_are_one_error(tmp_path):
    def expect(name, message):
        with pytest.raises(BadInput, match=message) as raised:
            similarity_model("dedup.semantic.model", str(name), None)
        assert str(raised.value).startswith(f"dedup.semantic.model: {name}")
        assert len(str(raised.value).splitlines()) == 1

    expect(train_model(tmp_path), "a model of fasttext has no vectors; expected an encoder of sentences, or")
    (tmp_path / "model.arpa").write_text("\\data\\\n")
    expect(tmp_path / "model.arpa", "a model of kenlm has no vectors")
    (empty := tmp_path / "empty").mkdir()
    expect(empty, r"it has no config\.json, or is a model of another kind")
    expect(tmp_path / "missing", "cannot be loaded: there is no folder")


def test_faults_of_files_are_one_error(judge):
    def expect(message):
        with pytest.raises(BadInput, match=rf"^dedup\.semantic\.model: \S+: {message}"):
            model_in(judge)

    with replaced_limits(model_dims=3):
        expect("its vectors have 4 numbers, expected at most 3")
    config = (judge / "judge.json").read_text()
    (judge / "judge.json").write_text(json.dumps(json.loads(config) | {"form": "other"}))
    expect(r"judge\.json: form: ")
    (judge / "judge.json").write_text(config)
    (judge / "model.safetensors").write_bytes(b"cut")
    expect(r"model\.safetensors: .*copy the file again")
    (judge / "model.safetensors").rename(judge / "pytorch_model.bin")
    expect(r"it has no model\.safetensors")
