"""The proposal of `zyda try --agreement`: thresholds of a cheap score that replace an expensive judge."""

import random
import re

import fasttext
import numpy as np
import pyarrow as pa
import pytest
import yaml
from language_models import WORDS, train_model
from small_corpus import rows, write_rows, zyda_here

from zyda_flows.tasks.accounts.intervals import wilson
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.forecast.try_cascade import (
    best_cut,
    cheapest_cut,
    conditions_of,
    mask_of,
    most_wrong,
    threshold,
    try_cascades,
    without_answers,
)

DOCUMENTS = 900
# The columns of the cheap judge, from the library's probability of the label hq.
SCORES = {"cheap_hq": lambda p: p, "cheap_cc": lambda p: 1 - p, "cheap_prob": lambda p: max(p, 1 - p)}


def mixed(number):
    """Return a text of German and English words, whose share depends on the number."""
    chosen, share = random.Random(number), random.Random(-number - 1).random()
    return " ".join(chosen.choice(WORDS["de" if chosen.random() < share else "en"]) for _ in range(30))


def probabilities(model, texts):
    """Return the probability of the label hq for each text, from fastText's own library."""
    library = fasttext.load_model(str(model))
    return [dict(zip(*library.predict(text, k=-1), strict=True))["__label__hq"] for text in texts]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the folders of two fastText models, whose labels are exchanged; the first reads only letters."""
    folders = [tmp_path_factory.mktemp(name) for name in ("cheap", "deep")]
    train_model(folders[0], ("hq", "cc"), minn=1, maxn=1, bucket=20, epoch=3)
    train_model(folders[1], ("cc", "hq"))
    return folders


@pytest.fixture
def recipe(corpus, models):
    """Load a recipe with a cheap judge, and an expensive judge whose decisions differ for some documents."""
    texts = {f"n{i}": mixed(i) for i in range(DOCUMENTS)}
    write_rows(corpus.folder / "in/mixed.parquet", rows(**texts))
    judges = [
        {"name": "cheap", "model": str(models[0] / "model.bin"), "keep": "stars > 2"},
        {"name": "deep", "model": str(models[1] / "model.bin"), "keep": "cheap_hq > 0.99 OR deep_cc > 0.7"},
    ]
    corpus.texts = texts
    corpus.recipe |= {"judges": judges, "sources": [{"name": "mixed", "files": "in/mixed.parquet"}]}
    return corpus


def test_proposed_conditions_agree_with_the_judge_alone(recipe):
    (found,) = try_cascades(recipe.load(), DOCUMENTS, 0.95)
    texts = [text for name, text in recipe.texts.items() if len(name) % 5 > 2]
    cheap, deep, of = found.only_if, found.keep, recipe.recipe["judges"]
    names = re.findall(r"(cheap_\w+) (>=|<|<=|>) (\S+)", cheap)
    assert names
    is_high_kept = names[0][1] in (">=", "<")
    scores = [SCORES[names[0][0]](p) for p in probabilities(of[0]["model"], texts)]
    alone = [1 - p > 0.7 for p in probabilities(of[1]["model"], texts)]
    at = {sign: float(value) for _, sign, value in names}
    if is_high_kept:
        judged = [at.get(">=", 0) <= score < at.get("<", 2) for score in scores]
        kept_alone = [score >= at.get("<", 2) for score in scores]
    else:
        judged = [at.get(">", -1) < score <= at.get("<=", 1) for score in scores]
        kept_alone = [score <= at.get(">", -1) for score in scores]
    kept = [either or (j and d) for either, j, d in zip(kept_alone, judged, alone, strict=True)]
    equal = sum(a == b for a, b in zip(kept, alone, strict=True)) / len(texts)
    assert found.alone == "deep_cc > 0.7"
    name, other = names[0][0], {"<": ">=", ">": "<="}
    before = [f"{name} {other[sign]} {value} OR " for _, sign, value in names if sign in other]
    assert deep == f"{''.join(before)}deep_cc > 0.7"
    assert found.documents == (len(texts) + 1) // 2
    assert found.equal / found.documents == pytest.approx(equal, abs=0.04)
    assert found.judged / found.documents == pytest.approx(sum(judged) / len(texts), abs=0.1)
    assert found.interval[0] >= 0.95
    assert 0 < found.judged < found.documents / 2
    recipe.recipe["judges"][1] |= {"only_if": found.only_if, "keep": found.keep}
    (again,) = try_cascades(recipe.load(), DOCUMENTS, 0.95)
    assert again == found


def test_command_prints_lines_for_the_recipe(recipe):
    recipe.load()
    printed = zyda_here("try", str(recipe.path), "--agreement", "0.95", "--documents", str(DOCUMENTS)).stdout
    lines = printed.splitlines()
    assert lines[0] == "judge deep of mixed, which alone keeps `deep_cc > 0.7`:"
    fields = yaml.safe_load("\n".join(lines[1:3]))
    assert fields.keys() == {"only_if", "keep"}
    assert re.search(
        r"it reads \d+\.\d%; \d+\.\d\d% of the decisions are equal, with a 95 % interval", lines[3]
    )
    recipe.recipe["judges"][1] |= fields
    recipe.load()


def test_earlier_judge_can_replace_the_last(recipe):
    (found,) = try_cascades(recipe.load(), DOCUMENTS, 0.6)
    assert (found.only_if, found.judged) == ("", 0)
    name, sign, value = found.keep.split()
    texts = [text for name, text in recipe.texts.items() if len(name) % 5 > 2]
    cheap, deep = (probabilities(judge["model"], texts) for judge in recipe.recipe["judges"])
    is_kept = {">=": float.__ge__, "<=": float.__le__}[sign]
    equal = sum(
        is_kept(SCORES[name](p), float(value)) == (1 - q > 0.7) for p, q in zip(cheap, deep, strict=True)
    )
    assert found.equal / found.documents == pytest.approx(equal / len(texts), abs=0.06)
    printed = zyda_here("try", str(recipe.path), "--agreement", "0.6", "--documents", str(DOCUMENTS)).stdout
    assert f"an earlier judge can replace it, with this condition:\nkeep: {found.keep}\n" in printed


def test_samples_and_recipes_without_an_answer_are_one_error(recipe):
    with pytest.raises(BadRecipe, match=r"cannot show an agreement of 0\.999; use --documents \d{5}$"):
        [*try_cascades(recipe.load(), DOCUMENTS, 0.999)]
    judges = recipe.recipe["judges"]
    for changed, message in (
        (judges[:1], "no source has a judge with `keep` after another judge"),
        ([judges[0], {**judges[1], "keep": "stars > 2"}], "does not read the answers of the judge"),
        ([judges[0], {**judges[1], "keep": "deep_cc > n_tokens"}], "a sample has no column n_tokens"),
    ):
        with pytest.raises(BadRecipe, match=message):
            [*try_cascades(recipe.load(judges=changed), DOCUMENTS, 0.9)]


def test_cheapest_cut_is_the_best_of_all_pairs_of_ends():
    numbers = np.random.default_rng(1)
    for case in range(120):
        size = int(numbers.integers(1, 14))
        scores = np.float32(numbers.integers(0, 8, size) / 8)
        decided = numbers.random(size) < scores if case % 3 else numbers.random(size) < 0.5
        wrong = int(numbers.integers(0, 3))
        ends = [-1.0, *sorted({*scores.tolist()}), 2.0]
        best = min(
            sum(low <= score < high for score in scores.tolist())
            for low in ends
            for high in ends
            if low <= high
            and sum(
                (score < low and good) or (score >= high and not good)
                for score, good in zip(scores.tolist(), decided, strict=True)
            )
            <= wrong
        )
        found = cheapest_cut(scores, decided, wrong)
        low, high = (float(end) if end else other for end, other in ((found.low, -1), (found.high, 2)))
        outside = (scores < low) & decided | (scores >= high) & ~decided
        assert found.judged == best == np.sum((scores >= low) & (scores < high))
        assert outside.sum() <= wrong


@pytest.mark.parametrize("sign", [1, -1])
def test_conditions_decide_as_the_judge_if_high_or_low_scores_are_kept(sign):
    random = np.random.default_rng(3)
    scores = random.normal(size=400).astype(np.float32)
    decided = sign * scores > random.normal(scale=0.5, size=400)  # undecided around zero
    cut = best_cut(scores, decided, 0)
    assert cut.is_reversed == (sign < 0)
    assert 0 < cut.judged < 300
    only_if, keep = conditions_of("a score", cut, "is_good")
    table = pa.table({"a score": scores, "is_good": decided})
    is_judged = mask_of(only_if, table)
    assert is_judged.sum() == cut.judged
    assert (mask_of(keep, without_answers(table, {"is_good"}, is_judged)) == decided).all()


def test_thresholds_are_short_and_separate_neighbours():
    for before, at, expected in (
        (0.1, 0.3, "0.2"),
        (0.6123, 0.6124, "0.6124"),
        (0.0180001, 0.0181999, "0.018"),
    ):
        text = threshold(np.float32([before, at]), 1)
        assert np.float32(before) < np.float32(text) <= np.float32(at)
        assert len(text) <= len(expected) + 1
    near = np.float32([0.5, np.nextafter(np.float32(0.5), np.float32(1))])
    assert near[0] < np.float32(threshold(near, 1)) <= near[1]
    assert np.float32(threshold(near, 2)) > near[1]


@pytest.mark.parametrize(("documents", "agreement"), [(500, 0.98), (200, 0.9), (1000, 0.995)])
def test_number_of_wrong_decisions_is_the_largest(documents, agreement):
    wrong = most_wrong(documents, agreement)
    assert wilson(documents - wrong, documents)[0] >= agreement > wilson(documents - wrong - 1, documents)[0]
