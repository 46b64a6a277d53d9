"""Buckets of documents by exact weighted percentiles of their scores, against NumPy on all scores."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_models import train_model
from small_corpus import Corpus, build_here, contents, prose, table_of, write_rows

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadRecipe, ZydaError
from zyda_flows.tasks.labels import scores
from zyda_flows.tasks.labels.scores import Percentiles, keys_of_scores, percentiles_of, scores_of_keys
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import write_table

SCORES = [0.25, 0.5, -1.5, 0.0, -0.0, 1e300, 5e-324, 0.1, 0.1 + 1e-17, None, float("nan"), 7.0]


def buckets_of(values, weights, count):
    """Return the bucket of each score by NumPy: the inverted distribution function of the weights, in whole numbers."""
    values = np.array([np.nan if value is None else value for value in values], np.float64)
    has_score = np.isfinite(values)
    order = np.argsort(values[has_score], kind="stable")
    ordered, ends = values[has_score][order], np.cumsum(np.array(weights, object)[has_score][order])
    percentiles = [
        ordered[next(i for i, end in enumerate(ends) if count * end >= k * ends[-1])]
        for k in range(1, count)
        if len(ends)
    ]
    numbers = np.digitize(values, percentiles) if len(ends) else np.zeros(len(values))
    return [int(number) if is_scored else None for number, is_scored in zip(numbers, has_score, strict=True)]


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """Two sources whose documents have two scores; the second source lacks one of them."""
    corpus = Corpus(tmp_path_factory.mktemp("rated"))
    draw = np.random.default_rng(5)
    rows = [
        {
            "name": f"{number}",
            "a": float(draw.choice([draw.random(), draw.normal(), 0.5])) if number % 9 else None,
            "b": int(draw.integers(0, 5)),
            "text": f"{number} {prose(number, int(draw.integers(2, 40)))}",
        }
        for number in range(300)
    ]
    for number in range(3):
        write_rows(corpus.folder / f"in/web-{number}.parquet", rows[number:200:3])
    write_rows(corpus.folder / "in/wiki.jsonl.gz", [{**row, "b": None} | {"x": 1} for row in rows[200:]])
    corpus.recipe["sources"] = [
        {"name": "web", "files": "in/web-*.parquet", "exempt": True},
        {"name": "wiki", "files": "in/wiki*.jsonl.gz", "exempt": True, "without": ["b"]},
    ]
    return corpus


def with_bucket(corpus, corpus_name="rated", sources=None, **bucket):
    fields = {"sources": sources} if sources else {}
    return corpus.load(name=corpus_name, bucket={"of": ["a"], **bucket}, **fields)


def expected(rows, of, count, weights):
    """Return the bucket of each document by name: the largest of its buckets by each score."""
    sizes = [row["n_tokens"] if weights == "tokens" else 1 for row in rows]
    by_score = [buckets_of([row.get(name) for row in rows], sizes, count) for name in of]
    largest = [
        [number for number in numbers if number is not None] for numbers in zip(*by_score, strict=True)
    ]
    return {row["name"]: max(numbers, default=None) for row, numbers in zip(rows, largest, strict=True)}


@pytest.mark.parametrize(
    ("of", "count", "weights", "within"),
    [
        (["a"], 20, "tokens", "corpus"),
        (["b", "a"], 7, "tokens", "source"),
        (["a", "b"], 20, "documents", "corpus"),
    ],
)
def test_buckets_are_those_of_numpy(rated, monkeypatch, of, count, weights, within):
    monkeypatch.setattr(scores, "MOST_ROWS", 10)
    recipe = with_bucket(rated, of=of, count=count, weights=weights, within=within)
    build_here(recipe)
    rows = {source: table_of(recipe, source) for source in ("web", "wiki")}
    assert sum(map(len, rows.values())) == 300
    groups = rows.values() if within == "source" else [[*rows["web"], *rows["wiki"]]]
    for group in groups:
        assert {row["name"]: row["bucket"] for row in group} == expected(group, of, count, weights)
    found = published_manifest(recipe.folder).percentiles
    assert [(each.source, each.column) for each in found] == [
        (source, name) for source in (["web", "wiki"] if within == "source" else [None]) for name in of
    ]
    first = found[of.index("a")]
    scored = [row for row in next(iter(groups)) if row["a"] is not None]
    assert first.documents == len(scored)
    assert first.without_score == len(next(iter(groups))) - len(scored)
    assert first.weight == sum(row["n_tokens"] if weights == "tokens" else 1 for row in scored)


def test_buckets_have_accounts_folders_and_a_condition(rated):
    recipe = with_bucket(
        rated, "kept", count=4, folders=True, keep="bucket >= 2 AND a IS NOT NULL", of=["a", "b"]
    )
    ledger = build_here(recipe)
    folder = recipe.folder.url
    rows = [*table_of(recipe, "web"), *table_of(recipe, "wiki")]
    assert {row["bucket"] for row in rows} == {2, 3}
    assert ledger.removed("keep_bucket").documents == 300 - len(rows)
    for number in (2, 3):
        names = {row["name"] for row in rows if row["bucket"] == number}
        files = recipe.folder.files(f"published/web/bucket-0{number}")
        stored = pa.concat_tables(pq.read_table(f"{folder}/{path}", columns=["name"]) for path in files)
        in_web = {row["name"] for row in table_of(recipe, "web")}
        assert {*stored.column("name").to_pylist()} == names & in_web
    counted = pq.read_table(f"{folder}/published/buckets.parquet").to_pylist()
    assert sum(row["documents"] for row in counted) == 300
    assert sum(row["tokens"] for row in counted if row["stage"] is None) == sum(
        row["n_tokens"] for row in rows
    )
    assert {row["bucket"] for row in counted if row["stage"] == "keep_bucket"} >= {"00", "01", None}
    card = recipe.folder.folder("published").read("README.md").decode()
    assert (
        "`bucket` of a document is the largest of its buckets by `a` and `b`, of 4 buckets with equal tokens"
        in card
    )
    assert "Documents with `bucket >= 2 AND a IS NOT NULL` were kept." in card
    assert "Buckets, the lowest scores first:" in card
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "keep_bucket"]
    assert {row["bucket"] for row in removed} == {0, 1, None, 2, 3}
    for bucket in {row["bucket"] for row in removed}:
        row = next(row for row in removed if row["bucket"] == bucket)
        explanation = explain(recipe, str(row["doc_id"]))
        assert explanation.text
        assert explanation.condition == "bucket >= 2 AND a IS NOT NULL"
        assert explanation.evidence["a"] is None or bucket in {0, 1}
        assert explanation.evidence.get("bucket") == bucket


def test_decimal_numbers_are_scores(tmp_path):
    corpus = Corpus(tmp_path)
    rows = [{"price": Decimal(f"{number % 7}.50"), "text": prose(number, 30)} for number in range(40)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in/prices.parquet")
    source = {"name": "prices", "files": "in/prices.parquet", "exempt": True}
    recipe = corpus.load(sources=[source], bucket={"of": ["price"], "count": 4, "weights": "documents"})
    build_here(recipe)
    rows = table_of(recipe, "prices")
    assert [row["bucket"] for row in rows] == buckets_of([float(row["price"]) for row in rows], [1] * 40, 4)


def test_documents_removed_before_the_buckets_have_none(tmp_path):
    corpus = Corpus(tmp_path)
    recipe = corpus.load(name="small", bucket={"of": ["stars"], "count": 3, "keep": "bucket >= 1"})
    ledger = build_here(recipe)
    counted = pq.read_table(f"{recipe.folder.url}/published/buckets.parquet").to_pylist()
    entered = sum(ledger.of("bucket", source.name).documents for source in recipe.sources)
    assert ledger.removed("removals").documents
    assert ledger.removed("filter").documents
    assert sum(row["documents"] for row in counted) == entered
    assert {row["stage"] for row in counted} == {None, "keep_bucket"}


def test_files_and_shards_do_not_change_the_buckets(rated, tmp_path):
    recipe = with_bucket(rated, "once", of=["a", "b"])
    build_here(recipe)
    other = Corpus(tmp_path)
    rows = [row for name in ("web", "wiki") for row in table_of(recipe, name)]
    columns = [{key: row.get(key) for key in ("name", "a", "b", "text")} for row in rows]
    write_rows(tmp_path / "in/all.parquet", columns[::-1])
    everything = [{"name": "all", "files": "in/all.parquet", "exempt": True}]
    again = other.load(sources=everything, bucket={"of": ["a", "b"]}, shard_mib=0.02)
    build_here(again)
    assert {row["name"]: row["bucket"] for row in table_of(again, "all")} == {
        row["name"]: row["bucket"] for row in rows
    }


def test_killed_and_resumed_build_has_the_same_bytes(rated, monkeypatch):
    whole = with_bucket(rated, "whole", of=["a"], count=3)
    build_here(whole)
    cut = rated.load(bucket={"of": ["a"], "count": 3}, name="whole", storage=str(rated.folder / "cut"))
    for _ in range(3):
        jobs = 0

        def counted(job, real=Job.counted):
            nonlocal jobs
            jobs += job.stage in {"buckets", "bucket"}
            if jobs == 3:
                raise KeyboardInterrupt
            return real(job)

        monkeypatch.setattr(Job, "counted", counted)
        with pytest.raises(KeyboardInterrupt):
            build_here(cut)
        monkeypatch.undo()
    build_here(cut)
    assert contents(cut) == contents(whole)


def test_scores_of_judges_and_columns_have_buckets_together(rated, tmp_path):
    model = train_model(tmp_path, ("hq", "cc"))
    judges = [{"name": "cheap", "model": str(model), "at": "ingest"}]
    bucket = {"of": ["cheap_hq", "a"], "name": "quality_bucket"}
    recipe = rated.load(name="judged", judges=judges, bucket=bucket)
    build_here(recipe)
    rows = [row for source in ("web", "wiki") for row in table_of(recipe, source)]
    numbers = {row["name"]: row["quality_bucket"] for row in rows}
    assert numbers == expected(rows, ["cheap_hq", "a"], 20, "tokens")
    with pytest.raises(BadRecipe, match="bucket: a judge has the name of the buckets; rename the judge"):
        rated.load(judges=[{"name": "bucket", "model": "m.bin"}], bucket=bucket)


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        ({"of": ["c"]}, "bucket.of: no source has a column 'c'; there are 'name', 'a', 'b', 'text'"),
        ({"of": ["name"]}, "source web: bucket.of: 'name' is string, expected a number"),
        ({"name": "a"}, "bucket.name: the documents have a column 'a' already"),
        ({"keep": "buket > 1"}, 'bucket.keep: buket > 1: unable to find column "buket"'),
    ],
)
def test_faults_are_found_before_the_build(rated, bucket, message):
    with pytest.raises(ZydaError) as raised:
        build_here(with_bucket(rated, "faults", rated.recipe["sources"][:1], **bucket))
    assert any(message in fault for fault in raised.value.faults)


def test_fault_of_a_judge_is_reported_without_its_missing_scores(rated):
    judges = [{"name": "cheap", "model": "missing.bin"}]
    with pytest.raises(ZydaError) as raised:
        build_here(rated.load(name="faults", judges=judges, bucket={"of": ["cheap_hq"]}))
    assert [fault for fault in raised.value.faults if "judge cheap" not in fault] == []


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        ({"of": []}, r"bucket\.of: expected at least 1 item"),
        ({"count": 1}, r"bucket\.count: expected at least 2"),
        ({"weights": "bytes"}, r"bucket\.weights: expected 'tokens' or 'documents'"),
        ({"by": "mean"}, r"bucket\.by: expected 'max'"),
    ],
)
def test_invalid_buckets_raise_an_error_with_their_line(rated, bucket, message):
    with pytest.raises(BadRecipe, match=rf"recipe\.yaml:\d+: .*{message}"):
        with_bucket(rated, **bucket)


FLOATS = st.one_of(st.none(), st.floats(width=64), st.sampled_from(SCORES))


@settings(max_examples=60, deadline=None)
@given(
    shards=st.lists(
        st.lists(st.tuples(FLOATS, st.integers(0, 1 << 30)), max_size=30), min_size=1, max_size=4
    ),
    count=st.integers(2, 30),
    in_one_pass=st.booleans(),
)
def test_percentiles_of_any_scores_are_those_of_numpy(tmp_path_factory, shards, count, in_one_pass):
    folder = Folder(str(tmp_path_factory.mktemp("scores")))
    artifacts = []
    for number, rows in enumerate(shards):
        values = pa.chunked_array([pa.array([value for value, _ in rows], pa.float64())])
        columns = [
            np.zeros(len(rows), np.uint8), keys_of_scores(values), np.array([weight for _, weight in rows], np.int64),
            np.ones(len(rows), np.int64),
        ]  # fmt: skip
        table = scores.added_up([pa.table([*map(pa.array, columns)], schema=scores.SCORES)])
        artifacts.append(write_table(folder, f"{number}.parquet", f"{number}", table))
    most = scores.MOST_ROWS
    scores.MOST_ROWS = most if in_one_pass else 0
    try:
        (found,) = percentiles_of(folder, None, artifacts, 1, count, lambda jobs: [job() for job in jobs])
    finally:
        scores.MOST_ROWS = most
    rows = [row for some in shards for row in some]
    finite = [(value, weight) for value, weight in rows if value is not None and np.isfinite(value)]
    assert isinstance(found, Percentiles)
    assert (found.documents, found.without) == (len(finite), len(rows) - len(finite))
    percentiles = scores_of_keys(np.array(found.keys, np.uint64)).tolist()
    if not finite:
        assert not percentiles
        return
    values = np.array([value for value, _ in finite]) + 0.0
    assert np.digitize(values, percentiles).tolist() == buckets_of(
        values, [weight for _, weight in finite], count
    )
