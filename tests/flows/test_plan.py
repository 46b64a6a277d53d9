"""A plan beside what the same build then takes, and what a plan says will not fit."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import QUALITY, Corpus, build_here, prose, rows, write_rows, zyda_here

from zyda_flows.flows.command.plan import sentences
from zyda_flows.flows.command.terminal import as_time
from zyda_flows.tasks.forecast import run_trial
from zyda_flows.tasks.forecast.plan import plan_of
from zyda_flows.tasks.planning.estimates import PLAN, Plan, keep_plan
from zyda_flows.tasks.planning.spending import Spending, keep_spending, last_spending, spending_of_published
from zyda_flows.tasks.spent import METER, Spent, telling
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS

FILES, DOCUMENTS = 30, 40
GIB = 1 << 30
pytestmark = pytest.mark.slow


def here(function, items, **_):
    return [function(item) for item in items]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Give a corpus of two sources: Parquet of several row groups, and JSON Lines, some files each."""
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
    corpus.recipe["name"] = "many"
    return corpus


def planned(recipe, memory=8 * GIB):
    return plan_of(recipe, 2, memory, here)


def spent_by(recipe):
    """Build a corpus here, and return what each stage has spent, as a worker counts it."""
    by_stage = dict[str, Spent]()

    def tell(stage, _, __, spent):
        by_stage[stage] = by_stage.get(stage, Spent()) + spent

    token = ALLOWED_DEATHS.set(3)
    try:
        METER.take()
        with telling(tell):
            ledger = build_here(recipe)
    finally:
        ALLOWED_DEATHS.reset(token)
    return ledger, by_stage


def test_plan_says_what_the_build_takes(many):
    """From a part of it: documents and tokens in their ranges; tasks exact; bytes, files and requests nearly."""
    recipe = many.load()
    plan = planned(recipe)
    assert not recipe.folder.files("work"), "it builds nothing there"
    ledger, spent = spent_by(recipe)
    for source in plan.sources:
        seen = next(
            line for line in ledger.lines if (line.stage, line.source) == ("ingest", source.source)
        ).out
        assert source.tried < 0.5
        assert (source.files, source.shards) == (FILES, FILES)
        assert source.documents.holds(seen.documents)
        assert source.tokens.holds(seen.tokens)
        assert source.text.value == pytest.approx(seen.bytes, rel=0.05)
    stages = {stage.stage: stage.spent for stage in plan.stages}
    calls = {name: stage.calls for name, stage in spent.items() if stage.calls}
    assert {name: stages[name].calls for name in calls if name != "corpus"} == {
        name: count for name, count in calls.items() if name != "corpus"
    }
    whole = sum(spent.values(), Spent())
    # A tenth of the documents is planned as duplicates, whose texts an audit reads. Here are none.
    expected = sum((taken for name, taken in stages.items() if name != "audit texts"), Spent())
    # In files as small as these, what is read for their footers is a part of it that nobody plans.
    exact = dict.fromkeys(("inputs", "input_requests", "written", "files", "requests", "calls"), 0.05)
    for figure, most in {**exact, "read": 0.2}.items():
        assert getattr(expected, figure) == pytest.approx(getattr(whole, figure), rel=most), figure
    there = sum(size for size, _ in recipe.folder.written("").values())
    linked = sum(size for size, _ in recipe.folder.written("published").values())
    assert plan.in_storage == pytest.approx(there - linked, rel=0.1)


def test_small_corpus_is_read_whole_and_known(corpus):
    recipe = corpus.load()
    plan = planned(recipe)
    ledger = build_here(recipe)
    for source in plan.sources:
        seen = next(
            line for line in ledger.lines if (line.stage, line.source) == ("ingest", source.source)
        ).out
        assert source.tried == pytest.approx(1.0)
        assert (source.documents.value, source.tokens.value) == (seen.documents, seen.tokens)
    assert plan.faults == ()
    spent = {stage.stage: stage.spent.cpu for stage in plan.stages}
    documents = sum(one.documents.value for one in plan.sources)
    assert spent["audit"] > 0.1 * documents * 0.2e-3  # a tenth of them is compared
    time, *_ = sentences(plan)
    assert "12 seconds of it to start and stop Prefect and Dask" in time
    assert time.startswith(f"time: {as_time(plan.seconds.value + 12)}, from ")


def test_rest_of_a_damaged_file_is_counted_once(corpus):
    path = corpus.folder / "in/middle.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-30])
    recipe = corpus.load(on_bad_rows="set_aside")
    middle = next(source for source in planned(recipe).sources if source.source == "middle")
    aside = [line.set_aside.documents for line in build_here(recipe).lines if line.source == "middle"]
    assert (round(middle.set_aside.value), sum(aside)) == (1, 1)


def test_more_workers_than_tasks_cost_no_more_and_temporary_disks_are_reckoned(corpus):
    recipe = corpus.load()
    few, many = (plan_of(recipe, workers, 8 * GIB, here) for workers in (5, 1000))
    of_ingest = [next(s.spent.cpu for s in plan.stages if s.stage == "ingest") for plan in (few, many)]
    assert of_ingest[1] < 3 * of_ingest[0]
    assert few.scratch == 0
    far = plan_of(corpus.load(storage="memory://far"), 2, 8 * GIB, here)
    assert far.scratch == 4 * (256 << 20)  # two threads on each of two cores, a shard each
    assert few.at_most == few.in_storage == few.work
    assert far.in_storage == far.work
    assert far.at_most == far.work + far.published


def test_what_will_not_fit_is_said(corpus, monkeypatch):
    recipe = corpus.load()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    room, memory = sorted(planned(recipe, memory=64 << 20).faults)
    assert "the corpus will take" in room
    assert "0.0 GiB are free there" in room
    assert "a worker has 0.1 GiB: start fewer workers with more each" in memory


def test_largest_sources_are_tried_and_the_others_reckoned(corpus, monkeypatch):
    monkeypatch.setattr(run_trial, "MOST_SOURCES", 2)
    plan = planned(corpus.load())
    untried = [source for source in plan.sources if not source.tried]
    assert len(untried) == 1
    assert untried[0].documents.low < untried[0].documents.value < untried[0].documents.high
    assert any("the 2 largest were tried" in note for note in plan.notes)


def test_model_is_tried_and_its_hours_said(corpus):
    corpus.recipe["sources"][2] |= {"classify": {"model": str(QUALITY), "keep": ["High"]}}
    plan = planned(corpus.load())
    assert plan.model_seconds.keys() == {"worst"}
    assert plan.model_seconds["worst"] > 0
    worst = next(source for source in plan.sources if source.source == "worst")
    assert 0 <= worst.kept <= 1
    assert [stage.stage for stage in plan.stages][-1] == "classify"


def test_requests_are_those_that_the_store_hears_of(corpus, s3, monkeypatch):
    """What is counted where files are opened, beside the calls that the client of S3 makes."""
    from aiobotocore.client import AioBaseClient

    made = list[str]()
    call = AioBaseClient._make_api_call
    monkeypatch.setattr(
        AioBaseClient,
        "_make_api_call",
        lambda self, name, *more: (made.append(name), call(self, name, *more))[1],
    )
    recipe = corpus.load(storage=f"{s3}/counted", sources=corpus.recipe["sources"][:1])
    made.clear()
    _, spent = spent_by(recipe)
    whole = sum(spent.values(), Spent())
    assert whole.requests == pytest.approx(len(made), rel=0.25)
    plan = planned(corpus.load(storage=f"{s3}/planned", sources=corpus.recipe["sources"][:1]))
    assert plan.total.requests == pytest.approx(whole.requests, rel=0.1)
    assert plan.total.files == pytest.approx(whole.files, rel=0.05)


def test_runs_add_up_until_the_corpus_is_published(corpus):
    recipe = corpus.load()
    first = Spending(
        runs=1, seconds=10, threads=2, flow=1, stages={"ingest": Spent(calls=2, cpu=5.0, peak=7)}
    )
    keep_spending(recipe.folder, first, is_over=False)
    assert spending_of_none(recipe)
    build_here(recipe)
    more = {"ingest": Spent(calls=1, cpu=1.0, peak=3), "publish": Spent(calls=3)}
    keep_spending(recipe.folder, first.model_copy(update={"stages": more}), is_over=True)
    known = spending_of_published(recipe.folder)
    assert (known.runs, known.seconds) == (2, 20)
    assert known.stages["ingest"] == Spent(calls=3, cpu=6.0, peak=7)
    # A build with nothing to do says nothing of what the corpus took, and the next one begins anew.
    keep_spending(recipe.folder, first, is_over=True)
    assert spending_of_published(recipe.folder) == known
    keep_spending(recipe.folder, first, is_over=False)
    assert last_spending(recipe.folder).runs == 1


def spending_of_none(recipe):
    return last_spending(recipe.folder).manifest == ""


def test_report_shows_what_a_build_took_beside_its_plan(corpus):
    recipe = corpus.load()
    assert zyda_here("plan", str(corpus.path), "--workers", "2", "--memory", "4").returncode == 0
    plan = read_record(recipe.folder, PLAN, Plan)
    build_here(recipe)
    took = Spending(
        recipe=plan.recipe,
        runs=1,
        seconds=21.4,
        threads=2,
        flow=3.2,
        stages={"ingest": Spent(calls=5, cpu=1.25)},
    )
    keep_spending(recipe.folder, took, is_over=True)
    assert zyda_here("report", str(corpus.path)).returncode == 0
    page = recipe.folder.read("report.html").decode()
    assert "21 seconds in one run on 2 cores, and 3 core seconds of the flow itself." in page
    assert f"The plan was {plan.seconds.low:,.0f} to {plan.seconds.high:,.0f} seconds on as many." in page
    ingest = next(stage.spent for stage in plan.stages if stage.stage == "ingest")
    assert f"5 ({ingest.calls})" in page
    assert f"1.2 ({ingest.cpu:,.1f})" in page
    # Of another recipe than it was made for it is no plan.
    keep_plan(recipe.folder, plan.model_copy(update={"recipe": "of another"}))
    assert zyda_here("report", str(corpus.path)).returncode == 0
    assert "The plan was" not in recipe.folder.read("report.html").decode()


def test_json_has_every_figure_and_faults_are_one_line(corpus):
    said = zyda_here("plan", str(corpus.path), "--format", "json")
    assert said.returncode == 1  # there is no recipe yet
    assert said.stderr.count("\n") == 1
    corpus.write()
    said = zyda_here("plan", str(corpus.path), "--format", "json")
    assert said.returncode == 0, said.stderr
    assert Plan.model_validate_json(said.stdout).sources[0].source == "best"
    write_rows(corpus.folder / "in/worst-5.jsonl.zst", [{"name": "x", "text": 7}])
    said = zyda_here("plan", str(corpus.path))
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert "worst-5.jsonl.zst" in said.stderr
