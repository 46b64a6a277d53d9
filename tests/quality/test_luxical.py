"""Vectors in the form of Luxical: they are those of plain Python, and their cosines follow those of the teacher."""

import json
import math
import random
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file
from small_corpus import QUALITY, TOKENIZER, prose, write_rows, zyda_here
from token_judges import ids_of
from tokenizers import Tokenizer

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.quality import token_models
from zyda_flows.tasks.quality.forms import judged_model, load_model
from zyda_flows.tasks.recipe.judges import Judge

TOPICS = [prose(f"topic {number}", 40).split() for number in range(4)]


def document(number):
    """Return a text of mostly one of four topics, and its score."""
    chance = random.Random(number)
    words = [
        chance.choice(TOPICS[number % 4] if chance.random() < 0.8 else TOPICS[chance.randrange(4)])
        for _ in range(80)
    ]
    return {"text": " ".join(words), "score": number % 4 + chance.random() / 10}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Save a small random encoder of sentences."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(5)
    config = BertConfig(vocab_size=4096, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, pad_token_id=1, initializer_range=1.0)  # fmt: skip
    BertModel(config, add_pooling_layer=False).eval().save_pretrained(folder)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(folder)
    return folder


def train(folder, *arguments):
    return zyda_here(
        "train-judge", str(folder), *map(str, arguments), "--form", "luxical", "--target", "edu=score"
    )


@pytest.fixture(scope="module")
def judge(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("luxical")
    write_rows(folder / "t.parquet", [document(number) for number in range(400)])
    done = train(
        folder / "judge",
        folder / "t.parquet",
        "--teacher",
        encoder,
        "--tokenizer",
        TOKENIZER,
        "--repeats",
        "1",
    )
    assert done.returncode == 0, done.stderr
    return folder / "judge"


def grams_of(ids):
    return [tuple(ids[i:j]) for i in range(len(ids)) for j in range(i + 1, min(i + 5, len(ids)) + 1)]


def hash_of(gram):
    hashed = 0
    for token in gram:
        mixed = (hashed + token + 1) * 0x9E3779B97F4A7C15 % (1 << 64)
        hashed = mixed ^ (mixed >> 32)
    return hashed


def plain_vector(judge, text):
    """Return the vector of a text by plain Python; n-grams whose beginnings are unknown do not count."""
    tensors, ids = load_file(judge / "model.safetensors"), ids_of(judge, text)
    places = {hashed: place for place, hashed in enumerate(tensors["ngrams"].tolist())}
    sums = np.zeros(tensors["rows"].shape[1], object)
    for gram, count in Counter(grams_of(ids)).items():
        known = [places.get(hash_of(gram[:length])) for length in range(1, len(gram) + 1)]
        if None not in known:
            sums += count * int(tensors["idf"][known[-1]]) * tensors["rows"][known[-1]].astype(object)
    hidden = [max(0, total) for total in sums]
    hidden = [round(total / max(1, *hidden) * (1 << 15)) for total in hidden]
    outputs = [sum(int(a) * b for a, b in zip(row, hidden, strict=True)) for row in tensors["dense"]]
    return [round(total / max(1, *map(abs, outputs)) * 127) for total in outputs]


def vectors_of(judge, texts):
    model = token_models.read(judge)
    return model.body.vectors(model.tokens(pa.array(texts, pa.large_string())))


TEXTS = [
    "",
    "one",
    "naïve café 漢字 🙂 " * 30,
    *(document(number)["text"] for number in (400, 401)),
    prose("other", 300),
]


def test_vectors_are_those_of_plain_python(judge):
    vectors = vectors_of(judge, TEXTS)
    assert vectors.dtype == np.int8
    assert vectors.shape == (len(TEXTS), 192)
    assert vectors.tolist() == [plain_vector(judge, text) for text in TEXTS]
    assert not vectors[0].any()
    for number, text in enumerate(TEXTS):
        assert vectors_of(judge, [text])[0].tolist() == vectors[number].tolist()


def test_answers_are_a_linear_head_on_vectors_of_length_one(judge):
    tensors = load_file(judge / "model.safetensors")
    model = judged_model(Judge(name="a", model=str(judge)))
    scores = load_model(model, 8)(pa.chunked_array([TEXTS]))[0].to_pylist()
    for text, score in zip(TEXTS, scores, strict=True):
        vector = plain_vector(judge, text)
        length = math.sqrt(max(1, sum(number * number for number in vector)))
        unit = [round(number * 16384 / length) for number in vector]
        total = sum(a * b for a, b in zip(tensors["0.weight"][0].tolist(), unit, strict=True))
        assert score == np.float32(total * tensors["0.scale"][0] + tensors["0.bias"][0])


def test_cosines_follow_those_of_the_teacher(judge, tmp_path, monkeypatch):
    from zyda_flows.tasks.quality.training import luxical_training, targets

    monkeypatch.setattr(luxical_training, "BATCH", 32)
    rows = [document(number) for number in range(400)]
    teacher = np.eye(8, dtype=np.float32)[[number % 4 for number in range(400)]]
    target = targets.TargetColumn("edu", (), np.array([row["score"] for row in rows]))
    texts, tokenizer = (
        pa.array([row["text"] for row in rows], pa.large_string()),
        Tokenizer.from_file(str(TOKENIZER)),
    )
    folder = luxical_training.train(tmp_path / "topics", texts, target, 0, tokenizer, teacher)
    new = range(400, 460)  # not in the training
    vectors = vectors_of(folder, [document(number)["text"] for number in new]).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs, is_same = np.triu_indices(len(new), 1), np.equal.outer(np.arange(60) % 4, np.arange(60) % 4)
    assert np.corrcoef((vectors @ vectors.T)[pairs], is_same[pairs])[0, 1] > 0.8


def test_vectors_of_a_teacher_are_those_of_plain_transformers(encoder):
    import torch
    from transformers import AutoModel, AutoTokenizer

    from zyda_flows.tasks.quality.training.luxical_training import teacher_vectors

    model, tokenizer = AutoModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)
    found = teacher_vectors(encoder, pa.array(TEXTS[1:], pa.large_string()))
    for text, vector in zip(TEXTS[1:], found, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**inputs).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-4)


def test_card_and_config_name_the_form(judge):
    card, config = (judge / "README.md").read_text(), json.loads((judge / "judge.json").read_text())
    assert config["form"] == "luxical"
    assert "Form: luxical." in card
    assert float(card.split("| score | edu | ")[1].split(" ")[0]) > 0.8


def with_tensors(folder, **changes):
    save_file(load_file(folder / "model.safetensors") | changes, folder / "model.safetensors")


def first(folder, name, count):
    return {name: np.ascontiguousarray(load_file(folder / "model.safetensors")[name][:count])}


FAULTS = {
    "idf: expected uint8 of the shape": lambda folder: with_tensors(folder, **first(folder, "idf", 5)),
    "rows: expected int8 of the shape": lambda folder: with_tensors(folder, **first(folder, "rows", 5)),
    r"dense: expected int16 of the shape \[192, 96\]": lambda folder: with_tensors(folder, **first(folder, "dense", 5)),
    "ngrams: expected uint64": lambda folder: with_tensors(folder, ngrams=np.zeros((2, 2), np.int64)),
    "ngrams: two n-grams are equal": lambda folder: with_tensors(
        folder, ngrams=np.zeros(len(load_file(folder / "model.safetensors")["ngrams"]), np.uint64)
    ),
    "expected at most 4,194,304 n-grams": lambda folder: with_tensors(folder, ngrams=np.zeros((1 << 22) + 1, np.uint64)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_or_hostile_model_is_one_error(judge, tmp_path, fault):
    damaged = shutil.copytree(judge, tmp_path / "damaged")
    FAULTS[fault](damaged)
    with pytest.raises(BadInput, match=f"^judge a.model: {damaged}: {fault}"):
        judged_model(Judge(name="a", model=str(damaged)))


def test_faults_of_the_teacher_are_one_error_each(judge, tmp_path):
    table, tokenizer = judge.parent / "t.parquet", ("--tokenizer", TOKENIZER)
    assert "form luxical: it needs --teacher" in train(tmp_path / "a", table, *tokenizer).stderr
    done = train(tmp_path / "a", table, *tokenizer, "--teacher", "./nothing")
    assert done.stderr.endswith("zyda: --teacher: ./nothing cannot be loaded: there is no folder ./nothing\n")
    assert not (tmp_path / "a").exists()
