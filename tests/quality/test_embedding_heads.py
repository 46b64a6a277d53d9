"""Heads on the embeddings of an encoder of sentences, compared with plain transformers and NumPy."""

import itertools
import json
import shutil

import numpy as np
import pytest
from small_corpus import QUALITY, build_here, prose, table_of

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.quality.forms import judged_model, load_model
from zyda_flows.tasks.recipe.judges import Judge

TEXTS = [prose(f"text {i}", words) for i, words in enumerate((3, 40, 200, 1, 90))] + [
    "",
    "def f(x): return x",
]
WIDTH, INNER = 32, 7


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Save a small random encoder of sentences."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(5)
    config = BertConfig(vocab_size=4096, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, pad_token_id=1, initializer_range=1.0)  # fmt: skip
    BertModel(config, add_pooling_layer=False).eval().save_pretrained(folder)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(folder)
    return folder


def with_head(encoder, folder, weights, **settings):
    """Copy the encoder and add a head; return the folder."""
    from safetensors.numpy import save_file

    shutil.copytree(encoder, folder, dirs_exist_ok=True)
    save_file(weights, folder / "head.safetensors")
    (folder / "head.json").write_text(json.dumps(settings))
    return folder


def layers(outputs, inner=None):
    numbers = np.random.default_rng(2)
    sizes = [WIDTH, *([inner] if inner else []), outputs]
    return {
        f"{2 * i}.{kind}": numbers.standard_normal((rows, width) if kind == "weight" else rows).astype(
            np.float32
        )
        for i, (width, rows) in enumerate(itertools.pairwise(sizes))
        for kind in ("weight", "bias")
    }


def outputs_of(encoder, weights, text, *, pooling="mean", normalize=False):
    """Return the outputs of the head for one text, from plain transformers and NumPy."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(encoder)(text, truncation=True, max_length=64, return_tensors="pt")
    with torch.inference_mode():
        model = AutoModel.from_pretrained(encoder, add_pooling_layer=False).eval()
        hidden = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    values = hidden.last_hidden_state[0].numpy().astype(np.float64)
    embedding = values.mean(axis=0) if pooling == "mean" else values[0]
    if normalize:
        embedding = embedding / np.linalg.norm(embedding)
    for name in sorted(weights):
        if name.endswith("weight"):
            embedding = np.maximum(embedding, 0) if name != "0.weight" else embedding
            embedding = weights[name] @ embedding + weights[name.replace("weight", "bias")]
    return embedding


def columns_of(folder, **fields):
    import pyarrow as pa

    model = judged_model(Judge(name="a", model=str(folder), max_tokens=64, **fields))
    answers = load_model(model, 64, "cpu")(pa.chunked_array([TEXTS]))
    return dict(zip((field.name for field in model.added_columns), answers, strict=True))


@pytest.mark.parametrize("settings", [{}, {"pooling": "cls"}, {"normalize": True}])
def test_score_of_a_head_equals_numpy_on_single_texts(encoder, tmp_path, settings):
    weights = layers(1, INNER)
    columns = columns_of(with_head(encoder, tmp_path / "model", weights, **settings))
    expected = [outputs_of(encoder, weights, text, **settings)[0] for text in TEXTS]
    assert columns["a_score"].to_pylist() == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("multi_label", [False, True])
def test_probabilities_of_a_linear_head_equal_numpy_on_single_texts(encoder, tmp_path, multi_label):
    weights, labels = layers(3), ["low", "mid", "high"]
    folder = with_head(
        encoder, tmp_path / "model", weights, labels=labels, normalize=True, multi_label=multi_label
    )
    columns = columns_of(folder, probabilities=True)
    for i, text in enumerate(TEXTS):
        outputs = outputs_of(encoder, weights, text, normalize=True)
        expected = 1 / (1 + np.exp(-outputs)) if multi_label else np.exp(outputs) / np.exp(outputs).sum()
        assert [columns[f"a_{label}"][i].as_py() for label in labels] == pytest.approx(expected, abs=6e-4)
        assert columns["a_pred"][i].as_py() == labels[int(expected.argmax())]


def test_head_judges_documents_of_a_build(corpus, encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", layers(1), normalize=True)
    recipe = corpus.load(
        judges=[{"name": "head", "model": str(folder), "max_tokens": 64, "keep": "head_score < 99"}]
    )
    build_here(recipe)
    assert all(row["head_score"] is not None for row in table_of(recipe, "best"))


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ({}, {}, "expected 0.weight, 0.bias, 2.weight and so on for at most 4 layers, got no weights"),
        (layers(2), {}, r"0.weight: expected the shape \[1, 32\] and as many biases, got \[2, 32\] and \[2\]"),
        (layers(1, INNER) | {"0.bias": np.zeros(6, np.float32)}, {}, "0.weight: expected the shape .*, got"),
        ({f"l{name}": value for name, value in layers(1).items()}, {}, "got l0.bias, l0.weight"),
        (layers(1), {"pool": "mean"}, r"head\.json: pool: Extra inputs are not permitted"),
        (layers(1), {"pooling": "max"}, r"head\.json: pooling: Input should be 'mean' or 'cls'"),
        (layers(2), {"labels": ["x", "x"]}, "two of its results would be the column a_x"),
    ],
)  # fmt: skip
def test_invalid_heads_are_one_error(encoder, tmp_path, weights, settings, message):
    folder = with_head(encoder, tmp_path / "model", weights, **settings)
    with pytest.raises(BadInput, match=rf"^judge a\.model: \S+:? .*{message}") as raised:
        judged_model(Judge(name="a", model=str(folder), probabilities="labels" in settings))
    assert len(str(raised.value).splitlines()) == 1


def test_incomplete_heads_are_one_error(encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", layers(1))
    (folder / "head.safetensors").write_bytes(b"cut")
    with pytest.raises(BadInput, match="cannot be loaded"):
        judged_model(Judge(name="a", model=str(folder)))
    (folder / "head.safetensors").unlink()
    with pytest.raises(BadInput, match=r"it has only one of head\.json and head\.safetensors"):
        judged_model(Judge(name="a", model=str(folder)))


def test_encoder_of_another_shape_is_one_error(encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", layers(1))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    with pytest.raises(
        BadInput, match=r"weights encoder\.layer\.1\S+ in model\.safetensors are missing, or of another"
    ):
        judged_model(Judge(name="a", model=str(folder)))
