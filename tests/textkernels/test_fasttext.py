"""Predictions of models equal the predictions of fastText, for every kind of model."""

import contextlib
import random
import struct
from contextlib import suppress

import fasttext
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.textkernels.fasttext import matrices
from zyda_flows.textkernels.fasttext.file import read_model
from zyda_flows.textkernels.fasttext.hashing import ends_of, has_word
from zyda_flows.textkernels.fasttext.model import NEGATIVE, ONE_VS_ALL
from zyda_flows.textkernels.fasttext.prediction import predict, probabilities_of

THREADS = 10  # each thread trains a tenth of a matrix; fewer threads in fastText leave the rest random
NGRAMS = {"minn": 2, "maxn": 4, "bucket": 3000}
# How each model is trained, and then how it is quantised. All of a matrix is trained if dim is a multiple of 10.
KINDS = {
    "hierarchical": ({"loss": "hs", **NGRAMS}, None),
    "softmax": ({"loss": "softmax", "minn": 1, "maxn": 3, "bucket": 500}, None),
    "negative": ({"loss": "ns", **NGRAMS}, None),
    "one-vs-all": ({"loss": "ova", "dim": 16, **NGRAMS}, None),
    "words": ({"loss": "softmax", "minn": 0, "maxn": 0, "bucket": 0}, None),
    "bigrams": ({"loss": "softmax", "wordNgrams": 2, "minn": 0, "maxn": 0, "bucket": 2000}, None),
    "trigrams": ({"loss": "hs", "wordNgrams": 3, "dim": 37, **NGRAMS}, None),
    "rare-words-left-out": ({"loss": "softmax", "minCount": 40, **NGRAMS}, None),
    # The matrices of models with few labels are multiplied when they are read.
    "few-labels": ({"loss": "softmax", "wordNgrams": 2, "dim": 100, "bucket": 2000}, None),
    "few-labels-tree": ({"loss": "hs", "wordNgrams": 2, "dim": 30, **NGRAMS}, None),
    "few-labels-one-vs-all": ({"loss": "ova", "dim": 30, **NGRAMS}, None),
    "few-labels-quantised": ({"loss": "softmax", "dim": 60, **NGRAMS}, {"qnorm": True}),
    "few-labels-pruned": ({"loss": "hs", "dim": 60, "wordNgrams": 2, **NGRAMS}, {"cutoff": 600}),
    "quantised": ({"loss": "softmax", **NGRAMS}, {}),
    "norms": ({"loss": "hs", **NGRAMS}, {"qnorm": True, "dsub": 4}),
    "pruned": ({"loss": "hs", "dim": 16, **NGRAMS}, {"qnorm": True, "cutoff": 600}),
    "pruned-bigrams": ({"loss": "ova", "wordNgrams": 2, **NGRAMS}, {"cutoff": 400, "dsub": 3}),
    "pruned-words": ({"loss": "softmax", "minn": 0, "maxn": 0, "bucket": 0}, {"cutoff": 300}),
    "output": ({"loss": "softmax", **NGRAMS}, {"qnorm": True, "qout": True}),
    "output-tree": ({"loss": "hs", **NGRAMS}, {"qout": True}),
}
TRIES = 20
MANY = {"output", "output-tree"}  # enough labels for centroids
AWKWARD = [
    "", "\n", " \n\n\t ", "\0", "a\0b", "a\x0bb\x0cc\rd\te", "</s>", "some </s> words", "__label__l1",
    "__label__none words", "<", ">", "<>", "<word>", "\N{GRINNING FACE}", "\N{FAMILY}\u200d\N{COMBINING ACUTE ACCENT}",
    "\x85\xa0\u2028", "ä", "中文字", "w" * 5000, "中" * 5000, "a b " * 1000, "\x7f\x01\x1f", "-- ----",
]  # fmt: skip


def sentences(labels):
    """Return labelled lines in which each label has its own words, some of them rare."""
    chance = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzäöüéжшщ中文字語"

    def word():
        return "".join(chance.choices(letters, k=chance.randrange(1, 9)))

    shared = [word() for _ in range(50)]
    for label in range(labels):
        own = [word() for _ in range(max(4, 1200 // labels))]
        for _ in range(max(3, (200 - 10 * label) // labels + 10)):
            yield f"__label__l{label} " + " ".join(chance.choices(own + shared, k=12))


def is_sound(theirs):
    """Return whether all numbers of a model are small: fastText leaves a few of some matrices uninitialised."""
    return all((np.abs(m) < 10).all() for m in (theirs.get_input_matrix(), theirs.get_output_matrix()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return fastText's model of a kind and the bytes of its file, each trained once."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def model(kind):
        if kind not in made:
            lines = folder / f"{kind}.txt"
            lines.write_text("\n".join(sentences(300 if kind in MANY else 12)))
            arguments, quantised = KINDS[kind]
            arguments = {"dim": 10, "epoch": 4, "thread": THREADS, "verbose": 0, **arguments}
            for attempt in range(1, TRIES + 1):
                with suppress(RuntimeError):  # a NaN in training: a lower rate makes it less likely
                    theirs = fasttext.train_supervised(str(lines), **arguments | {"lr": 0.5 / attempt})
                    if not is_sound(theirs):
                        continue
                    if quantised is not None:
                        theirs.quantize(str(lines), thread=THREADS, verbose=0, **quantised)
                    theirs.save_model(str(folder / kind))
                    made[kind] = fasttext.load_model(str(folder / kind)), (folder / kind).read_bytes()
                    break
        return made[kind]

    return model


def check(theirs, model, texts, k=3):
    labels, probabilities = predict(model, pa.array(texts, pa.large_string()), k)
    for text, ours, ours_p in zip(texts, labels, probabilities, strict=True):
        names, expected = theirs.predict(text.replace("\n", " "), k=k)
        found = len(names)
        assert (ours[:found] >= 0).all()
        assert (ours[found:] == -1).all()
        assert (ours_p[found:] == 0).all()
        # A logistic loss is looked up in steps of 1/32; a sum in another order may fall into the next step.
        is_logistic = model.settings.loss in (NEGATIVE, ONE_VS_ALL)
        step = np.maximum(1e-5, expected / 31) if is_logistic else np.full(found, 1e-5)
        assert (np.abs(ours_p[:found] - expected) <= step).all()
        # The label equals fastText's if no other label is as probable; with ties it may be the label after the last.
        after = np.append(expected[1:], -1 if found < k else expected[-1:])
        apart = np.append(True, expected - after > step)
        for i in np.flatnonzero(apart[:-1] & apart[1:]):
            assert model.labels[ours[i]] == names[i].removeprefix("__label__"), text[:99]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_labels_equal_fasttext(trained, kind):
    theirs, content = trained(kind)
    model = read_model(content)
    assert model.labels == tuple(label.removeprefix("__label__") for label in theirs.labels)
    known = [line.partition(" ")[2] for line in sentences(12)]
    check(theirs, model, AWKWARD + known[:40] + [" ".join(known)])
    check(theirs, model, [known[0]], k=len(model.labels) + 2)

    @settings(max_examples=60, derandomize=True)
    @given(texts=st.lists(st.text() | st.text("ab äж中\n\0<>"), max_size=5))
    def like_theirs(texts):
        check(theirs, model, texts)

    like_theirs()


@pytest.mark.parametrize("kind", ["quantised", "norms", "pruned", "pruned-bigrams"])
def test_labels_are_equal_with_a_quantised_matrix_that_is_not_expanded(trained, kind, monkeypatch):
    theirs, content = trained(kind)
    monkeypatch.setattr(matrices, "EXPANDED_SIZE", 2000)
    model = read_model(content)
    assert not len(model.matrix.numbers)
    check(theirs, model, [line.partition(" ")[2] for line in sentences(12)])


def test_line_of_a_megabyte_has_the_label_of_fasttext(trained):
    theirs, content = trained("hierarchical")
    for line in (" ".join(line.partition(" ")[2] for line in list(sentences(12)) * 60), "long" * 250_000):
        labels, probabilities = predict(read_model(content), pa.array([line], pa.large_string()))
        names, expected = theirs.predict(line)
        assert f"__label__{read_model(content).labels[labels[0, 0]]}" == names[0]
        # fastText adds a million numbers in float32, and rounds each sum.
        assert probabilities[0, 0] == pytest.approx(expected[0], abs=1e-3)


def test_matrix_is_a_view_of_the_file(trained):
    _, content = trained("hierarchical")
    assert np.shares_memory(read_model(content).matrix.numbers, np.frombuffer(content, np.uint8))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("few-labels")])
def test_matrix_of_few_labels_is_as_wide_as_their_number(trained, kind):
    _, content = trained(kind)
    model = read_model(content)
    assert (model.settings.dim, model.output.size) == (len(model.labels), 0)
    assert 0 < model.matrix.numbers.nbytes <= len(content)
    assert not np.shares_memory(model.words.data, np.frombuffer(content, np.uint8))


@pytest.mark.parametrize("kind", ["few-labels", "few-labels-tree", "negative"])
def test_probabilities_of_all_labels_are_those_of_fasttext(trained, kind):
    theirs, content = trained(kind)
    model, lines = read_model(content), [line.partition(" ")[2] for line in sentences(12)][:50]
    ours = probabilities_of(model, pa.array(["", *lines], pa.large_string()))
    assert (ours.dtype, ours.shape) == (np.float32, (51, 12))
    for line, row in zip(lines, ours[1:], strict=True):
        expected = dict(zip(*theirs.predict(line, k=-1), strict=True))
        each = [expected.get(f"__label__{label}", 0) for label in model.labels]
        assert row == pytest.approx(each, abs=1e-5, rel=1 / 31 if kind == "negative" else 0)


def test_slices_and_nulls_are_predicted(trained):
    _, content = trained("softmax")
    model, texts = read_model(content), pa.array(["xyz", "abc def", None, "жшщ"], pa.large_string())
    labels, probabilities = predict(model, texts[1:])
    each = [predict(model, pa.array([text], pa.large_string())) for text in ("abc def", "", "жшщ")]
    assert labels.tolist() == [one[0][0].tolist() for one in each]
    assert probabilities.tolist() == [one[1][0].tolist() for one in each]


def test_no_texts_return_no_labels_and_zero_labels_raise(trained):
    model = read_model(trained("softmax")[1])
    assert predict(model, pa.array([], pa.large_string()), 4)[0].shape == (0, 4)
    with pytest.raises(ValueError, match="k: expected 1 or more labels, got 0"):
        predict(model, pa.array([""], pa.large_string()), 0)


@pytest.mark.parametrize("kind", ["hierarchical", "pruned", "output", "few-labels-pruned"])
def test_truncated_file_raises(trained, kind):
    _, content = trained(kind)
    chance = random.Random(1)
    places = {*range(200), len(content) - 1, *(chance.randrange(len(content)) for _ in range(200))}
    for place in places:
        with pytest.raises(ValueError, match="cut short"):
            read_model(content[:place])
    with pytest.raises(ValueError, match="the model ends at byte"):
        read_model(content + b"\0")


def fields(content):
    """Return the positions of a file's integers, with their layouts: arguments, dictionary, last matrix."""
    yield from ((at, "i") for at in (*range(0, 56, 4), 64, 68, 72))
    yield from ((at, "q") for at in (76, 84))


@pytest.mark.parametrize("kind", ["hierarchical", "pruned", "output", "bigrams", "few-labels"])
def test_damaged_file_raises_or_predicts(trained, kind):
    _, content = trained(kind)
    chance = random.Random(2)
    texts = pa.array([*AWKWARD, *list(sentences(12))[:20]], pa.large_string())
    errors = 0
    for turn in range(250):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 1, 8])):
            damaged[chance.randrange(len(content) if turn % 2 else 4000)] = chance.randrange(256)
        try:
            predict(read_model(bytes(damaged)), texts)
        except ValueError:
            errors += 1
    assert 0 < errors < 250


@pytest.mark.parametrize("kind", ["hierarchical", "pruned", "words"])
@pytest.mark.parametrize("value", [-1, 0, 1, 127, 2**31 - 1, -(2**31)])
def test_numbers_in_the_head_of_a_file_are_checked(trained, kind, value):
    _, content = trained(kind)
    for at, layout in fields(content):
        damaged = bytearray(content)
        struct.pack_into(f"<{layout}", damaged, at, value)
        with contextlib.suppress(ValueError):
            predict(read_model(bytes(damaged)), pa.array(AWKWARD, pa.large_string()))


def numbered(content, at, value):
    return content[:at] + struct.pack("<i", value) + content[at + 4 :]


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, 1, "magic number"),
        (4, 13, "expected version 11 or 12, got 13"),
        (8, 11, "expected rows of 11 numbers"),
        (28, 101, "101 words"),
        (32, 7, "expected a number from 1 to 4, got 7"),
        (36, 1, "cannot predict any"),
        (40, 0, "no buckets for them"),
        (40, 4000, "there are [0-9]+ words and 4000 n-grams"),
        (48, 101, "101 characters"),
        (68, 3, "entries with at least 1 label, got 3 words"),
    ],
)
def test_error_names_the_fault_of_a_file(trained, at, value, said):
    _, content = trained("hierarchical")
    with pytest.raises(ValueError, match=said):
        read_model(numbered(content, at, value))


def test_unsupervised_model_raises(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(sentences(3)))
    made = fasttext.train_unsupervised(
        str(lines), dim=4, minCount=1, bucket=50, thread=THREADS, epoch=1, verbose=0
    )
    made.save_model(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="cannot predict any"):
        read_model((tmp_path / "model").read_bytes())


def test_slot_matches_a_word_only_if_all_bytes_are_equal():
    rng = np.random.default_rng(2)
    for _ in range(40):
        page = rng.choice([97, 98], rng.integers(1, 40), p=[0.9, 0.1]).astype(np.uint8)
        page.flags.writeable = False
        for start, first, size in rng.integers(0, len(page), (50, 3)).tolist():
            if 0 < size <= len(page) - max(start, first):
                slot = np.array([*ends_of(page, first, size), first, size << 32 | 7])
                expected = bytes(page[first : first + size]) == bytes(page[start : start + size])
                assert has_word(slot, page, *ends_of(page, start, size), page, start, size) == expected
                longer = size + (start + size < len(page))
                assert longer == size or not has_word(
                    slot, page, *ends_of(page, start, longer), page, start, longer
                )
