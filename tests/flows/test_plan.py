"""Plans compared with the costs of the build, and warnings about too little memory or storage."""

import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import QUALITY, Corpus, build_here, prose, rows, write_rows, zyda_here

from zyda_flows.flows.command.plan import sentences
from zyda_flows.flows.command.terminal import as_time
from zyda_flows.tasks.forecast import run_trial
from zyda_flows.tasks.forecast.plan import plan_of
from zyda_flows.tasks.lookup.cluster_counting import STATS
from zyda_flows.tasks.lookup.document_counting import STATS as DOCUMENT_STATS
from zyda_flows.tasks.lookup.judge_counting import STATS as JUDGE_STATS
from zyda_flows.tasks.planning.estimates import PLAN, Plan, keep_plan
from zyda_flows.tasks.planning.spending import Spending, keep_spending, last_spending, spending_of_published
from zyda_flows.tasks.spent import METER, Spent, calling_on_result
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS

FILES, DOCUMENTS = 30, 40
STATISTICS = (STATS, DOCUMENT_STATS, JUDGE_STATS)  # counted for the report
GIB = 1 << 30
pytestmark = pytest.mark.slow


def here(function, items, **_):
    return [function(item) for item in items]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a corpus of two sources with FILES files each: Parquet with several row groups, and JSON Lines."""
    corpus = Corpus(tmp_path_factory.mktemp("many"))
    for i in range(FILES):
        documents = {f"m{i}_{j}": prose(f"m{i}_{j}", 200 + 37 * (j % 9)) for j in range(DOCUMENTS)}
        table = pa.Table.from_pylist(rows(**documents))
        path = corpus.folder / f"many/part-{i}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, row_group_size=10)
        others = {f"l{i}_{j}": prose(f"l{i}_{j}", 150 + 53 * (j % 5)) for j in range(DOCUMENTS)}
        write_rows(corpus.folder / f"lines/part-{i}.jsonl.gz", rows(**others))
    corpus.recipe["sources"] = [
        {"name": "many", "files": "many/*.parquet", "keep": "stars > 0"},
        {"name": "lines", "files": "lines/*.jsonl.gz"},
    ]
    corpus.recipe |= {
        "name": "many",
        "published_mib": 0.001,
    }  # in a shared file, such short texts compress better
    return corpus


def planned(recipe, memory=8 * GIB):
    return plan_of(recipe, 2, memory, here)


def spent_by(recipe):
    """Build a corpus in this process. Return the ledger and the costs of each stage, as counted on a worker."""
    by_stage = dict[str, Spent]()

    def add(stage, _, __, spent):
        by_stage[stage] = by_stage.get(stage, Spent()) + spent

    token = ALLOWED_DEATHS.set(3)
    try:
        METER.take()
        with calling_on_result(add):
            ledger = build_here(recipe)
    finally:
        ALLOWED_DEATHS.reset(token)
    return ledger, by_stage


def test_plan_predicts_the_costs_of_the_build(many):
    """From a sample of the files: documents and tokens are within the planned ranges, numbers of tasks are exact, and
    bytes, files and requests are approximate.
    """
    recipe = many.load()
    plan = planned(recipe)
    assert not recipe.folder.files("work"), "it builds nothing there"
    ledger, spent = spent_by(recipe)
    for source in plan.sources:
        counts = next(
            line for line in ledger.lines if (line.stage, line.source) == ("ingest", source.source)
        ).out
        assert source.tried < 0.5
        assert (source.files, source.shards) == (FILES, FILES)
        assert source.documents.holds(counts.documents)
        assert source.tokens.holds(counts.tokens)
        assert source.text.value == pytest.approx(counts.bytes, rel=0.05)
    stages = {stage.stage: stage.spent for stage in plan.stages}
    calls = {name: stage.calls for name, stage in spent.items() if stage.calls}
    assert {name: stages[name].calls for name in calls if name != "corpus"} == {
        name: count for name, count in calls.items() if name != "corpus"
    }
    actual = sum(spent.values(), Spent())
    # A tenth of the documents is planned as duplicates, whose texts an audit reads. This corpus has no duplicates.
    # The statistics of documents and clusters are counted after the build.
    others = (spending for name, spending in stages.items() if name not in ("audit texts", *STATISTICS))
    expected = sum(others, Spent())
    # Plans ignore the reads of file footers, which matter in files as small as these.
    exact = dict.fromkeys(("inputs", "input_requests", "written", "files", "requests", "calls"), 0.05)
    for figure, tolerance in {**exact, "read": 0.2}.items():
        assert getattr(expected, figure) == pytest.approx(getattr(actual, figure), rel=tolerance), figure
    size_of_all = sum(size for size, _ in recipe.folder.written("").values())
    size_of_published = sum(size for size, _ in recipe.folder.written("published").values())
    assert plan.in_storage == pytest.approx(size_of_all - size_of_published, rel=0.1)


def test_plan_of_a_small_corpus_reads_all_documents(corpus):
    recipe = corpus.load()
    plan = planned(recipe)
    ledger = build_here(recipe)
    for source in plan.sources:
        counts = next(
            line for line in ledger.lines if (line.stage, line.source) == ("ingest", source.source)
        ).out
        assert source.tried == pytest.approx(1.0)
        assert (source.documents.value, source.tokens.value) == (counts.documents, counts.tokens)
    assert plan.faults == ()
    spent = {stage.stage: stage.spent.cpu for stage in plan.stages}
    documents = sum(source_plan.documents.value for source_plan in plan.sources)
    assert spent["audit"] > 0.1 * documents * 0.2e-3  # a tenth of the documents is compared
    time, *_ = sentences(plan)
    assert "12 seconds of it to start and stop Prefect and Dask" in time
    assert time.startswith(f"time: {as_time(plan.seconds.value + 12)}, from ")


def test_rest_of_a_damaged_file_is_set_aside_once(corpus):
    path = corpus.folder / "in/middle.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-30])
    recipe = corpus.load(on_bad_rows="set_aside")
    middle = next(source for source in planned(recipe).sources if source.source == "middle")
    aside = [line.set_aside.documents for line in build_here(recipe).lines if line.source == "middle"]
    assert (round(middle.set_aside.value), sum(aside)) == (1, 1)


def test_plan_with_more_workers_than_tasks_and_temporary_disk_space(corpus):
    recipe = corpus.load()
    few, many = (plan_of(recipe, workers, 8 * GIB, here) for workers in (5, 1000))
    ingest_seconds = [next(s.spent.cpu for s in plan.stages if s.stage == "ingest") for plan in (few, many)]
    assert ingest_seconds[1] < 3 * ingest_seconds[0]
    assert few.scratch == 0
    remote = plan_of(corpus.load(storage="memory://far"), 2, 8 * GIB, here)
    assert remote.scratch == 4 * (256 << 20)  # two threads on each of two cores, with a shard each
    assert few.at_most == few.in_storage == few.work
    assert remote.in_storage == remote.work
    assert remote.at_most == remote.work + remote.published


def test_too_little_storage_and_memory_are_faults(corpus, monkeypatch):
    recipe = corpus.load()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    room, memory = sorted(planned(recipe, memory=64 << 20).faults)
    assert "the corpus will take" in room
    assert "0.0 GiB are free there" in room
    assert "a worker has 0.1 GiB: start fewer workers with more each" in memory


def test_largest_sources_are_tried_and_others_are_estimated(corpus, monkeypatch):
    monkeypatch.setattr(run_trial, "MOST_SOURCES", 2)
    plan = planned(corpus.load())
    untried = [source for source in plan.sources if not source.tried]
    assert len(untried) == 1
    assert untried[0].documents.low < untried[0].documents.value < untried[0].documents.high
    assert any("the 2 largest were tried" in note for note in plan.notes)


def test_model_is_tried_and_its_seconds_are_planned(corpus):
    corpus.recipe["sources"][2] |= {"classify": {"model": str(QUALITY), "keep": ["High"]}}
    only_if = {"only_if": "stars >= 1", "keep": "deep_prob > 0"}
    corpus.recipe["sources"][1]["judges"] = [{"name": "deep", "model": str(QUALITY), **only_if}]
    plan = planned(corpus.load())
    assert plan.model_seconds.keys() == {"middle, judge deep", "worst, judge quality"}
    assert all(seconds > 0 for seconds in plan.model_seconds.values())
    (name,) = plan.model_seconds_without_only_if
    assert plan.model_seconds[name] == pytest.approx(0.8 * plan.model_seconds_without_only_if[name])
    assert any(
        re.search(r"middle, judge deep: .* of one device; .* without its `only_if`", s)
        for s in sentences(plan)
    )
    worst = next(source for source in plan.sources if source.source == "worst")
    assert 0 <= worst.kept <= 1
    names = [stage.stage for stage in plan.stages]
    assert names[-1] == STATS
    assert names.index("classify_deep") < names.index("keep_deep") < names.index("classify")


def test_counted_requests_equal_the_calls_of_the_s3_client(corpus, s3, monkeypatch):
    """Compares the counted requests with the calls of the S3 client."""
    from aiobotocore.client import AioBaseClient

    calls = list[str]()
    call = AioBaseClient._make_api_call
    monkeypatch.setattr(
        AioBaseClient,
        "_make_api_call",
        lambda self, name, *arguments: (calls.append(name), call(self, name, *arguments))[1],
    )
    recipe = corpus.load(storage=f"{s3}/counted", sources=corpus.recipe["sources"][:1])
    calls.clear()
    _, spent = spent_by(recipe)
    actual = sum(spent.values(), Spent())
    assert actual.requests == pytest.approx(len(calls), rel=0.25)
    plan = planned(corpus.load(storage=f"{s3}/planned", sources=corpus.recipe["sources"][:1]))
    expected = sum((stage.spent for stage in plan.stages if stage.stage not in STATISTICS), Spent())
    assert expected.requests == pytest.approx(actual.requests, rel=0.1)
    assert expected.files == pytest.approx(actual.files, rel=0.05)


def test_costs_of_runs_add_up_until_the_corpus_is_published(corpus):
    recipe = corpus.load()
    first = Spending(
        runs=1, seconds=10, threads=2, flow=1, stages={"ingest": Spent(calls=2, cpu=5.0, peak=7)}
    )
    keep_spending(recipe.folder, first, is_over=False)
    assert spending_of_none(recipe)
    build_here(recipe)
    stages = {"ingest": Spent(calls=1, cpu=1.0, peak=3), "publish": Spent(calls=3)}
    keep_spending(recipe.folder, first.model_copy(update={"stages": stages}), is_over=True)
    total = spending_of_published(recipe.folder)
    assert (total.runs, total.seconds) == (2, 20)
    assert total.stages["ingest"] == Spent(calls=3, cpu=6.0, peak=7)
    # A build without work does not change the costs of the corpus, and the next build starts from zero.
    keep_spending(recipe.folder, first, is_over=True)
    assert spending_of_published(recipe.folder) == total
    keep_spending(recipe.folder, first, is_over=False)
    assert last_spending(recipe.folder).runs == 1


def spending_of_none(recipe):
    return last_spending(recipe.folder).manifest == ""


def test_report_compares_the_costs_with_the_plan(corpus):
    recipe = corpus.load()
    assert zyda_here("plan", str(corpus.path), "--workers", "2", "--memory", "4").returncode == 0
    plan = read_record(recipe.folder, PLAN, Plan)
    build_here(recipe)
    spending = Spending(
        recipe=plan.recipe,
        runs=1,
        seconds=21.4,
        threads=2,
        flow=3.2,
        stages={"ingest": Spent(calls=5, cpu=1.25)},
    )
    keep_spending(recipe.folder, spending, is_over=True)
    assert zyda_here("report", str(corpus.path)).returncode == 0
    page = recipe.folder.read("report.html").decode()
    assert "21 seconds in one run on 2 cores, and 3 core seconds of the flow itself." in page
    assert f"The plan was {plan.seconds.low:,.0f} to {plan.seconds.high:,.0f} seconds on as many." in page
    ingest = next(stage.spent for stage in plan.stages if stage.stage == "ingest")
    assert f"5 ({ingest.calls})" in page
    assert f"1.2 ({ingest.cpu:,.1f})" in page
    # A plan for another recipe is ignored.
    keep_plan(recipe.folder, plan.model_copy(update={"recipe": "of another"}))
    assert zyda_here("report", str(corpus.path)).returncode == 0
    assert "The plan was" not in recipe.folder.read("report.html").decode()


def test_plan_as_json_is_valid_and_errors_are_single_lines(corpus):
    process = zyda_here("plan", str(corpus.path), "--format", "json")
    assert process.returncode == 1  # the recipe is missing
    assert process.stderr.count("\n") == 1
    corpus.write()
    process = zyda_here("plan", str(corpus.path), "--format", "json")
    assert process.returncode == 0, process.stderr
    assert Plan.model_validate_json(process.stdout).sources[0].source == "best"
    write_rows(corpus.folder / "in/worst-5.jsonl.zst", [{"name": "x", "text": 7}])
    process = zyda_here("plan", str(corpus.path))
    assert (process.returncode, process.stderr.count("\n")) == (1, 1)
    assert "worst-5.jsonl.zst" in process.stderr


def test_planned_size_is_without_the_passages_that_the_sample_cuts(corpus):
    recipe = corpus.load(passages=[{"length": 50, "keep": "none"}])
    planned_build = planned(recipe)
    ledger = build_here(recipe)
    cut = ledger.cut("cuts", "best").tokens
    assert cut
    (best,) = (source for source in planned_build.sources if source.source == "best")
    kept = 1 - cut / (cut + ledger.of("cuts", "best").tokens)
    assert best.kept == pytest.approx(kept)
    share = ledger.cut("cuts").tokens / ledger.of("ingest").tokens
    assert f"`passages` cut {share:.1%} of the sample's tokens" in " ".join(planned_build.notes)
