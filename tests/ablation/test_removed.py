"""Removed documents against kept documents: word salad is unlike the kept texts, a random choice is not."""

import json
import os
import random
import string

import numpy as np
import pytest
from small_corpus import Corpus, build_here, prose, table_of

from zyda_flows.flows.reporting.removed_page import page_of
from zyda_flows.tasks.ablation import removed_cells
from zyda_flows.tasks.ablation.removed import RemovedOptions, compare_removed, removed_experiment
from zyda_flows.tasks.ablation.removed_cells import Measured, difference_of
from zyda_flows.tasks.ablation.removed_passages import cut_texts
from zyda_flows.tasks.ablation.removed_texts import RemovedGroup, sampled_groups, texts_of_removed
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Denied

BOILERPLATES = [
    "".join(random.Random(seed).choices(string.ascii_lowercase + "    ", k=160)) for seed in range(3)
]
OPTIONS = RemovedOptions(parameters=160_000, tokens=12_000, documents=100, repeats=2)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory, compiled):
    """Return a built corpus: a rule removed word salad, `keep` a random fifth of the rest; boilerplates are cut."""
    folder, chance = tmp_path_factory.mktemp("removed"), random.Random(4)
    corpus = Corpus(folder)

    def salad(words):
        drawn = ["".join(chance.choices(string.ascii_lowercase, k=7)) for _ in range(words)]
        return " ".join([*drawn, "me@example.org"])

    rows = []
    for number in range(1100):
        is_salad = number % 7 == 0
        words = chance.randint(40, 80)
        text = salad(words) if is_salad else prose(f"document {number}", words)
        drawn = chance.random()
        if number % 5 == 1 and not is_salad and drawn < 0.8:
            text += f" {BOILERPLATES[number % 3]}"
        rows.append({"name": str(number), "text": text, "chance": drawn, "salad": is_salad})
    path = folder / "in" / "all.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    corpus.recipe["sources"] = [{"name": "all", "files": "in/all.jsonl", "keep": "chance < 0.8"}]
    corpus.recipe["passages"] = [{"length": 100, "drop_document": 1.0}]
    corpus.recipe["documents"] = [{"filter": {"pii": {"mail": [None, 0]}}}]
    recipe = corpus.load()
    build_here(recipe)
    return corpus, recipe, {row["name"]: row for row in rows}


def test_texts_of_removed_documents_are_those_of_the_source(filtered):
    _, recipe, rows = filtered
    groups = sampled_groups(PublishedCorpus.of(recipe), 1000, 1)
    assert {group.stage for group in groups} == {"rules", "filter"}
    texts = texts_of_removed(recipe, groups, print)
    kept = {row["doc_id"] for row in table_of(recipe, "all")}
    for group in groups:
        assert len(group.ids) == group.total
        assert not kept.intersection(group.ids)
        is_salad = group.stage == "rules"
        expected = {
            row["text"]
            for row in rows.values()
            if row["salad"] == is_salad and (is_salad or row["chance"] >= 0.8)
        }
        assert {texts[doc_id] for doc_id in group.ids} == expected
    (few, _) = sampled_groups(PublishedCorpus.of(recipe), 10, 1)
    assert len(few.ids) == 10
    assert {*few.ids} < {*groups[0].ids}


@pytest.mark.slow
def test_word_salad_is_unlike_the_kept_texts_and_a_random_choice_is_not(filtered, monkeypatch):
    corpus, recipe, _ = filtered
    monkeypatch.setattr(removed_cells, "FEWEST", 5)
    monkeypatch.setattr(removed_cells, "RESAMPLES", 200)
    path = str(corpus.write())
    experiment = removed_experiment(recipe, path, OPTIONS)
    result = compare_removed(recipe, experiment, OPTIONS, lambda runs, _: [run() for run in runs], print)
    groups = {group.stage: group for group in result.groups}
    salad, cut, others = groups["rules"], groups["passages"], groups["filter"]
    assert salad.verdict == cut.verdict == "less like the kept texts"
    assert others.verdict == "no difference seen"
    assert salad.difference > 10 * abs(others.difference)
    assert others.low < 0 < others.high
    again = compare_removed(recipe, experiment, OPTIONS, lambda runs, _: [1 / 0 for _ in runs], print)
    assert again == result  # no run is trained again
    html = page_of(result).html()
    assert all(each in html for each in ("less like the kept texts", "passages", "<svg", "CPU, one core"))


def test_cut_spans_and_windows_have_the_same_lengths(filtered):
    _, recipe, rows = filtered
    corpus = PublishedCorpus.of(recipe)
    found = cut_texts(corpus, 1000, 1)
    kept = table_of(recipe, "all")
    is_short = {row["text"] for row in kept if row["text"] not in {each["text"] for each in rows.values()}}
    assert found.total == len(is_short) > 50
    assert {*found.spans} == {*found.windows} == {"all"}
    spans, windows = found.spans["all"], found.windows["all"]
    assert len(spans) == found.total
    # A span may begin with the last letters of the text before, if two documents have them in common.
    assert all(any(span[12:].strip() in text for text in BOILERPLATES) for span in spans)
    assert sorted(map(len, windows)) == sorted(map(len, spans))
    published = {row["text"] for row in kept}
    assert all(any(window in text for text in published) for window in windows)
    owners = {text for text in published if any(text.endswith(each) for each in BOILERPLATES)}
    assert len(owners) == 3
    assert owners <= {*found.left_out} <= published


def test_changed_recipe_is_refused(filtered):
    corpus, _, _ = filtered
    before = corpus.recipe["documents"]
    corpus.recipe["documents"] = []
    try:
        with pytest.raises(Denied, match="have changed since the last build"):
            removed_experiment(corpus.load(), str(corpus.path), OPTIONS)
    finally:
        corpus.recipe["documents"] = before
        corpus.write()


def test_difference_equals_a_plain_mean_of_cells(monkeypatch):
    monkeypatch.setattr(removed_cells, "FEWEST", 3)
    chance = np.random.default_rng(1)
    sizes = {"removed:s: r|a": chance.integers(1, 100, 40), "source:a": chance.integers(1, 100, 60)}
    measured = {
        name: Measured(
            each.astype(float),
            chance.random((len(each), 2)) * each[:, None] * (2 if "removed" in name else 1),
        )
        for name, each in sizes.items()
    }
    group = RemovedGroup("s", "r", tuple(range(40)), ("a",) * 40, 77)
    found = difference_of(group, measured, 0.05)
    edges = [float(np.quantile(sizes["source:a"], tenth / 10)) for tenth in range(1, 10)]
    cells = {}
    for name, documents in measured.items():
        for size, bits in zip(documents.sizes.tolist(), documents.bits.tolist(), strict=True):
            cell = cells.setdefault(sum(size >= edge for edge in edges), {})
            cell.setdefault(name, []).append((size, sum(bits) / 2))
    total, weight, left_out = 0.0, 0, 0
    for cell in cells.values():
        both = [cell.get(name, []) for name in sizes]
        if min(map(len, both)) < 3:
            left_out += bool(both[0])
            continue
        own, other = (sum(bits for _, bits in side) / sum(size for size, _ in side) for side in both)
        total, weight = total + len(both[0]) * (own - other), weight + len(both[0])
    assert found.difference == pytest.approx(total / weight)
    assert (found.compared, found.left_out, found.documents) == (weight, left_out, 77)
    assert found.low < found.difference < found.high
    assert found.low > 0


def test_changed_source_is_refused_in_a_line(filtered, tmp_path):
    corpus, recipe, _ = filtered
    path = corpus.folder / "in" / "all.jsonl"
    content, stat = path.read_bytes(), path.stat()
    groups = sampled_groups(PublishedCorpus.of(recipe), 10, 1)
    try:
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(BadInput) as error:
            texts_of_removed(recipe, groups, print)
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert len(str(error.value).splitlines()) == 1
    assert "all.jsonl" in str(error.value)
