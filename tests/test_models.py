"""Quality models: both forms, against plain transformers, and what classify makes of them."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_corpus import QUALITY, build_here, kept_names, prose, rows, table_of, write_rows
from transformers import AutoModel, AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

from tasks import models
from tasks.artifacts import corpus_folder

TEXTS = [prose(f"text {i}", words) for i, words in enumerate((3, 40, 200, 1, 90, 400))] + [
    "",
    "def f(x): return {x: [1]}",
]


def test_nvidia_form_says_what_transformers_says_one_text_at_a_time():
    config = json.loads((QUALITY / "config.json").read_text())
    state = load_file(QUALITY / "model.safetensors")
    tokenizer = AutoTokenizer.from_pretrained(QUALITY)
    backbone = AutoModel.from_config(DebertaV2Config.from_pretrained(QUALITY / "backbone")).eval()
    backbone.load_state_dict(
        {n.removeprefix("model."): w.float() for n, w in state.items() if n.startswith("model.")}
    )
    labels, probabilities = models.Classifier(str(QUALITY), 128).predict(TEXTS)
    for text, label, probability in zip(TEXTS, labels, probabilities, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=128, return_tensors="pt")
        with torch.inference_mode():
            hidden = backbone(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            ).last_hidden_state
        logits = hidden[:, 0] @ state["fc.weight"].float().T + state["fc.bias"].float()
        expected = torch.softmax(logits, dim=1)[0]
        assert label == config["id2label"][str(int(expected.argmax()))]
        assert probability == pytest.approx(float(expected.max()), abs=1e-4)


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    """Save a small random model in the form of HuggingFaceFW/fineweb-edu-classifier."""
    folder = tmp_path_factory.mktemp("regression")
    torch.manual_seed(3)
    config = DebertaV2Config(vocab_size=4096, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=32, num_labels=1, pad_token_id=1, initializer_range=1.0)  # fmt: skip
    DebertaV2ForSequenceClassification(config).eval().save_pretrained(folder)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(folder)
    return folder


def test_fineweb_edu_form_says_what_transformers_says(regression):
    tokenizer = AutoTokenizer.from_pretrained(regression)
    model = DebertaV2ForSequenceClassification.from_pretrained(regression).eval()
    scores, int_scores = models.Classifier(str(regression), 64).score(TEXTS)
    for text, score, int_score in zip(TEXTS, scores, int_scores, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        with torch.inference_mode():
            expected = float(
                model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0, 0]
            )
        assert score == pytest.approx(expected, abs=1e-3)
        assert int_score == round(max(0, min(expected, 5)))


def test_batches_hold_texts_of_like_lengths_and_every_text_once():
    lengths = np.random.default_rng(0).integers(1, 1000, 5000).tolist()
    found = list(models.batches(lengths, 4096))
    assert sorted(i for batch in found for i in batch) == list(range(5000))
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
    assert padded / sum(lengths) < 1.05


def test_windows_of_texts_are_answered_in_the_order_of_the_texts(monkeypatch):
    classifier = models.Classifier(str(QUALITY), 64)
    texts = [*TEXTS, *(prose(f"more {i}", 10 * i) for i in range(20))]
    whole = classifier.logits(texts)
    monkeypatch.setattr(models, "WINDOW", 3)
    assert np.allclose(classifier.logits(texts), whole, atol=1e-4)
    assert classifier.logits([]).shape == (0, 3)


def test_cut_text_gives_the_same_tokens_as_the_whole():
    classifier = models.Classifier(str(QUALITY), 32)
    texts = ["  \n " * 2000 + prose("after much space", 100), prose("long", 5000)]
    whole = classifier.encode_all(texts)
    assert classifier.encode(texts) == whole


def recipe_with(corpus, source, **changes):
    sources = [s if s["name"] != source else {**s, **changes} for s in corpus.recipe["sources"]]
    return corpus.load(sources=sources)


def test_only_documents_with_a_kept_label_stay_and_say_so(corpus):
    classify = {"model": str(QUALITY), "keep": ["High"], "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify)
    ledger = build_here(recipe)
    kept = table_of(recipe, "worst")
    assert all(row["quality_pred"] == "High" and 1 / 3 <= row["quality_prob"] <= 1 for row in kept)
    gone = [row for row in table_of(recipe, "removed") if row["reason"] == "quality"]
    assert len(kept) + len(gone) == ledger.of("classify", "worst").documents == 3


def test_scores_of_a_regression_model_can_be_named_by_keep(corpus, regression):
    classify = {"model": str(regression), "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify, keep="int_score >= 3 or score < 1e9")
    build_here(recipe)
    assert {"score", "int_score"} <= set(table_of(recipe, "worst")[0])


def test_label_that_the_model_does_not_have_is_found_before_any_work(corpus):
    recipe = recipe_with(corpus, "worst", classify={"model": str(QUALITY), "keep": ["Good"]})
    with pytest.raises(
        ValueError, match=r"source worst: classify\.keep: .* has no label Good; there are High, Medium, Low"
    ):
        build_here(recipe)


def test_documents_are_classified_once_whatever_happens_beside_them(corpus, monkeypatch):
    classify = {"model": str(QUALITY), "keep": ["High", "Medium", "Low"], "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify)
    build_here(recipe)
    before = kept_names(recipe)
    seen = []
    predict = models.Classifier.predict
    monkeypatch.setattr(
        models.Classifier, "predict", lambda self, texts: seen.extend(texts) or predict(self, texts)
    )
    write_rows(corpus.folder / "in/best-2.parquet", rows(copy_of_worst=prose("worst alone")))
    build_here(recipe)
    assert kept_names(recipe) == before - {"worst_alone"} | {"copy_of_worst"}
    assert seen == []
    (corpus.folder / "in/best-2.parquet").unlink()
    build_here(recipe)
    assert kept_names(recipe) == before
    assert seen == []
    assert corpus_folder(recipe).files("work/classify/worst")
