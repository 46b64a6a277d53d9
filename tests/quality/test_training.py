"""`zyda train-judge`: figures of held-out documents, equal to SciPy's; the same bytes twice; one error for each fault."""

import hashlib
import json
import random
import re
from types import SimpleNamespace

import fasttext
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_models import WORDS, train_model
from safetensors.numpy import load_file
from scipy import stats
from small_corpus import TOKENIZER, build_here, edited, prose, table_of, write_rows, zyda_here
from token_judges import ids_of
from tokenizers import Tokenizer

from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.quality.forms import digest_of_model, judged_model, load_model
from zyda_flows.tasks.quality.training import fasttext_training, pooled_training, training
from zyda_flows.tasks.quality.training.held_out import clusters_of, held_out
from zyda_flows.tasks.quality.training.measures import Range, auc, curve, spearman
from zyda_flows.tasks.quality.training.sample import draw_sample
from zyda_flows.tasks.recipe.judges import Judge

NUMBERS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=40)


def document(number):
    """Return a row whose score is the share of its words that are `good`; every third is a copy of the row before."""
    chance = random.Random(number - (number % 3 == 2))
    share = chance.random()
    words = [
        "good" if chance.random() < share else chance.choice(["the", "a", "of", "to", "in"])
        for _ in range(60)
    ]
    words += prose(f"{number - (number % 3 == 2)}", 60).split()
    return {
        "text": " ".join(words),
        "score": share,
        "kind": "high" if share > 0.5 else "low",
        "own": number % 2 == 0,
    }


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    rows = [document(number) for number in range(240)]
    write_rows(folder / "a.parquet", rows[:100])
    write_rows(folder / "b.jsonl.gz", rows[100:])
    return SimpleNamespace(
        folder=folder, rows=rows, urls=[str(folder / "a.parquet"), str(folder / "b.jsonl.gz")]
    )


def train(folder, *arguments):
    return zyda_here("train-judge", str(folder), *map(str, arguments))


@pytest.fixture(scope="module")
def pooled(scored):
    folder = scored.folder / "pooled"
    options = ["--target", "edu=score", "--target", "kind=kind", "--tokenizer", TOKENIZER, "--repeats", "2"]
    done = train(folder, *scored.urls, *options)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, output=done.stdout, options=options)


@given(NUMBERS)
def test_rank_correlation_and_auc_are_those_of_scipy(pairs):
    first, second = np.array(pairs, float).T
    if len({*first}) > 1 and len({*second}) > 1:
        assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    else:
        assert spearman(first, second) == 0
    high = second > 4
    if 0 < high.sum() < len(high):
        expected = stats.mannwhitneyu(first[high], first[~high]).statistic / (high.sum() * (~high).sum())
        assert auc(first, high) == pytest.approx(expected)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_range_is_that_of_a_further_repeat(count):
    values = np.random.default_rng(count).random(count) / 100
    low, high = stats.t.interval(0.95, count - 1, values.mean(), values.std(ddof=1) * (1 + 1 / count) ** 0.5)
    assert Range.of([*values]) == pytest.approx((values.mean(), low, high), rel=1e-3)
    assert Range.of([0.5]) == (0.5, -np.inf, np.inf)
    assert Range.of([0.01, 0.02], least=0.0).low == 0


def test_curve_has_ten_bins_in_the_order_of_answers():
    bins = curve(np.arange(25.0)[::-1], np.arange(25.0))
    assert sum(part.documents for part in bins) == 25
    assert bins[0] == (3, 1.0, 23.0)
    assert bins[-1] == (2, 23.5, 0.5)


def test_sample_has_the_smallest_hashes_in_any_order_of_files(scored):
    def digest(text):
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest()[:8], "little")

    expected = sorted({row["text"] for row in scored.rows}, key=digest)[:50]
    samples = [draw_sample(urls, "text", ["score"], 80) for urls in (scored.urls, scored.urls[::-1])]
    for sample in samples:
        assert sample.texts.to_pylist() == samples[0].texts.to_pylist()
        assert [*dict.fromkeys(sample.texts.to_pylist())][:50] == expected
        scores = {row["text"]: row["score"] for row in scored.rows}
        assert sample.columns["score"].to_pylist() == [scores[text] for text in sample.texts.to_pylist()]


def test_near_duplicates_are_on_one_side():
    texts = [prose("a"), edited(prose("a"), 2), prose("b"), "short", "short", "other", prose("b")]
    clusters = clusters_of(
        pa.array(texts, pa.large_string()), np.array([hash(text) for text in texts]).astype(np.uint64)
    )
    assert clusters.tolist() == [0, 0, 2, 3, 3, 5, 2]
    for seed in range(20):
        is_held = held_out(clusters, 0.5, seed)
        assert is_held.tolist() == is_held[clusters].tolist()
    assert held_out(np.arange(10_000), 0.2, 1).mean() == pytest.approx(0.2, abs=0.02)


def measures_in(card):
    """Return the rank correlation and AUC of the model, by answer and target."""
    cells = re.findall(r"^\| (\w+) \| ([^|]+) \| (-?[0-9.]+) \| ([0-9.]+) \|", card, re.M)
    return {(answer, target): (float(rank), float(auc)) for answer, target, rank, auc in cells}


def answers_of(path, texts):
    model = judged_model(Judge(name="a", model=str(path), probabilities=path.name == "labels"))
    columns = load_model(model, 8)(pa.chunked_array([texts]))
    return {
        field.name: column.to_numpy(zero_copy_only=False)
        for field, column in zip(model.added_columns, columns, strict=True)
    }


def held_out_of(scored):
    """Return the texts and rows that are held out with the seed 0."""
    sample = draw_sample(scored.urls, "text", ["score", "kind"], 5000)
    held = held_out(clusters_of(sample.texts, sample.hashes), 0.2, 0)
    rows = {row["text"]: row for row in scored.rows}
    texts = [text for text, is_held in zip(sample.texts.to_pylist(), held, strict=True) if is_held]
    trained = [text for text, is_held in zip(sample.texts.to_pylist(), held, strict=True) if not is_held]
    assert not {*texts} & {*trained}
    return texts, [rows[text] for text in texts]


def trained_mean(folder, texts):
    """Return the mean of the vectors of texts, of length 1, by NumPy."""
    table = load_file(folder / "model.safetensors")["table"].astype(np.float64)
    vectors = np.array([table[ids_of(folder, text)].mean(axis=0) for text in texts])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)


def test_card_has_the_figures_of_held_out_documents(scored, pooled):
    card = (pooled.folder / "README.md").read_text()
    texts, rows = held_out_of(scored)
    answers = answers_of(pooled.folder, texts)["a_score"]
    scores, kinds = np.array([row["score"] for row in rows]), np.array([row["kind"] == "low" for row in rows])
    found = measures_in(card)
    assert found["score", "edu"][0] == pytest.approx(stats.spearmanr(answers, scores).statistic, abs=6e-4)
    expected = stats.mannwhitneyu(answers[kinds], answers[~kinds]).statistic / (kinds.sum() * (~kinds).sum())
    assert found["score", "kind = low"][1] == pytest.approx(expected, abs=6e-4)
    assert found["score", "edu"][0] > 0.8
    assert f"{len(texts)} for this model" in card
    assert "better" not in card
    assert "one target" not in card
    assert f"{found['score', 'edu'][0]:.3f}" in pooled.output
    measures = json.loads((pooled.folder / "measures.json").read_text())
    assert measures["digest"] == digest_of_model(str(pooled.folder))
    assert (measures["held_out"], measures["targets"]) == (len(texts), ["edu", "kind"])
    for result in measures["results"]:
        rank, area = found[result["answer"], result["target"]]
        assert (result["spearman"], result["auc"]) == pytest.approx((rank, area), abs=6e-4)
        repeats = result["auc_repeats"]
        assert f"{repeats['mean']:.3f} ({repeats['low']:.3f} to {repeats['high']:.3f})" in card
        assert f"| {result['curve'][0]['documents']} | {result['curve'][0]['answer']:.4g} |" in card
    mean = trained_mean(pooled.folder, [row["text"] for row in scored.rows if row["text"] not in texts])
    assert np.abs(load_file(pooled.folder / "mean.safetensors")["mean"] - mean).max() < 1e-4
    config = json.loads((pooled.folder / "judge.json").read_text())
    assert (config["form"], config["seed"], config["labels"]) == ("pooled", 0, [])


def test_same_training_gives_the_same_bytes_and_another_seed_another_model(scored, pooled):
    again, other = scored.folder / "again", scored.folder / "other"
    assert train(again, *scored.urls[::-1], *pooled.options).returncode == 0
    assert train(other, *scored.urls, *pooled.options, "--repeats", "1", "--seed", "1").returncode == 0
    for name in ("judge.json", "model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (pooled.folder / name).read_bytes()
    assert (again / "README.md").read_text() == (pooled.folder / "README.md").read_text().replace(
        "/pooled", "/again"
    )
    assert (other / "model.safetensors").read_bytes() != (again / "model.safetensors").read_bytes()


def test_fasttext_is_trained_for_labels_and_for_scores(scored):
    folder = scored.folder / "fasttext"
    assert (
        train(
            folder, *scored.urls, "--target", "edu=score", "--form", "fasttext", "--repeats", "1"
        ).returncode
        == 0
    )
    card = (folder / "README.md").read_text()
    texts, rows = held_out_of(scored)
    library = fasttext.load_model(str(folder / "model.bin"))
    answers = [dict(zip(*library.predict(text, k=-1), strict=True))["__label__high"] for text in texts]
    expected = stats.spearmanr(answers, [row["score"] for row in rows]).statistic
    assert measures_in(card)["high", "edu"][0] == pytest.approx(expected, abs=6e-4)
    assert expected > 0.7
    assert "measured against one target only" in card
    assert f"model: {folder}/model.bin" in card
    measures = json.loads((folder / "measures.json").read_text())
    assert measures["digest"] == digest_of_model(str(folder / "model.bin"))
    assert measures["results"][0]["auc_repeats"] is None


def test_judge_is_trained_from_an_expensive_judge_on_a_published_corpus(corpus, tmp_path):
    expensive, chance = train_model(tmp_path), random.Random(0)
    texts = [" ".join(chance.choices(WORDS["de" if i % 2 else "en"], k=50)) for i in range(150)]
    new = [{"name": f"n{i}", "stars": i % 5, "text": text} for i, text in enumerate(texts)]
    write_rows(corpus.folder / "in/worst-9.jsonl.zst", new)
    recipe = corpus.load()
    build_here(recipe)
    folder = tmp_path / "judge"
    done = train(
        folder, recipe.folder.url, "--judge", f"own={expensive}", "--target", "stars=stars", "--form", "pooled",
        "--repeats", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).to_str() == (
        Tokenizer.from_file(str(TOKENIZER)).to_str()
    )
    card = (folder / "README.md").read_text()
    published = sum(
        bool(row["text"]) for source in ("best", "middle", "worst") for row in table_of(recipe, source)
    )
    trained, held = (
        int(re.search(pattern, card)[1]) for pattern in (r"with (\d+) documents", r"(\d+) for this")
    )
    assert trained + held == published > 140
    assert f"the answers of {expensive}" in card
    assert json.loads((folder / "judge.json").read_text())["labels"] == ["de", "en"]
    assert measures_in(card)["en", "own = en"][1] == 1


def test_published_documents_that_a_judge_has_not_read_are_left_out(corpus):
    for source in corpus.recipe["sources"]:
        source.pop("keep", None)
    corpus.recipe["sources"] = corpus.recipe["sources"][:1]
    folder = corpus.folder / "model"
    folder.mkdir()
    model = train_model(folder, ("hq", "cc"))
    judges = [{"name": "a", "model": str(model)}, {"name": "b", "model": str(model), "only_if": "a_hq < 0.5"}]
    recipe = corpus.load(judges=judges)
    build_here(recipe)
    documents = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    with_score = {row["text"] for row in documents if row["b_hq"] is not None and row["text"]}
    assert 0 < len(with_score) < len(documents)
    sample = draw_sample([f"{recipe.folder.url}/published"], "text", ["b_hq"], 5000)
    assert {*sample.texts.to_pylist()} == with_score
    assert sample.left_out == len(documents) - sum(row["b_hq"] is not None for row in documents)
    every = draw_sample([f"{recipe.folder.url}/published"], "text", [], 5000)
    assert {*every.texts.to_pylist()} == {row["text"] for row in documents} - {""}


def test_failed_training_leaves_nothing(scored, tmp_path, monkeypatch):
    def fail(*_):
        (tmp_path / "half").mkdir(exist_ok=True)
        raise MemoryError

    monkeypatch.setattr(pooled_training, "train", fail)
    with pytest.raises(MemoryError):
        training.train_judge(
            tmp_path / "out/judge",
            training.Training(scored.urls, [("edu", "score")], tokenizer=str(TOKENIZER)),
            lambda step: None,
        )
    assert [*(tmp_path / "out").iterdir()] == []


def table_with(folder, rows=120, **columns):
    """Write a table of documents with these values of columns for each row; return its file."""
    table = {"text": [prose(f"{i}", 30) for i in range(rows)], "score": [float(i) for i in range(rows)]}
    values = {
        name: [value(i) if callable(value) else value for i in range(rows)] for name, value in columns.items()
    }
    pq.write_table(pa.table({**table, **values}), folder / "t.parquet")
    return folder / "t.parquet"


FAULTS = {
    "10 documents with a text, expected at least 100": {"rows": 10},
    "t.parquet, row 7: the column score has no value": {"score": lambda i: None if i == 7 else 1.0},
    "the column score has no value": {"score": None},
    "t.parquet, row 3: the column score is nan, expected a finite number": {"score": lambda i: float("nan") if i == 3 else i},
    "the column score is inf, expected a finite number": {"score": float("inf")},
    "target edu: its texts are numbers, such as '0'": {"score": lambda i: str(i % 6)},
    "target edu: it has 1 labels, expected 2 to 100": {"score": "same"},
    "target edu: it has 120 labels, expected 2 to 100": {"score": lambda i: f"label {i}"},
    "target edu: all scores are 1.0; expected different scores": {"score": 1},
    "target edu: 1 documents of the sample have the label b, expected 10": {"score": lambda i: "b" if i == 5 else "a"},
    "the column score has the type list": {"score": lambda i: [1]},
    "column 'text' is int64, expected string": {"text": 5},
    "target edu: no document with the label b would be (held out|trained on) with the seed 0": {
        "score": lambda i: "b" if i % 10 == 0 else "a", "text": lambda i: prose("same") if i % 10 == 0 else prose(f"{i}")
    },
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_a_table_is_one_error(tmp_path, fault):
    done = train(
        tmp_path / "judge",
        table_with(tmp_path, **FAULTS[fault]),
        "--target",
        "edu=score",
        "--tokenizer",
        TOKENIZER,
    )
    assert (done.returncode, [*tmp_path.glob("judge*")]) == (1, [])
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("zyda: ")]
    assert re.search(fault, line), line
    assert "Traceback" not in done.stderr


OF_OPTIONS = {
    "there is no target": [],
    "two targets have the name edu": ["--target", "edu=score", "--target", "edu=text"],
    "t.parquet has no column stars; its columns are .*score": ["--target", "edu=stars"],
    "no column 'body'; there are": ["--target", "edu=score", "--text", "body"],
    "form pooled: it needs --tokenizer": ["--target", "edu=score", "--form", "pooled"],
    "--target score: expected a name of lower-case letters": ["--target", "score"],
    "tokenizer: none.json cannot be loaded": ["--target", "edu=score", "--tokenizer", "none.json"],
    "the label 'a b' has white space, or is empty": ["--target", "edu=kind", "--form", "fasttext"],
    "judge own.model: ./nothing/here cannot be loaded": ["--judge", "own=./nothing/here"],
}  # fmt: skip


@pytest.mark.parametrize("fault", OF_OPTIONS)
def test_fault_of_an_option_is_one_error(tmp_path, fault):
    table = table_with(tmp_path, kind=lambda i: "a b" if i % 2 else "c")
    tokenizer = [] if "tokenizer" in fault else ["--tokenizer", TOKENIZER]
    done = train(tmp_path / "judge", table, *tokenizer, *OF_OPTIONS[fault])
    assert (done.returncode, [*tmp_path.glob("judge*")]) == (1, [])
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("zyda: ")]
    assert re.search(fault, line), line


def test_other_faults_are_one_error_each(tmp_path, monkeypatch):
    (tmp_path / "judge").mkdir()
    arguments = [table_with(tmp_path), "--target", "edu=score"]
    assert "judge exists; remove it" in train(tmp_path / "judge", *arguments, "--tokenizer", TOKENIZER).stderr
    missing = train(
        tmp_path / "other", tmp_path / "nowhere", "--target", "edu=score", "--tokenizer", TOKENIZER
    )
    assert "nowhere: no corpus is published there" in missing.stderr
    monkeypatch.setattr(fasttext_training, "find_spec", lambda _: None)
    assert "fasttext not installed" in train(tmp_path / "other", *arguments, "--form", "fasttext").stderr


def test_fasttext_is_trained_again_with_a_lower_rate_if_its_numbers_are_nan(tmp_path, monkeypatch):
    (tmp_path / "lines.txt").write_text("__label__a one two\n__label__b three four\n" * 20)
    program = fasttext_training.PROGRAM.replace(
        "fasttext.train", "options['lr'] > 0.2 and sys.exit('Encountered NaN.')\nfasttext.train"
    )
    monkeypatch.setattr(fasttext_training, "PROGRAM", program)
    fasttext_training.run(str(tmp_path / "lines.txt"), tmp_path / "model.bin", 0)
    assert fasttext.load_model(str(tmp_path / "model.bin")).predict("one")[0] == ("__label__a",)
    monkeypatch.setattr(fasttext_training, "PROGRAM", "raise SystemExit('no memory')")
    with pytest.raises(BadRequest, match="fastText cannot be trained with these documents: no memory"):
        fasttext_training.run(str(tmp_path / "lines.txt"), tmp_path / "model.bin", 0)
