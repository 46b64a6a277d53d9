"""Heads on the embeddings of an encoder of sentences, compared with plain transformers and NumPy."""

import itertools
import json
import shutil

import numpy as np
import pytest
from small_corpus import QUALITY, build_here, prose, table_of

from zyda_flows.tasks.errors import BadInput, BadRequest
from zyda_flows.tasks.quality.forms import judged_model, load_model
from zyda_flows.tasks.quality.training.training import judge_of
from zyda_flows.tasks.recipe.judges import Judge

TEXTS = [prose(f"text {i}", words) for i, words in enumerate((3, 40, 200, 1, 90))] + [
    "",
    "def f(x): return x",
]
WIDTH, INNER = 32, 7


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Save a small random encoder of sentences, which reads at most 64 tokens."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(5)
    config = BertConfig(vocab_size=4096, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, pad_token_id=1, initializer_range=1.0,
                        max_position_embeddings=64)  # fmt: skip
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


def outputs_of(encoder, weights, text, *, pooling="mean", normalize=False, most=64):
    """Return the outputs of the head for one text, from plain transformers and NumPy."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(encoder)(
        text, truncation=True, max_length=most, return_tensors="pt"
    )
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

    model = judged_model(judge := Judge(name="a", model=str(folder), **fields))
    answers = load_model(model, judge.max_tokens, "cpu")(pa.chunked_array([TEXTS]))
    table = pa.table(answers, schema=pa.schema(model.added_columns))
    return dict(zip(table.column_names, table.columns, strict=True))


def softmax(outputs):
    return np.exp(outputs) / np.exp(outputs).sum()


def sigmoid(outputs):
    return 1 / (1 + np.exp(-outputs))


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
        expected = sigmoid(outputs) if multi_label else softmax(outputs)
        assert [columns[f"a_{label}"][i].as_py() for label in labels] == pytest.approx(expected, abs=6e-4)
        assert columns["a_pred"][i].as_py() == labels[int(expected.argmax())]


HEADS = {
    "level": {"activation": "tanh"},
    "topic": {"labels": ["law", "code", "news"]},
    "toxic": {"labels": ["toxic"], "multi_label": True},
}
LAYERS_OF_HEADS = {"level": layers(1), "topic": layers(3, INNER), "toxic": layers(1, INNER + 1)}
WEIGHTS_OF_HEADS = {
    f"{head}.{name}": value for head, weights in LAYERS_OF_HEADS.items() for name, value in weights.items()
}


def test_several_heads_equal_numpy_on_single_texts(encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", WEIGHTS_OF_HEADS, heads=HEADS, normalize=True)
    columns = columns_of(folder, probabilities=True)
    assert [*columns] == [
        "a_level_score", "a_level_int_score",
        "a_topic_pred", "a_topic_prob", "a_topic_law", "a_topic_code", "a_topic_news",
        "a_toxic_pred", "a_toxic_prob", "a_toxic_toxic",
    ]  # fmt: skip
    for i, text in enumerate(TEXTS):
        answers = {name: column[i].as_py() for name, column in columns.items()}
        outputs = {
            head: outputs_of(encoder, weights, text, normalize=True)
            for head, weights in LAYERS_OF_HEADS.items()
        }
        topics = softmax(outputs["topic"])
        assert answers["a_level_score"] == pytest.approx(outputs["level"][0], abs=2e-3)
        assert answers["a_level_int_score"] == round(min(max(outputs["level"][0], 0), 5))
        assert [answers[f"a_topic_{label}"] for label in HEADS["topic"]["labels"]] == pytest.approx(
            topics, abs=6e-4
        )
        assert answers["a_topic_pred"] == HEADS["topic"]["labels"][int(topics.argmax())]
        assert answers["a_topic_prob"] == pytest.approx(topics.max(), abs=6e-4)
        assert answers["a_toxic_prob"] == answers["a_toxic_toxic"]
        assert answers["a_toxic_prob"] == pytest.approx(sigmoid(outputs["toxic"])[0], abs=6e-4)


def test_heads_in_the_number_format_of_gpus_are_close_to_those_in_float32(encoder, tmp_path):

    from zyda_flows.tasks.quality import torch_models

    folder = with_head(encoder, tmp_path / "model", WEIGHTS_OF_HEADS, heads=HEADS, normalize=True)
    classifier = torch_models.Classifier(folder, 64, "cpu")
    exact = classifier.logits(TEXTS)
    torch_models.to_bfloat16(classifier.network)
    assert {str(weights.dtype) for weights in classifier.network.encoder.model.parameters()} == {
        "torch.bfloat16"
    }
    rounded = classifier.logits(TEXTS)
    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.1


def test_texts_are_cut_as_the_encoder_of_sentences_states(encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", layers(1))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    expected = [outputs_of(encoder, layers(1), text, most=8)[0] for text in TEXTS]
    assert columns_of(folder)["a_score"].to_pylist() == pytest.approx(expected, abs=2e-3)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": "8"}')
    with pytest.raises(
        BadInput, match=r"sentence_bert_config\.json: max_seq_length is '8', expected a number of tokens"
    ):
        judged_model(Judge(name="a", model=str(folder)))


def test_training_from_a_model_with_several_heads_is_one_error(encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", WEIGHTS_OF_HEADS, heads=HEADS)
    with pytest.raises(
        BadRequest, match=r"--judge e: \S+ has several heads \(level, topic, toxic\); run it in a"
    ):
        judge_of(("e", str(folder)), 64)


def test_head_judges_documents_of_a_build(corpus, encoder, tmp_path):
    folder = with_head(encoder, tmp_path / "model", layers(1), normalize=True)
    several = with_head(encoder, tmp_path / "several", WEIGHTS_OF_HEADS, heads=HEADS)
    judge = {"name": "head", "model": str(folder), "max_tokens": 64, "keep": "head_score < 99"}
    heads = judge | {
        "name": "heads",
        "model": str(several),
        "keep": "heads_level_score > -99 AND heads_toxic_prob <= 1",
    }
    recipe = corpus.load(judges=[judge, heads])
    build_here(recipe)
    rows = table_of(recipe, "best")
    assert rows
    assert all(
        row["head_score"] is not None and row["heads_topic_pred"] in HEADS["topic"]["labels"] for row in rows
    )


def test_vectors_are_those_of_single_texts_and_heads_share_them(corpus, encoder, tmp_path, monkeypatch):
    from zyda_flows.tasks.quality import torch_models

    read, vectors = [], torch_models.Embedder.vectors
    monkeypatch.setattr(
        torch_models.Embedder,
        "vectors",
        lambda self, texts: (read.append(len(texts)), vectors(self, texts))[1],
    )
    first = with_head(encoder, tmp_path / "first", layers(1), normalize=True)
    second = with_head(encoder, tmp_path / "second", layers(3), labels=["x", "y", "z"], normalize=True)
    judges = [
        {"name": name, "model": str(folder), "max_tokens": 64}
        for name, folder in (("a", first), ("b", second))
    ]
    recipe = corpus.load(judges=judges, publish_vectors="b")
    build_here(recipe)
    apart = corpus.load(judges=judges[:1], name="apart")
    build_here(apart)
    rows = {row["doc_id"]: row for source in recipe.sources for row in table_of(recipe, source.name)}
    identity = {"0.weight": np.eye(WIDTH, dtype=np.float32), "0.bias": np.zeros(WIDTH, np.float32)}
    published = table_of(recipe, "vectors/b")
    assert {row["doc_id"] for row in published} == {*rows}
    for row in published:
        exact = outputs_of(encoder, identity, rows[row["doc_id"]]["text"], normalize=True)
        assert np.abs(exact - row["scale"] * np.array(row["vector"])).max() < 0.51 * row["scale"]
    assert sum(read) == sum(len(table_of(recipe, source.name)) for source in recipe.sources) + sum(
        row["stage"] == "filter" for row in table_of(recipe, "removed")
    )
    scores = {
        row["doc_id"]: row["a_score"] for source in apart.sources for row in table_of(apart, source.name)
    }
    assert scores == {doc_id: row["a_score"] for doc_id, row in rows.items()}


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ({}, {}, "expected 0.weight, 0.bias, 2.weight and so on for at most 4 layers, got no weights"),
        (layers(2), {}, r"0.weight: expected the shape \[1, 32\] and as many biases, got \[2, 32\] and \[2\]"),
        (layers(1, INNER) | {"0.bias": np.zeros(6, np.float32)}, {}, "0.weight: expected the shape .*, got"),
        ({f"l{name}": value for name, value in layers(1).items()}, {}, "got l0.bias, l0.weight"),
        (layers(1), {"pool": "mean"}, r"head\.json: pool: Extra inputs are not permitted"),
        (layers(1), {"pooling": "max"}, r"head\.json: pooling: Input should be 'mean' or 'cls'"),
        (layers(2), {"labels": ["X", "x"]}, "two of its results would be the column a_X"),
        (layers(1), {"labels": ["x"]}, r"head\.json: .*a single label needs multi_label"),
        (layers(2), {"labels": ["x", "x"]}, r"head\.json: .*two labels are equal"),
        (layers(1), {"multi_label": True}, r"head\.json: .*multi_label needs labels"),
        (layers(1), {"heads": {"b": {}}}, r"expected b\.0\.weight, b\.0\.bias, b\.2\.weight and so on .*, got no weights"),
        (layers(1), {"heads": {"b": {}}, "labels": []}, r"head\.json: .*with heads, each head has labels of its own"),
        (layers(1), {"heads": {"B c": {}}}, r"head\.json: heads\.B c"),
        (WEIGHTS_OF_HEADS, {"heads": {"level": {}, "topic": HEADS["topic"]}}, r"toxic\.0\.\w+ belongs to none of the heads of head\.json"),
        (WEIGHTS_OF_HEADS, {"heads": HEADS | {"topic": {}}}, r"topic\.2\.weight: expected the shape \[1, 7\] .*, got \[3, 7\] and \[3\]"),
        ({f"b.{k}": v for k, v in layers(2).items()} | {f"b_x.{k}": v for k, v in layers(1).items()},
         {"heads": {"b": {"labels": ["x_score", "y"]}, "b_x": {}}}, "two of its results would be the column a_b_x_score"),
    ],
)  # fmt: skip
def test_invalid_heads_are_one_error(encoder, tmp_path, weights, settings, message):
    folder = with_head(encoder, tmp_path / "model", weights, **settings)
    with pytest.raises(BadInput, match=rf"^judge a\.model: \S+:? .*{message}") as raised:
        judged_model(Judge(name="a", model=str(folder), probabilities="labels" in str(settings)))
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
