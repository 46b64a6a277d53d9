"""Encoders over whole texts: their vectors equal plain transformers, and depend on the text and the model only."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from meaning_models import MOST_TOKENS, WIDTH, write_encoder, write_json
from safetensors.numpy import load_file, save_file
from small_corpus import prose

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.quality.similarity_models import MOST_WINDOWS, UNIT, load_similarity, similarity_model

TEXTS = [prose(f"text {i}", words) for i, words in enumerate((3, 40, 9, 200, 1, 14))] + [
    "def f(x): return x",
    "漢字 🙂",
]
CONTENT = MOST_TOKENS - 2  # tokens of a window, beside two special tokens


def model_in(folder):
    return similarity_model("semantic.confirm", str(folder), None)


def vectors_of(folder, texts):
    return load_similarity(model_in(folder), "cpu")(pa.chunked_array([texts], pa.string()))


def plain_vector(folder, text, pooling, *, normalize):
    """Return the vector of a text by plain transformers, window by window, with the length 1."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    first, last = tokenizer("")["input_ids"]
    ids, total = tokenizer(text, add_special_tokens=False)["input_ids"], np.zeros(WIDTH)
    for start in range(0, len(ids), CONTENT):
        window = ids[start : start + CONTENT]
        with torch.inference_mode():
            states = network(input_ids=torch.tensor([[first, *window, last]])).last_hidden_state[0].double()
        embedding = (states.mean(dim=0) if pooling == "mean" else states[0]).numpy()
        total += len(window) * embedding / (np.linalg.norm(embedding) if normalize else 1)
    return total / np.linalg.norm(total)


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", True), ("mean", False)])
def test_vectors_equal_plain_transformers_by_windows(tmp_path, pooling, normalize):
    folder = write_encoder(tmp_path / "model", pooling, normalize=normalize)
    found = vectors_of(folder, TEXTS)
    for text, vector in zip(TEXTS, found.vectors, strict=True):
        expected = plain_vector(folder, text, pooling, normalize=normalize) * UNIT
        assert np.abs(vector - expected).max() < 0.6
    assert not found.windows_left_out.any()
    assert model_in(folder).precision("cpu") == "cpu-float32"


def test_vector_of_a_text_has_the_same_bits_with_any_other_texts(sentence_encoder):
    every = vectors_of(sentence_encoder, TEXTS).vectors
    for i, text in enumerate(TEXTS):
        assert vectors_of(sentence_encoder, [text]).vectors[0].tolist() == every[i].tolist()
    order = np.random.default_rng(0).permutation(len(TEXTS))
    shuffled = vectors_of(sentence_encoder, [TEXTS[i] for i in order]).vectors
    assert shuffled.tolist() == every[order].tolist()
    neighbours = [text for i, own in enumerate(TEXTS) for text in (own, prose(f"neighbour {i}", 3 * i))]
    assert vectors_of(sentence_encoder, neighbours).vectors[::2].tolist() == every.tolist()


def test_embeddings_of_windows_have_the_same_bits_alone(sentence_encoder):
    from zyda_flows.tasks.quality.window_encoder import WindowEncoder

    encoder, chance = WindowEncoder(sentence_encoder, "cpu"), np.random.default_rng(1)
    windows = [chance.integers(10, 4000, size).tolist() for size in chance.integers(1, CONTENT + 1, 60)]
    together = encoder.embeddings(windows)
    assert (
        together.tobytes() == np.concatenate([encoder.embeddings([window]) for window in windows]).tobytes()
    )
    assert together[::-1].tobytes() == encoder.embeddings(windows[::-1]).tobytes()


def test_texts_without_tokens_have_zeros_and_the_length_of_others_is_unit(sentence_encoder):
    vectors = vectors_of(sentence_encoder, ["", *TEXTS, ""]).vectors.astype(np.int64)
    assert not vectors[[0, -1]].any()
    lengths = np.sqrt((vectors[1:-1] ** 2).sum(axis=1))
    assert np.abs(lengths - UNIT).max() < WIDTH**0.5
    nothing = vectors_of(sentence_encoder, [])
    assert (nothing.vectors.shape, nothing.windows_left_out.shape) == ((0, WIDTH), (0,))


class Counting:
    """A tokenizer that counts the characters that it reads."""

    def __init__(self, tokenizer):
        self.tokenizer, self.characters = tokenizer, 0

    def __call__(self, texts, **options):
        self.characters += sum(map(len, texts))
        return self.tokenizer(texts, **options)

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)


def test_windows_beyond_the_most_are_counted_and_not_read(sentence_encoder):
    from zyda_flows.tasks.quality.window_encoder import WindowEncoder

    encoder = WindowEncoder(sentence_encoder, "cpu")
    encoder.tokenizer = counting = Counting(encoder.tokenizer)
    word = prose("word", 1)
    tokens = len(counting.tokenizer(f" {word}", add_special_tokens=False)["input_ids"])
    long = f" {word}" * (80 * CONTENT // tokens)
    read = f" {word}" * (MOST_WINDOWS * CONTENT // tokens)
    found = encoder.vectors(pa.chunked_array([[long, read, long + " and an end"]]))
    assert found.windows_left_out[1] == 0
    assert abs(found.windows_left_out[0] - (80 - MOST_WINDOWS)) <= 2
    assert found.vectors[0].tolist() == found.vectors[2].tolist()
    counting.characters = 0
    huge = f"{word} " * ((64 << 20) // (len(word) + 1))
    left_out = encoder.vectors(pa.chunked_array([[huge]], pa.large_string())).windows_left_out[0]
    assert counting.characters < 20 * MOST_WINDOWS * CONTENT
    assert left_out == pytest.approx(tokens * huge.count(word) / CONTENT, rel=0.1)


@pytest.mark.parametrize("text", ["x" * 100_000, " " * 100_000, "\n" * 100_000, "\u0301" * 50_000])
def test_texts_of_few_tokens_have_a_vector(sentence_encoder, text):
    found = vectors_of(sentence_encoder, [text, TEXTS[0]])
    assert found.vectors[1].tolist() == vectors_of(sentence_encoder, TEXTS[:1]).vectors[0].tolist()
    assert np.linalg.norm(found.vectors[0]) in (0, pytest.approx(UNIT, abs=WIDTH**0.5))


def changed(folder, sentence_encoder, name, change):
    """Copy the encoder with a changed JSON file; return its folder. change: None removes the file."""
    shutil.copytree(sentence_encoder, folder)
    if change is None:
        (folder / name).unlink()
    else:
        before = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        write_json(folder / name, before | change if isinstance(change, dict) else change)
    return folder


MODULES = [
    {"path": path, "type": f"sentence_transformers.models.{kind}"}
    for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling"))
]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", None, r"it has no config\.json, or is a model of another kind"),
        ("config.json", {"auto_map": {"AutoModel": "code.Model"}}, "code of its own, which is never run"),
        ("config.json", {"hidden_size": "many"}, "hidden_size is 'many'"),
        ("config.json", {"num_hidden_layers": 3}, r"weights \S+ in model\.safetensors are missing, or"),
        ("config.json", {"vocab_size": 99}, r"weights \S+ in model\.safetensors are missing, or"),
        ("tokenizer_config.json", {"auto_map": {}}, "code of its own, which is never run"),
        ("1_Pooling/config.json", None, r"it has no 1_Pooling/config\.json"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}, r"the pooling is .*, expected mean or cls"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "the pooling is lasttoken, expected mean or cls"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 31}, "it states 31 dimensions, and the encoder has 32"),
        ("modules.json", [*MODULES, {"path": "2", "type": "own.Module"}], r"code of its own, .*own\.Module in modules\.json"),
        ("modules.json", [*MODULES, {"path": "2", "type": "sentence_transformers.models.Dense"}], "expected .*, got .*Dense"),
        ("modules.json", [MODULES[0], MODULES[1] | {"path": "../1_Pooling"}], r"the path \.\./1_Pooling is outside"),
        ("modules.json", "none", r"modules\.json: expected a list of objects"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is set"),
        ("sentence_bert_config.json", {"max_seq_length": 2}, "it reads 2 tokens at once, which is too few"),
        ("sentence_bert_config.json", {"max_seq_length": "8"}, "max_seq_length is '8', expected a number of tokens"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "default_prompt_name is set"),
        ("tokenizer.json", None, r"it has no tokenizer\.json, nor another file"),
    ],
)  # fmt: skip
def test_invalid_files_are_one_error(tmp_path, sentence_encoder, name, change, message):
    folder = changed(tmp_path / "model", sentence_encoder, name, change)
    with pytest.raises(BadInput, match=rf"^semantic\.confirm: \S+: .*{message}") as raised:
        model_in(folder)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_one_error(tmp_path, sentence_encoder, number):
    folder = shutil.copytree(sentence_encoder, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights[next(name for name in weights if "LayerNorm.bias" in name)][0] = number
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(BadInput, match="some of its weights are NaN or infinite"):
        model_in(folder)


def test_vectors_that_are_not_finite_are_one_error(tmp_path, sentence_encoder):
    folder = shutil.copytree(sentence_encoder, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name][100:] = 3e38  # their squares are infinite
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(BadInput, match="the vector of a text is NaN or infinite in cpu-float32"):
        vectors_of(folder, TEXTS)


def test_pickles_and_large_files_are_one_error(tmp_path, sentence_encoder):
    folder = shutil.copytree(sentence_encoder, tmp_path / "model")
    with (
        replaced_limits(model_bytes=1000),
        pytest.raises(BadInput, match=r"model\.safetensors has more than"),
    ):
        model_in(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin may hold code, so it is not read"):
        model_in(folder)


def test_bare_encoder_pools_by_the_mean_and_a_classifier_is_rejected(tmp_path, sentence_encoder):
    folder = shutil.copytree(sentence_encoder, tmp_path / "model")
    (folder / "modules.json").unlink()
    bare = vectors_of(folder, TEXTS[:1]).vectors
    assert np.abs(bare - vectors_of(sentence_encoder, TEXTS[:1]).vectors).max() <= 1
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"architectures": ["BertForSequenceClassification"]})
    with pytest.raises(BadInput, match="it is a classifier"):
        model_in(folder)


def test_heads_change_neither_the_digest_nor_the_vectors(tmp_path, sentence_encoder):
    folders = [shutil.copytree(sentence_encoder, tmp_path / name) for name in ("first", "second")]
    for number, folder in enumerate(folders):
        write_json(folder / "head.json", {"normalize": True})
        save_file({"0.weight": np.full((1, WIDTH), number, np.float32)}, folder / "head.safetensors")
    first, second = map(model_in, folders)
    assert first.digest == second.digest == model_in(sentence_encoder).digest
    assert (
        vectors_of(folders[0], TEXTS).vectors.tolist() == vectors_of(sentence_encoder, TEXTS).vectors.tolist()
    )
