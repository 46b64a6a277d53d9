"""Quality models: both forms compared with plain transformers, and their use by classify.

Torch and transformers are imported in the tests: each process of a test run imports this file.
"""

import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import QUALITY, build_here, kept_names, prose, rows, table_of, write_rows

from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.lookup.verify_and_clean import strangers_in
from zyda_flows.tasks.quality.forms import Model, cached_model, digest_of_model, judged_model, load_model
from zyda_flows.tasks.recipe.judges import Judge

TEXTS = [prose(f"text {i}", words) for i, words in enumerate((3, 40, 200, 1, 90, 400))] + [
    "",
    "def f(x): return {x: [1]}",
]


def columns_of(classifier, texts):
    return [column.to_pylist() for column in classifier.answers(texts)]


def test_nvidia_form_equals_transformers_on_single_texts():
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModel, AutoTokenizer, DebertaV2Config

    from zyda_flows.tasks.quality import torch_models as models

    config = json.loads((QUALITY / "config.json").read_text())
    state = load_file(QUALITY / "model.safetensors")
    tokenizer = AutoTokenizer.from_pretrained(QUALITY)
    backbone = AutoModel.from_config(DebertaV2Config.from_pretrained(QUALITY / "backbone")).eval()
    backbone.load_state_dict(
        {n.removeprefix("model."): w.float() for n, w in state.items() if n.startswith("model.")}
    )
    classifier = models.Classifier(QUALITY, 128, every_label=True)
    labels, probabilities, *each = columns_of(classifier, TEXTS)
    for text, label, probability, every in zip(TEXTS, labels, probabilities, np.array(each).T, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=128, return_tensors="pt")
        with torch.inference_mode():
            hidden = backbone(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            ).last_hidden_state
        logits = hidden[:, 0] @ state["fc.weight"].float().T + state["fc.bias"].float()
        expected = torch.softmax(logits, dim=1)[0]
        assert label == config["id2label"][str(int(expected.argmax()))]
        assert probability == pytest.approx(float(expected.max()), abs=6e-4)
        assert every.tolist() == pytest.approx(expected.tolist(), abs=6e-4)
    assert classifier.heads[0].labels == tuple(config["id2label"][str(i)] for i in range(3))
    assert columns_of(models.Classifier(QUALITY, 128), TEXTS) == [labels, probabilities]


def test_labels_with_probabilities_of_their_own_equal_the_pipeline_of_transformers(tmp_path):
    import torch
    from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification, pipeline

    from zyda_flows.tasks.quality import torch_models as models

    torch.manual_seed(4)
    config = DebertaV2Config(vocab_size=4096, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=32, num_labels=4, pad_token_id=1, initializer_range=1.0,
                             problem_type="multi_label_classification")  # fmt: skip
    DebertaV2ForSequenceClassification(config).eval().save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(tmp_path)
    theirs = pipeline("text-classification", str(tmp_path), top_k=None)
    classifier = models.Classifier(tmp_path, 64, "cpu", every_label=True)
    labels, probabilities, *each = columns_of(classifier, TEXTS)
    columns = dict(zip(classifier.heads[0].labels, each, strict=True))
    for i, text in enumerate(TEXTS):
        expected = {one["label"]: one["score"] for one in theirs([text], truncation=True, max_length=64)[0]}
        assert {label: column[i] for label, column in columns.items()} == pytest.approx(expected, abs=6e-4)
        assert expected[labels[i]] == max(expected.values()) == pytest.approx(probabilities[i], abs=6e-4)
    assert sum(max(column) for column in columns.values()) > 1.1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_labels": 1}, "it returns scores and has no labels; remove `probabilities`"),
        ({"num_labels": 3, "problem_type": "regression"}, "3 outputs that are scores .*, expected one"),
        ({"id2label": {"0": "Prob", "1": "cc"}}, "two of its results would be the column a_prob"),
    ],
)
def test_answers_that_cannot_be_columns_are_one_error(tmp_path, fields, message):
    from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

    config = DebertaV2Config(vocab_size=4096, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=8, pad_token_id=1, **fields)  # fmt: skip
    DebertaV2ForSequenceClassification(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=rf"^judge a\.model: \S+: .*{message}"):
        judged_model(Judge(name="a", model=str(tmp_path), probabilities=True))


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    """Save a small random model in the form of HuggingFaceFW/fineweb-edu-classifier."""
    import torch
    from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

    folder = tmp_path_factory.mktemp("regression")
    torch.manual_seed(3)
    config = DebertaV2Config(vocab_size=4096, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=32, num_labels=1, pad_token_id=1, initializer_range=1.0)  # fmt: skip
    DebertaV2ForSequenceClassification(config).eval().save_pretrained(folder)
    AutoTokenizer.from_pretrained(QUALITY).save_pretrained(folder)
    return folder


def test_fineweb_edu_form_equals_transformers(regression):
    import torch
    from transformers import AutoTokenizer, DebertaV2ForSequenceClassification

    from zyda_flows.tasks.quality import torch_models as models

    tokenizer = AutoTokenizer.from_pretrained(regression)
    model = DebertaV2ForSequenceClassification.from_pretrained(regression).eval()
    scores, int_scores = columns_of(models.Classifier(regression, 64), TEXTS)
    for text, score, int_score in zip(TEXTS, scores, int_scores, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        with torch.inference_mode():
            expected = float(
                model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0, 0]
            )
        assert score == pytest.approx(expected, abs=1e-3)
        assert int_score == round(max(0, min(expected, 5)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_have_similar_lengths_and_every_text_once(device):
    from zyda_flows.tasks.quality import torch_models as models

    lengths = np.random.default_rng(0).lognormal(5.5, 1, models.WINDOW).clip(1, 1024).astype(int).tolist()
    batches = list(models.batches(lengths, models.TOKENS_PER_BATCH[device]))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert (
        max(len(batch) * max(lengths[i] for i in batch) for batch in batches)
        <= models.TOKENS_PER_BATCH[device]
    )
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded / sum(lengths) < 1.05


def test_answers_of_windows_are_in_the_order_of_the_texts():
    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(QUALITY, 64)
    texts = [*TEXTS, *(prose(f"more {i}", 10 * i) for i in range(20))]
    whole = classifier.logits(texts)
    assert np.allclose(classifier.logits(texts, window=3), whole, atol=1e-4)
    assert classifier.logits([]).shape == (0, 3)


def test_batches_that_exceed_gpu_memory_are_halved_with_a_warning(monkeypatch):
    import torch

    from zyda_flows.tasks.quality import torch_models as models

    classifier, batch_sizes, warnings = models.Classifier(QUALITY, 64), [], []
    texts = [*TEXTS, *(prose(f"more {i}", 10 * i) for i in range(40))]
    expected, network = classifier.logits(texts), classifier.network

    def short_of_memory(ids, mask):
        batch_sizes.append(len(ids))
        if ids.numel() > 300:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return network(ids, mask)

    monkeypatch.setattr(classifier, "network", short_of_memory)
    monkeypatch.setattr(models, "warn", warnings.append)
    assert np.allclose(classifier.logits(texts), expected, atol=1e-4)
    assert f"the memory of the GPU is too small for a batch of {batch_sizes[0]} texts" in warnings[0]
    assert len(warnings) < len(batch_sizes)
    batch_sizes.clear()
    warnings.clear()
    assert np.allclose(classifier.logits(texts), expected, atol=1e-4)
    assert not warnings, "batches of a size that exceeded the memory are not tried again"


def test_single_text_that_exceeds_gpu_memory_raises(monkeypatch):
    import torch

    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(QUALITY, 64)

    def no_room(ids, mask):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(classifier, "network", no_room)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        classifier.logits(TEXTS)


def test_models_of_a_cpu_build_are_on_the_cpu_of_a_gpu_worker(corpus, monkeypatch):
    import torch

    from zyda_flows.tasks.quality import torch_models as models

    original_to = torch.nn.Module.to

    def to(network, device, *rest):
        if device == "cuda":
            raise RuntimeError("sent to a GPU")
        return original_to(network, device, *rest)

    monkeypatch.setattr(torch.nn.Module, "to", to)
    monkeypatch.setattr(models.torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("ZYDA_ENGINE", "cpu")
    classify = {"model": str(QUALITY), "keep": ["High", "Medium", "Low"], "max_tokens": 48}
    build_here(recipe_with(corpus, "worst", classify=classify))
    monkeypatch.setenv("ZYDA_ENGINE", "auto")
    worse = recipe_with(corpus, "worst", classify={**classify, "max_tokens": 47})
    with pytest.raises(RuntimeError, match="sent to a GPU"):
        build_here(worse)


def test_cut_text_has_the_tokens_of_the_whole_text():
    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(QUALITY, 32)
    texts = ["  \n " * 2000 + prose("after much space", 100), prose("long", 5000)]
    whole = classifier.encode_all(texts)
    assert classifier.encode(texts) == whole


def recipe_with(corpus, source, **changes):
    sources = [s if s["name"] != source else {**s, **changes} for s in corpus.recipe["sources"]]
    return corpus.load(sources=sources)


def test_only_documents_with_a_kept_label_are_published(corpus):
    classify = {"model": str(QUALITY), "keep": ["High"], "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify)
    ledger = build_here(recipe)
    kept = table_of(recipe, "worst")
    assert all(row["quality_pred"] == "High" and 1 / 3 <= row["quality_prob"] <= 1 for row in kept)
    removed = [row for row in table_of(recipe, "removed") if row["reason"] == "quality"]
    assert len(kept) + len(removed) == ledger.of("classify", "worst").documents == 3


def test_all_files_of_a_classified_build_are_known_to_clean(corpus):
    recipe = recipe_with(
        corpus, "worst", classify={"model": str(QUALITY), "keep": ["High"], "max_tokens": 64}
    )
    build_here(recipe)
    assert [path for path in recipe.folder.files("work/classify") if path.count("/") == 4]
    assert strangers_in(recipe) == []


def test_keep_can_use_scores_of_a_regression_model(corpus, regression):
    classify = {"model": str(regression), "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify, keep="int_score >= 3 or score < 1e9")
    build_here(recipe)
    assert {"score", "int_score"} <= set(table_of(recipe, "worst")[0])


def test_unknown_label_raises_before_work(corpus):
    recipe = recipe_with(corpus, "worst", classify={"model": str(QUALITY), "keep": ["Good"]})
    with pytest.raises(
        ValueError, match=r"source worst: classify\.keep: .* has no label Good; there are High, Medium, Low"
    ):
        build_here(recipe)


def test_documents_are_classified_once(corpus, monkeypatch):
    from zyda_flows.tasks.quality import torch_models as models

    classify = {"model": str(QUALITY), "keep": ["High", "Medium", "Low"], "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify)
    build_here(recipe)
    before = kept_names(recipe)
    classified_texts = []
    answers = models.Classifier.answers
    monkeypatch.setattr(
        models.Classifier,
        "answers",
        lambda self, texts: classified_texts.extend(texts) or answers(self, texts),
    )
    write_rows(corpus.folder / "in/best-2.parquet", rows(copy_of_worst=prose("worst alone")))
    build_here(recipe)
    assert kept_names(recipe) == before - {"worst_alone"} | {"copy_of_worst"}
    assert classified_texts == []
    (corpus.folder / "in/best-2.parquet").unlink()
    build_here(recipe)
    assert kept_names(recipe) == before
    assert classified_texts == []
    assert recipe.folder.files("work/classify/worst")


@pytest.fixture
def own_model(tmp_path):
    """A copy of the demo's model, to be changed."""
    return shutil.copytree(QUALITY, tmp_path / "own-model")


def train_again(folder):
    """Change a model in its folder, so that good texts become bad texts."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({n: -w if n.startswith("fc") else w for n, w in weights.items()}, folder / "model.safetensors")


def answers_of(recipe):
    return [(row["name"], row["quality_pred"], row["quality_prob"]) for row in table_of(recipe, "worst")]


def test_changed_model_classifies_again(corpus, own_model):
    classify = {"model": str(own_model), "keep": ["High", "Medium", "Low"], "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify)
    build_here(recipe)
    before = answers_of(recipe)
    train_again(own_model)
    build_here(recipe)
    fresh = recipe_with(corpus, "worst", classify=classify).model_copy(update={"name": "fresh"})
    build_here(fresh)
    assert answers_of(recipe) == answers_of(fresh) != before


def model_in(folder):
    digest = digest_of_model(str(folder))
    return Model(judge="quality", form="encoder", name=str(folder), revision=None, digest=digest)


def test_model_that_changes_during_a_build_raises(own_model):
    model = model_in(own_model)
    before = load_model(model, 64)
    train_again(own_model)
    assert load_model(model, 64) is before
    cached_model.forget()
    with pytest.raises(BadInput, match="its files have changed since the build began"):
        load_model(model, 64)


def test_simultaneous_threads_load_a_model_once(own_model):
    model = model_in(own_model)
    with ThreadPoolExecutor(4) as pool:
        wanted = [pool.submit(load_model, model, 32) for _ in range(4)]
        assert len({id(future.result()) for future in wanted}) == 1
        answers = wanted[0].result()
        texts = pa.chunked_array([TEXTS])
        alone = answers(texts)
        for future in [pool.submit(answers, texts) for _ in range(4)]:
            assert future.result() == alone


def test_answer_does_not_depend_on_other_texts():
    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(QUALITY, 96, every_label=True)
    texts = [prose(f"beside {i}", 3 + i) for i in range(60)]
    raw = np.concatenate([classifier.logits([text]) for text in texts])
    assert not np.array_equal(raw, classifier.logits(texts)), (
        "the test needs outputs that depend on the batch"
    )
    together = columns_of(classifier, texts)
    alone = [columns_of(classifier, [text]) for text in texts]
    assert together == [[answers[place][0] for answers in alone] for place in range(5)]
    assert columns_of(classifier, texts[::2]) == [column[::2] for column in together]


def test_score_does_not_depend_on_other_texts(regression):
    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(regression, 64)
    texts = [prose(f"beside {i}", 3 + i) for i in range(40)]
    together = columns_of(classifier, texts)
    alone = [columns_of(classifier, [text]) for text in texts]
    assert together == [[answers[place][0] for answers in alone] for place in range(2)]


def test_answers_close_to_a_boundary_are_unsettled():
    from zyda_flows.tasks.quality import torch_models as models

    probabilities = [[0.6125, 0.3875], [0.6121, 0.3879], [0.5, 0.5], [0.612499, 0.387501]]
    is_unsettled = models.is_unsettled(np.array(probabilities), every_label=False)
    assert is_unsettled.tolist() == [True, False, True, True]
    several = np.array([[0.6121, 0.2885, 0.0994], [0.6121, 0.2881, 0.0998]])
    assert models.is_unsettled(several, every_label=False).tolist() == [False, False]
    assert models.is_unsettled(several, every_label=True).tolist() == [True, False]
    assert models.is_unsettled_score(np.array([2.5, 2.4995, 2.4993, 0.1234])).tolist() == [
        True,
        True,
        False,
        False,
    ]


def pickle_weights(folder):
    import torch

    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")


def take_rows(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "fc.weight": weights["fc.weight"][:2].contiguous()}, folder / "model.safetensors")


def set_field(name, **fields):
    def change(folder):
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | fields))

    return change


BAD_MODELS = {
    "pickled": (pickle_weights, r"it has no model\.safetensors \(pytorch_model\.bin may hold code"),
    "with code": (set_field("config.json", auto_map={"AutoModel": "x.Y"}), "it comes with code of its own"),
    "tokenizer with code": (set_field("tokenizer_config.json", auto_map={"AutoTokenizer": "x.Y"}), "code of its own"),
    "without tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), r"it has no tokenizer\.json"),
    "of another shape": (take_rows, r"weights fc\.weight in model\.safetensors: expected the shape \[3, "),
    "cut": (lambda folder: (folder / "model.safetensors").write_bytes(b"cut"), "cannot be loaded"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "cannot be loaded"),
    "broken tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_MODELS)
def test_unusable_model_is_reported_in_a_single_line(corpus, own_model, case):
    change, message = BAD_MODELS[case]
    change(own_model)
    recipe = recipe_with(corpus, "worst", classify={"model": str(own_model), "keep": ["High"]})
    with pytest.raises(
        ZydaError, match=rf"^\S+recipe\.yaml:\d+: source worst: classify\.model: .*own-model.*{message}"
    ) as raised:
        build_here(recipe)
    assert len(str(raised.value).splitlines()) == 1
    assert "trust_remote_code=True" not in str(raised.value)
    assert "weights_only" not in str(raised.value)
    assert not (corpus.folder / "out/small/work/ingest").exists()


@pytest.mark.parametrize("model", ["own", "lab/on-the-hub"])
def test_missing_model_libraries_are_reported_with_the_extra(corpus, own_model, monkeypatch, model):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    model = str(own_model) if model == "own" else model
    recipe = recipe_with(corpus, "worst", classify={"model": model, "keep": ["High"]})
    message = rf"classify\.model: {re.escape(model)}: torch not installed; pip install 'zyda-flows\[models\]'"
    with pytest.raises(ZydaError, match=message) as raised:
        build_here(recipe)
    assert len(raised.value.faults) == 1


def test_worker_without_model_libraries_raises(own_model, monkeypatch):
    model = model_in(own_model)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ZydaError, match=r"a worker cannot run it: transformers not installed; pip install 'zyda"
    ):
        load_model(model, 64)


def spoil(folder, value):
    """Give the model's first output a value that is no finite number."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    bias = next(name for name in weights if name.endswith("bias") and name.startswith(("fc", "classifier")))
    changed = weights[bias].clone()
    changed[0] = value
    save_file({**weights, bias: changed}, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.slow
@pytest.mark.parametrize("on_bad_rows", ["fail", "set_aside"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("form", ["labels", "score"])
def test_infinite_answer_raises_with_file_and_row(
    corpus, own_model, regression, tmp_path, form, value, on_bad_rows
):
    folder = own_model if form == "labels" else shutil.copytree(regression, tmp_path / "own-regression")
    spoil(folder, value)
    classify = {"model": str(folder), "max_tokens": 64}
    recipe = recipe_with(corpus, "worst", classify=classify, on_bad_rows=on_bad_rows)
    column = "quality_prob" if form == "labels" else "score"
    message = rf"source worst, file .*worst-\d\.\w+.*, row \d+ .*: classify\.model: .* answers {column} (nan|inf|-inf), expected"
    with pytest.raises(ZydaError, match=message) as raised:
        build_here(recipe)
    assert "weights" in raised.value.advice


def test_text_with_an_infinite_answer_in_a_batch_is_answered_alone(monkeypatch):
    from zyda_flows.tasks.quality import torch_models as models

    classifier = models.Classifier(QUALITY, 64, "cpu")
    expected = columns_of(classifier, TEXTS)
    logits = models.Classifier.logits

    def spoiled(self, texts):
        values = logits(self, texts)
        if len(texts) > 1:
            values[1] = np.nan
        return values

    monkeypatch.setattr(models.Classifier, "logits", spoiled)
    assert columns_of(classifier, TEXTS) == expected
