"""Judges: several models in sequence, and the documents that each of them judges and keeps."""

import re
from io import BytesIO

import fasttext
import pyarrow.parquet as pq
import pytest
from language_models import train_model
from small_corpus import QUALITY, build_here, contents, table_of

from zyda_flows.flows.command.explain import decision
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadRecipe, ZydaError
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.survey import check_sources
from zyda_flows.tasks.quality import fasttext_models
from zyda_flows.tasks.quality.classify import AnswersForShard


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("fasttext"), ("hq", "cc"))


def judge(name, model, **fields):
    return {"name": name, "model": str(model), **fields}


def theirs(model, rows):
    """Return the probability of the label hq for each document by name, from fastText's own library."""
    library = fasttext.load_model(str(model))
    predicted = (library.predict(row["text"].replace("\n", " "), k=-1) for row in rows)
    scores = (dict(zip(*prediction, strict=True))["__label__hq"] for prediction in predicted)
    return {row["name"]: score for row, score in zip(rows, scores, strict=True)}


def accounts_of(recipe):
    return pq.read_table(BytesIO(recipe.folder.read("published/judges.parquet"))).to_pylist()


def counts_of(rows):
    """Return the documents, tokens and bytes of each row."""
    return {
        "documents": [1] * len(rows),
        "tokens": [row["n_tokens"] for row in rows],
        "bytes": [len(row["text"].encode()) for row in rows],
    }


def middle_of(scores):
    ordered = sorted(scores.values())
    return (ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2]) / 2


def removed(recipe):
    table = table_of(recipe, "removed")
    return {(row["source"], row["stage"]) for row in table if row["stage"].startswith(("keep", "filter"))}


@pytest.fixture
def corpus(corpus):
    """The small corpus without conditions of its own."""
    for source in corpus.recipe["sources"]:
        source.pop("keep", None)
    return corpus


@pytest.fixture
def every_document(corpus):
    """The published documents of a build without judges, by source."""
    recipe = corpus.load(name="plain")
    build_here(recipe)
    return {source.name: table_of(recipe, source.name) for source in recipe.sources}


def test_judges_of_a_recipe_judge_each_source_in_their_order(corpus, model, every_document):
    scores = theirs(model, [row for rows in every_document.values() for row in rows])
    threshold = middle_of(scores)
    judges = [
        judge("cheap", model, keep=f"cheap_hq >= {threshold:.9f}"),
        judge("deep", QUALITY, max_tokens=64, probabilities=True, keep="deep_High >= 0 AND deep_Low >= 0"),
    ]
    recipe = corpus.load(judges=judges)
    ledger = build_here(recipe)
    published = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    assert {row["name"] for row in published} == {
        name for name, score in scores.items() if score >= threshold
    }
    for row in published:
        assert row["cheap_hq"] == pytest.approx(scores[row["name"]], abs=1e-5)
        assert row["deep_pred"] in {"High", "Medium", "Low"}
        each = {label: row[f"deep_{label}"] for label in ("High", "Medium", "Low")}
        assert max(each, key=each.get) == row["deep_pred"]
        assert row["deep_prob"] == max(each.values()) <= 1
        assert sum(each.values()) == pytest.approx(1, abs=2e-3)
    for source, rows in every_document.items():
        below = sum(scores[row["name"]] < threshold for row in rows)
        assert ledger.of("keep_cheap", source).documents == len(rows) - below
        assert ledger.of("classify_deep", source).documents == len(rows) - below
    assert {stage for _, stage in removed(recipe)} == {"keep_cheap"}
    names = {row["text"]: row["name"] for rows in every_document.values() for row in rows}
    for row in (row for row in table_of(recipe, "removed") if row["stage"] == "keep_cheap"):
        explanation = explain(recipe, str(row["doc_id"]))
        assert row["cheap_hq"] == pytest.approx(scores[names[explanation.text]], abs=1e-5)
        assert row["deep_pred"] is None
        assert decision(explanation).endswith(
            f" is not true for it: cheap_hq >= {threshold:.9f} (cheap_pred {row['cheap_pred']}, cheap_prob "
            f"{row['cheap_prob']:.4g}, cheap_cc {row['cheap_cc']:.4g}, cheap_hq {row['cheap_hq']:.4g})"
        )
    (origin, *_) = published_manifest(recipe.folder).made_of
    assert [(each["judge"], each["name"]) for each in origin.models] == [
        ("cheap", str(model)), ("deep", str(QUALITY)),
    ]  # fmt: skip
    card = recipe.folder.folder("published").read("README.md").decode()
    assert f"documents with `cheap_hq >= {threshold:.9f}` were kept" in card


def test_only_undecided_documents_are_judged_and_other_scores_are_null(corpus, model, every_document):
    scores = theirs(model, [row for rows in every_document.values() for row in rows])
    threshold = middle_of(scores)
    undecided = f"cheap_hq < {threshold:.9f}"
    judges = [judge("cheap", model), judge("deep", QUALITY, max_tokens=64, only_if=undecided)]
    judges[1]["keep"] = f"cheap_hq >= {threshold:.9f} OR deep_pred != 'High'"
    recipe = corpus.load(judges=judges)
    ledger = build_here(recipe)
    all_judged = {**judges[1], "only_if": None, "keep": None}
    everything = corpus.load(judges=[*judges[:1], all_judged], name="everything")
    build_here(everything)
    counted = {(row["judge"], row["source"]): row for row in accounts_of(recipe)}
    assert len(counted) == 2 * len(recipe.sources)
    for source in recipe.sources:
        full = table_of(everything, source.name)
        is_judged = [scores[row["name"]] < threshold for row in full]
        is_removed = [
            judged and row["deep_pred"] == "High" for judged, row in zip(is_judged, full, strict=True)
        ]
        parts = {
            "judged": is_judged,
            "not_judged": [not judged for judged in is_judged],
            "removed": is_removed,
        }
        assert {
            unit: count for unit, count in counted["deep", source.name].items() if "control" not in unit
        } == {
            "judge": "deep",
            "source": source.name,
        } | {
            f"{part}_{unit}": sum(count for count, is_in in zip(counts, chosen, strict=True) if is_in)
            for part, chosen in parts.items()
            for unit, counts in counts_of(full).items()
        }
        assert counted["cheap", source.name]["judged_documents"] == len(full)
        assert counted["cheap", source.name]["not_judged_documents"] == 0
        assert ledger.removed("keep_deep", source.name).documents == sum(is_removed)
        assert len(table_of(recipe, source.name)) == len(full) - sum(is_removed)
    assert any(row["removed_documents"] for row in counted.values())
    card = recipe.folder.folder("published").read("README.md").decode()
    cells = [counted["deep", "best"][f"{part}_{unit}"] for unit in ("documents", "tokens") for part in parts]
    assert f"| deep | best | {' | '.join(f'{cell:,}' for cell in cells)} |" in card
    for source in recipe.sources:
        answers = {row["name"]: row for row in table_of(everything, source.name)}
        for row in table_of(recipe, source.name):
            full = answers[row["name"]]
            is_undecided = scores[row["name"]] < threshold
            assert row["deep_pred"] == (full["deep_pred"] if is_undecided else None)
            assert row["deep_prob"] == (full["deep_prob"] if is_undecided else None)


def test_another_condition_runs_the_model_only_on_documents_without_an_answer(corpus, model, monkeypatch):
    asked = []
    classified = AnswersForShard.classified
    monkeypatch.setattr(
        AnswersForShard, "classified", lambda job, ids: (asked.extend(ids), classified(job, ids))[1]
    )
    limits = ["stars < 2", "stars < 4", "stars >= 2", "stars >= 0"]
    for limit in limits:
        before, recipe = len(asked), corpus.load(judges=[judge("cheap", model, only_if=limit)])
        build_here(recipe)
        rows = [row for source in recipe.sources for row in table_of(recipe, source.name)]
        if limit == "stars < 2":
            assert len(asked) == sum(row["stars"] < 2 for row in rows) > 0
        elif limit == "stars < 4":
            assert len(asked) - before == sum(2 <= row["stars"] < 4 for row in rows) > 0
    assert len(asked) == len(rows)
    assert len({*asked}) == len(asked)
    fresh = corpus.load(judges=[judge("cheap", model, only_if=limits[-1])], name="fresh")
    build_here(fresh)
    documents = {path: data for path, data in contents(recipe).items() if path.startswith(("best", "middle"))}
    assert documents == {path: contents(fresh)[path] for path in documents} != {}


def test_judge_before_deduplication_judges_duplicates_too(corpus, model, every_document):
    recipe = corpus.load(judges=[judge("cheap", model, at="ingest", keep="cheap_hq >= 0")])
    ledger = build_here(recipe)
    assert [line.stage for line in ledger.lines if line.source == "best"][:3] == [
        "ingest", "classify_cheap", "keep_cheap",
    ]  # fmt: skip
    for source in recipe.sources:
        assert ledger.of("classify_cheap", source.name) == ledger.of("ingest", source.name)
        published = table_of(recipe, source.name)
        assert [row["name"] for row in published] == [row["name"] for row in every_document[source.name]]
        scores = theirs(model, published)
        for row in published:
            assert row["cheap_hq"] == pytest.approx(scores[row["name"]], abs=1e-5)


def test_better_judged_copy_is_kept_if_the_judge_removes_the_other_copy(corpus, model):
    plain = corpus.load(name="plain", judges=[judge("cheap", model, at="ingest")])
    build_here(plain)
    row = next(row for row in table_of(plain, "best") if row["name"] == "best_of_all")
    keep = f"cheap_hq != {row['cheap_hq']:.12f}"
    sources = corpus.recipe["sources"]
    sources[0]["judges"] = [judge("cheap", model, at="ingest", keep="name != 'best_of_all'")]
    recipe = corpus.load(judges=[judge("cheap", model, at="ingest", keep=keep)])
    build_here(recipe)
    names = {row["name"] for source in recipe.sources for row in table_of(recipe, source.name)}
    assert "best_of_all" not in names
    assert names & {"its_internal_copy", "middle_copy", "worst_copy"}


def test_sources_have_their_own_judges_and_classify_runs_last(corpus, model):
    classify = {"model": str(QUALITY), "keep": ["High", "Medium", "Low"], "max_tokens": 64}
    sources = corpus.recipe["sources"]
    sources[0]["judges"] = []
    sources[1]["judges"] = [judge("own", model)]
    sources[2] |= {"classify": classify, "keep": "cheap_hq >= 0 AND quality_prob > 0"}
    recipe = corpus.load(judges=[judge("cheap", model)])
    ledger = build_here(recipe)
    columns = {source.name: {*table_of(recipe, source.name)[0]} for source in recipe.sources}
    assert not {"cheap_hq", "own_hq", "quality_pred"} & columns["best"]
    assert {"own_hq", "cheap_hq"} & columns["middle"] == {"own_hq"}
    assert {"cheap_hq", "quality_pred", "own_hq"} & columns["worst"] == {"cheap_hq", "quality_pred"}
    steps = [step.name for step in pipeline.steps(recipe) if "worst" in step.sources]
    assert [name for name in steps if name.startswith(("classify", "filter"))] == [
        "classify_cheap", "classify", "filter",
    ]  # fmt: skip
    assert ledger.of("classify_own", "middle") == ledger.of("publish", "middle")


def test_documents_removed_by_judges_count_as_losses_by_filters(corpus, model):
    sources = [source | {"keep": "stars < 100"} for source in corpus.recipe["sources"]]
    judges = [judge("cheap", model, keep="stars < 1")]
    with pytest.raises(ZydaError, match=r"source best: the filter would remove .* but max_loss is 0\.1"):
        build_here(corpus.load(judges=judges, sources=sources, max_loss={"filter": 0.1}))
    build_here(corpus.load(judges=judges, sources=sources, max_loss={"dedup": 0.9}))


@pytest.mark.parametrize(
    ("judges", "message"),
    [
        ([judge("a", "m.bin"), judge("a", "n.bin")], "two judges have the name a; rename one of them"),
        ([judge("quality", "m.bin")], "quality is the name of the judge of `classify`; use another name"),
        ([judge("Edu", "m.bin")], r"judges\[0\]\.name: expected lower-case letters, digits and _"),
        ([judge("a", "m.bin", at="publish")], r"judges\[0\]\.at: expected 'ingest' or 'after_dedup'"),
        ([judge("a", "m.bin", kep="b > 1")], r"judges\[0\]\.kep: unknown field; did you mean keep\?"),
        ([judge("a", "m.bin", only_if=" ")], r"judges\[0\]\.only_if: "),
        (["m.bin"], r"judges\[0\]: expected a mapping"),
    ],
)
def test_invalid_judges_raise_a_single_error(corpus, judges, message):
    with pytest.raises(BadRecipe, match=rf"^\S+recipe\.yaml:\d+: .*{message}") as raised:
        corpus.load(judges=judges)
    assert len(raised.value.faults) == 1


def test_judges_of_two_sources_run_in_the_same_order_and_place(corpus):
    sources = corpus.recipe["sources"]
    sources[0]["judges"] = [judge("a", "m.bin"), judge("b", "m.bin")]
    sources[1]["judges"] = [judge("b", "m.bin"), judge("a", "m.bin")]
    with pytest.raises(BadRecipe, match="runs before another judge in a source, and after it in another"):
        corpus.load()
    sources[1]["judges"] = [judge("a", "m.bin", at="ingest")]
    with pytest.raises(BadRecipe, match="a has two values of `at`"):
        corpus.load()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"keep": "deep_prob > 0.5"},
            "judge deep, which adds a column that it reads, runs after this condition",
        ),
        (
            {"only_if": "cheap_hq > 0.5"},
            "judge cheap, which adds a column that it reads, runs after this condition",
        ),
        ({"keep": "cheap_best > 0.5"}, 'unable to find column "cheap_best"'),
        ({"only_if": "stars"}, "expected Boolean"),
        ({"keep": "cheap_hq >> 1; DROP"}, "judge cheap.keep: "),
    ],
)
def test_invalid_conditions_are_found_before_the_build(corpus, model, fields, message):
    recipe = corpus.load(judges=[judge("cheap", model, **fields), judge("deep", QUALITY)])
    with pytest.raises(ZydaError) as raised:
        build_here(recipe)
    assert len(raised.value.faults) == len(recipe.sources)
    assert all(message in fault and "judge cheap." in fault for fault in raised.value.faults)


def test_models_that_add_the_same_column_are_refused(corpus, model, tmp_path):
    other = train_model(tmp_path, ("b_hq", "cc"))
    recipe = corpus.load(judges=[judge("a", other), judge("a_b", model)])
    with pytest.raises(ZydaError, match=r"judge a_b\.model: .* adds the column a_b_hq, which the source has"):
        build_here(recipe)


def test_damaged_model_of_a_judge_raises_its_fault(corpus, model, tmp_path):
    damaged = tmp_path / "own.bin"
    damaged.write_bytes(model.read_bytes()[:-1])
    recipe = corpus.load(judges=[judge("cheap", damaged)])
    with pytest.raises(ZydaError) as raised:
        build_here(recipe)
    (fault,) = raised.value.faults
    assert re.match(rf"\S+recipe\.yaml:\d+: judge cheap\.model: {re.escape(str(damaged))}: ", fault)


def test_model_of_the_recipe_is_checked_once_for_all_sources(corpus, model, monkeypatch):
    located = []
    locate = fasttext_models.locate
    monkeypatch.setattr(fasttext_models, "locate", lambda *name: located.append(name) or locate(*name))
    check_sources(corpus.load(judges=[judge("cheap", model)]))
    assert located == [(str(model), None)]
