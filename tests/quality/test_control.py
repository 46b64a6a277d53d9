"""The comparison of a judge that reads only undecided documents with the judge alone, on a sample."""

from io import BytesIO

import numpy as np
import pyarrow.parquet as pq
import pytest
from language_models import train_model
from small_corpus import build_here, contents, table_of

from zyda_flows.tasks.accounts.intervals import wilson
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.lookup.verify_and_clean import strangers_in
from zyda_flows.tasks.quality import control
from zyda_flows.tasks.quality.classify import AnswersForShard
from zyda_flows.tasks.quality.keep_alone import alone, comparison_in

OF_ONLY_IF = ("cheap_hq",)
OWN = ("edu_score", "edu_int_score")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A cheap and an expensive model of fastText."""
    return [train_model(tmp_path_factory.mktemp("model"), labels) for labels in (("hq", "cc"), ("cc", "hq"))]


@pytest.fixture
def cascade(corpus, models):
    """Load the small corpus with a judge that reads some documents, and return the thresholds, too."""
    for source in corpus.recipe["sources"]:
        source.pop("keep", None)
    cheap, deep = (
        {"name": name, "model": str(model)} for name, model in zip(("cheap", "deep"), models, strict=True)
    )
    everything = corpus.load(name="everything", judges=[cheap, deep])
    build_here(everything)
    rows = {source.name: table_of(everything, source.name) for source in everything.sources}
    of = {
        name: sorted(row[name] for each in rows.values() for row in each) for name in ("cheap_hq", "deep_hq")
    }
    sure, good = of["cheap_hq"][len(of["cheap_hq"]) // 2], of["deep_hq"][len(of["deep_hq"]) // 2]
    deep |= {
        "only_if": f"cheap_hq < {sure:.9f}",
        "keep": f"cheap_hq >= {sure:.9f} OR deep_hq > {good:.9f}",
    }

    def load(**changes):
        return corpus.load(
            judges=[cheap, {**deep, **changes}], name=f"with-{'-'.join(map(str, changes)) or 'sample'}"
        )

    return load, rows, (np.float32(sure), np.float32(good))


def accounts_of(recipe):
    rows = pq.read_table(BytesIO(recipe.folder.read("published/judges.parquet"))).to_pylist()
    return {row["source"]: row for row in rows if row["judge"] == "deep"}


def equal_in(rows, sure, good):
    """Return whether both decisions about each document are equal, in plain Python."""
    answers = [(row["cheap_hq"], row["deep_hq"]) for row in rows]
    return [(cheap >= sure or deep > good) == (deep > good) for cheap, deep in answers]


def test_decisions_are_compared_on_all_documents_of_a_small_source(cascade):
    load, rows, thresholds = cascade
    recipe = load()
    ledger = build_here(recipe)
    card = recipe.folder.read("published/README.md").decode()
    shares = []
    for source, row in accounts_of(recipe).items():
        equal = equal_in(rows[source], *thresholds)
        assert (row["control_documents"], row["control_equal"]) == (len(equal), sum(equal))
        assert (row["control_low"], row["control_high"]) == pytest.approx(wilson(sum(equal), len(equal)))
        assert row["not_judged_documents"] > 0
        assert (
            f"Of {len(equal)} documents of {source}, drawn by a hash of their ids, the judge deep alone"
            in card
        )
        assert ledger.of("control_deep", source) == ledger.of("classify_deep", source)
        shares.append(row["control_equal"] / row["control_documents"])
    assert len(shares) == len(rows)
    assert min(shares) < 1
    assert f"`deep_hq > {thresholds[1]:.9f}`" in card


def test_published_documents_are_equal_with_and_without_a_sample(cascade):
    load, rows, _ = cascade
    sampled, plain = load(), load(control=0)
    for recipe in (sampled, plain):
        build_here(recipe)
    assert all(row["control_documents"] is None for row in accounts_of(plain).values())
    assert "drawn by a hash" not in plain.folder.read("published/README.md").decode()
    files = [
        {
            path: data
            for path, data in contents(recipe).items()
            if path.partition("/")[0] in {*rows, "removed"}
        }
        for recipe in (sampled, plain)
    ]
    assert files[0] == files[1]
    assert len(files[0]) > len(rows)
    assert strangers_in(sampled) == []


def test_only_documents_of_the_sample_are_judged_in_addition(cascade, monkeypatch):
    load, rows, (sure, good) = cascade
    asked, classified = [], AnswersForShard.classified
    monkeypatch.setattr(
        AnswersForShard, "classified", lambda job, ids: (asked.extend(ids.tolist()), classified(job, ids))[1]
    )
    monkeypatch.setattr(control, "share_of", lambda control, documents: 0.5)
    recipe = load()
    build_here(recipe)
    drawn = [
        row
        for each in rows.values()
        for row in each
        if hash_ids(np.array([row["doc_id"]], np.uint64))[0] < 2**63
    ]
    undecided = [row for each in rows.values() for row in each if row["cheap_hq"] < sure]
    everyone = {row["doc_id"] for each in rows.values() for row in each}
    assert 0 < len(drawn) < len(everyone)
    assert sorted(asked) == sorted([*everyone, *{row["doc_id"] for row in (*drawn, *undecided)}])
    found = accounts_of(recipe).values()
    assert sum(row["control_documents"] for row in found) == len(drawn)
    assert sum(row["control_equal"] for row in found) == sum(equal_in(drawn, sure, good))
    assert {
        row["doc_id"] for name in rows for row in table_of(recipe, name) if row["deep_hq"] is not None
    } <= {row["doc_id"] for row in undecided}


def test_condition_that_fails_without_only_if_is_one_error(cascade):
    load, _, (sure, _) = cascade
    with pytest.raises(ZydaError, match=r"judge deep\.control: .*: it cannot be evaluated where") as raised:
        build_here(
            load(keep=f"cheap_hq >= {sure:.9f} OR 1 / (deep_cc - deep_cc) > 1", only_if="cheap_hq > 2")
        )
    assert len(str(raised.value).splitlines()) == 1


def test_keep_without_the_judge_is_not_compared(cascade):
    load, _, _ = cascade
    recipe = load(keep="stars >= 0")
    build_here(recipe)
    assert all(row["control_documents"] is None for row in accounts_of(recipe).values())


def test_sample_has_enough_documents_and_does_not_depend_on_others():
    ids = (np.uint64(3) << np.uint64(54)) + np.arange(1_000_000, dtype=np.uint64)
    drawn = control.is_drawn(ids, control.share_of(2000, len(ids)))
    assert 2000 <= drawn.sum() <= 2600
    parts = [control.is_drawn(part, control.share_of(2000, len(ids))) for part in np.array_split(ids, 7)]
    assert np.array_equal(np.concatenate(parts), drawn)
    assert control.is_drawn(ids[:2100], control.share_of(2000, 2100)).all()
    assert control.share_of(2000, 0) == 1


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("cheap_hq >= 0.6 OR edu_score >= 2.5", "edu_score >= 2.5"),
        ("cheap_hq >= 0.2 AND (cheap_hq >= 0.6 OR edu_score >= 2.5)", "(edu_score >= 2.5)"),
        ("NOT (cheap_hq < 0.6 AND edu_score < 2.5)", "NOT (edu_score < 2.5)"),
        ("edu_score > 2 OR (edu_score IS NULL AND cheap_hq >= 0.6)", "edu_score > 2 OR (edu_score IS NULL)"),
        ("(cheap_hq > 0.6 OR edu_int_score = 3) AND stars > 2", "(edu_int_score = 3) AND stars > 2"),
        ("cheap_hq > 0 AND edu_score / cheap_hq > 2", "cheap_hq > 0 AND edu_score / cheap_hq > 2"),
        ("CASE WHEN edu_score IS NULL THEN cheap_hq > 1 ELSE edu_score > 2 END",) * 2,
        ("cheap_hq > 0.5", None),
        ("edu_score > 1", "edu_score > 1"),
        ("`edu_score` > 1 OR cheap_hq > 0", '"edu_score" > 1'),
    ],
)
def test_condition_of_a_judge_alone(keep, expected):
    assert alone(keep, OF_ONLY_IF, OWN) == expected


def test_intervals_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for equal, documents in ((0, 5), (5, 5), (1963, 2000), (1, 2224), (7, 11)):
        expected = stats.binomtest(equal, documents).proportion_ci(0.95, method="wilson")
        assert wilson(equal, documents) == pytest.approx((expected.low, expected.high), abs=1e-6)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("edu_score >= 2.5", ("edu_score", ">=", "2.5")),
        ("2.5 <= edu_score", ("edu_score", ">=", "2.5")),
        ("(edu_score < -.5) -- low", ("edu_score", "<", "-0.5")),
        ('"ft_c++" > 1e-3', ("ft_c++", ">", "1e-3")),
        ("edu_score BETWEEN 1 AND 2", None),
        ("edu_score = 2", None),
        ("edu_pred = 'x'", None),
        ("edu_pred >= '2'", None),
        ("meta.score >= 2", None),
        ("edu_score >= web_score", None),
        ("NOT edu_score < 2", None),
        ("2 < 3", None),
    ],
)
def test_comparison_with_a_number_is_found_in_each_form(condition, expected):
    assert comparison_in(condition) == expected
