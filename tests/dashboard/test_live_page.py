"""Test the live page of a build: its content at each state, and that its counts add up."""

import re
import time
from contextlib import nullcontext
from io import StringIO
from itertools import pairwise
from types import SimpleNamespace

import pytest
from live_pages import Clock, Future, progress_report, receipt, rows_of, stage_of
from prefect.exceptions import UnfinishedRun
from rich.console import Console
from small_corpus import QUALITY

from zyda_flows.flows.dashboard import live_artifact, progress_bars
from zyda_flows.flows.dashboard.live_page import MOST_SOURCES, page_of
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.flows.reporting.markdown import bar, duration


def test_page_lists_every_stage_and_source_at_the_start(state):
    page = page_of(state)
    assert (
        "To come: prepare, ingest, minhash, edges, clusters, decisions, own_clusters, overlap, removals, audit, "
        "filter, index, publish\n"
    ) in page
    assert [row["source"] for row in rows_of(page, "Sources")] == ["best", "middle", "worst", "**total**"]
    assert "running" in page
    assert "at the start: workers start, and import what the stages need" in page
    assert page.index("## Sources") < page.index("## Stages")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_page_shows_that_kernels_are_compiled(state, is_compiled):
    state.is_compiled = is_compiled
    assert ("compiles its kernels first" in page_of(state)) is not is_compiled
    state.rows["ingest"].began = state.rows["ingest"].ended = state.clock()
    assert "compiles" not in page_of(state)


def test_page_shows_the_token_counter_during_ingest(state):
    state.token_counter = "counted by its own library (tokenizers), about 2 to 3 MB/s of text a core"
    assert f" · tokens are {state.token_counter}\n" in page_of(state)
    state.rows["ingest"].began = state.rows["ingest"].ended = state.clock()
    assert state.token_counter not in page_of(state)


def test_completed_stages_are_listed_in_one_line_until_the_end(state):
    for stage in ("prepare", "ingest"):
        task = Future()
        state.wait_for(stage, task)
        task.end(
            [receipt("ingest", source, 5) for source in ("best", "middle", "worst")]
            if stage == "ingest"
            else []
        )
    state.look()
    state.add_report(progress_report("minhash", "best", 1, 2, 5))
    page = page_of(state)
    assert "2 of 13 are done: prepare, ingest\n" in page
    assert [row["stage"] for row in rows_of(page, "Stages")] == ["minhash"]
    state.finish()
    assert len(rows_of(page_of(state), "Stages")) == 13


def test_losses_of_more_than_half_are_marked(state):
    for stage, removed in (("ingest", 0), ("removals", 51)):
        task = Future()
        state.wait_for(stage, task)
        task.end(
            [
                receipt(stage, "best", 100, removed),
                receipt(stage, "middle", 100),
                receipt(stage, "worst", 100, removed and 50),
            ]
        )
    state.look()
    page = page_of(state)
    best, middle, worst, _ = rows_of(page, "Sources")
    assert (best["kept"], middle["kept"], worst["kept"]) == ("🔴 49.0%", "100.0%", "50.0%")
    assert "\n- 🔴 deduplication removed 51.0% of the tokens of `best`\n" in page
    assert page.count("🔴") == 2


def test_page_shows_progress_speed_and_time_from_worker_reports(state):
    state.add_report(progress_report("ingest", "best", 0, 10, 0))
    state.look()
    state.clock.now += 20
    state.add_report(progress_report("ingest", "best", 5, 10, 100))
    state.add_report(progress_report("ingest", "middle", 0, 10, 0))
    ingest = stage_of(page_of(state), "ingest")
    assert ingest["done"] == f"{bar(1 / 6, 6)} 17 %"  # each of the three sources counts a third
    assert ingest["MB/s"] == "5.0"
    assert ingest["time"] == "20 s, 1 min 28 s left"
    best, middle, *_ = rows_of(page_of(state), "Sources")
    assert (best["at"], best["documents"], middle["documents"]) == ("ingest", "100", "")


def test_completed_stage_shows_its_receipts_and_ignores_reports(state):
    task = Future()
    state.wait_for("ingest", task)
    state.add_report(
        progress_report("ingest", "best", 3, 10, 30)
    )  # a killed worker reported the other shards
    task.end([receipt("ingest", source, 100, aside=2) for source in ("best", "middle", "worst")])
    state.look()
    page = page_of(state)
    assert "1 of 13 are done: ingest\n" in page
    state.add_report(progress_report("ingest", "best", 4, 10, 40))  # a late report
    assert page_of(state) == page
    state.finish()
    ingest = stage_of(page_of(state), "ingest")
    assert (ingest["done"], ingest["documents"], ingest["tokens"]) == (f"{bar(1, 6)} 100 %", "294", "2,940")


def test_stage_with_several_fan_outs_shows_its_whole_progress(state):
    for number, done, expected in (
        (0, 0, 0),
        (0, 4, 33),
        (1, 0, 33),
        (1, 2, 50),
        (1, 4, 67),
        (2, 6, 93),
        (3, 2, 89),
    ):
        report = progress_report("edges", None, done, max(done, 4), 0)
        state.add_report(report | {"planned": 12, "report_id": str(number)})
        percentage = int(stage_of(page_of(state), "edges")["done"].split()[-2])
        assert percentage == expected, (number, done)


def test_stage_shows_progress_if_no_source_has_text(state):
    task = Future()
    state.wait_for("ingest", task)
    task.end([receipt("ingest", source, 0) for source in ("best", "middle", "worst")])
    state.look()
    state.add_report(progress_report("minhash", "best", 5, 10, 0))
    minhash = stage_of(page_of(state), "minhash")
    assert minhash["done"] == f"{bar(1 / 6, 6)} 17 %"


def test_sources_skipped_by_a_stage_keep_their_counts(state):
    for stage, receipts in {
        "ingest": [receipt("ingest", source, 100) for source in ("best", "middle", "worst")],
        "removals": [receipt("removals", "best", 100), receipt("removals", "middle", 100, 40),
                     receipt("removals", "worst", 100, 10)],
        "filter": [receipt("filter", "middle", 60, 6)],
    }.items():  # fmt: skip
        task = Future()
        state.wait_for(stage, task)
        task.end(receipts)
    state.finish()
    page = page_of(state)
    stage_rows = {row["stage"]: row for row in rows_of(page, "Stages")}
    assert (stage_rows["filter"]["documents"], stage_rows["filter"]["removed"]) == ("244", "6")
    assert stage_rows["filter"]["kept"] == "81.3%"
    best, middle, worst, total = rows_of(page, "Sources")
    assert (middle["documents"], middle["removed by removals"], middle["removed by filter"]) == (
        "54",
        "40",
        "6",
    )
    assert (best["kept"], worst["kept"], total["documents"]) == ("100.0%", "90.0%", "244")
    assert "at" not in total
    assert "complete" in page


def test_restarted_build_resets_its_page(state):
    task = Future()
    state.wait_for("ingest", task)
    task.end([receipt("ingest", "best", 5)])
    state.look()
    state.begin()
    assert "done: " not in page_of(state)
    assert "To come: prepare, ingest, " in page_of(state)


def test_failed_task_is_shown_without_counts(state):
    task = Future()
    state.wait_for("ingest", task)
    task.end(ValueError("no"))
    state.finish("failed")
    assert "failed" in page_of(state).splitlines()[0]


def test_page_of_many_sources_is_short_and_adds_up(corpus):
    names = [f"s{i}" for i in range(200)]
    sources = [{"name": name, "files": "in/best-*.parquet"} for name in names]
    state = BuildState(corpus.load(sources=sources), clock=Clock())
    task = Future()
    state.wait_for("ingest", task)
    task.end([receipt("ingest", name, i + 1) for i, name in enumerate(names)])
    state.look()
    page = page_of(state)
    rows = rows_of(page, "Sources")
    assert len(rows) == MOST_SOURCES + 1
    assert rows[-2]["source"] == "141 others"
    assert rows[-1]["documents"] == f"{sum(range(201)):,}"
    documents = sum(int(row["documents"].replace(",", "")) for row in rows[:-1])
    assert documents == sum(range(201))
    assert len(page) < 10_000


def test_time_left_is_not_shown_before_a_tenth_is_done(state):
    assert state.seconds_left() is None
    for source in ("best", "middle", "worst"):
        state.add_report(progress_report("ingest", source, 0, 20, 0))
    state.look()
    state.clock.now += 1
    state.add_report(progress_report("ingest", "best", 1, 20, 1))
    state.look()
    assert state.seconds_left() is None  # less than a tenth of ingest is done
    for done in range(2, 15):
        state.clock.now += 5
        for source in ("best", "middle", "worst"):
            state.add_report(progress_report("ingest", source, done, 20, done))
        state.look()
    assert 30 < state.seconds_left() < 350  # 30 s of ingest, and the later stages
    state.finish()
    assert state.seconds_left() is None


def test_progress_within_a_shard_is_shown(state):
    def fraction_after(shard, fraction):
        state.add_report({"stage": "publish", "source": "worst", "shard": shard, "fraction": fraction})
        return state.rows["publish"].cells["worst"].fraction()

    state.add_report(progress_report("publish", "worst", 0, 4, 0))
    assert fraction_after("a", 0.5) == 0.125
    assert fraction_after("b", 0.7) == pytest.approx(0.3)
    assert fraction_after("a", 0.9) == pytest.approx(0.4)
    state.add_report(progress_report("publish", "worst", 1, 4, 10))  # a report without the name of its shard
    assert 0.4 < state.rows["publish"].cells["worst"].fraction() < 0.7
    state.add_report(progress_report("publish", "worst", 4, 4, 10))
    assert state.rows["publish"].cells["worst"].fraction() == 1


def test_time_left_of_a_model_is_estimated_by_size_and_then_by_speed(corpus):
    corpus.recipe["sources"][2]["classify"] = {"model": str(QUALITY), "keep": ["High"]}
    state = BuildState(corpus.load(), clock=Clock())
    task = Future()
    state.wait_for("ingest", task)
    state.add_report(progress_report("ingest", "worst", 0, 10, 0))
    state.clock.now += 5
    task.end([receipt("ingest", source, 10_000) for source in ("best", "middle", "worst")])
    state.look()
    model = state.clockwork.parts["classify"].left(1)
    assert 5 < model < 30
    state.add_report(progress_report("classify", "worst", 0, 10, 0))
    state.look()
    estimates = []
    for done in range(1, 10):
        state.clock.now += 100
        state.add_report(progress_report("classify", "worst", done, 10, 1000 * done, bytes_per_document=50))
        state.look()
        estimates.append(state.seconds_left())
    shown = [seconds for seconds in estimates if seconds is not None]
    assert len(shown) >= 7
    assert shown == sorted(shown, reverse=True)  # the estimate does not increase at constant speed
    ratios = [estimate / (100 * to_come) for to_come, estimate in enumerate(shown[::-1], 1)]
    assert all(0.7 < share < 1.5 for share in ratios), ratios


def test_cached_results_do_not_count_for_the_speed(state):
    cached, running = Future(), Future()
    state.wait_for("ingest", cached)
    state.wait_for("ingest", running)
    state.look()
    state.clock.now += 4
    cached.end([receipt("ingest", source, 10**6) for source in ("best", "middle")])
    state.add_report(progress_report("ingest", "worst", 0, 500, 0))
    state.look()
    state.clock.now += 60
    state.add_report(progress_report("ingest", "worst", 5, 500, 10))
    ingest = stage_of(page_of(state), "ingest")
    assert ingest["MB/s"] == "0.2"
    # 495 shards remain. The weights of completed sources are unknown during ingest and raise the estimate.
    assert re.search(r"h( \d+ min)? left", ingest["time"])


def test_speed_is_measured_over_the_last_minutes(state):
    state.add_report(progress_report("ingest", "best", 0, 100, 0))
    for done in (90, 91, 92, 93, 94, 95, 96):
        state.look()
        state.clock.now += 100
        state.add_report(progress_report("ingest", "best", done, 100, done))
    fraction = state.fraction_of(state.rows["ingest"])
    left = state.seconds_left_of(state.rows["ingest"])
    assert left == pytest.approx(100 * (1 - fraction) / (0.01 / 3), rel=0.01)


@pytest.mark.parametrize("last", ["good", "held up"])
def test_stage_with_an_unfinished_task_is_not_complete(state, last):
    good, held_up = Future(), Future()
    for task in (good, held_up):
        state.wait_for("minhash", task)
    first = held_up if last == "good" else good
    results = {
        good: [receipt("minhash", "best", 10)],
        held_up: UnfinishedRun("what it waited for has failed"),
    }
    for task in (first, good if first is held_up else held_up):
        task.end(results[task])
        state.look()
    assert not state.rows["minhash"].is_over
    assert stage_of(page_of(state), "minhash")["done"] == f"{bar(1 / 3, 6)} 33 %"


def test_reports_of_unknown_sources_are_ignored(state):
    state.add_report(progress_report("ingest", "of another build", 5, 10, 100))
    assert "another" not in page_of(state)
    assert "To come: prepare, ingest, " in page_of(state)


def test_waiting_build_shows_the_reason_and_restarts_its_clock(state):
    state.wait("another build of it is running")
    state.clock.now += 30
    page = page_of(state)
    assert page.startswith("# small: waiting\n\nfor 30 s · another build of it is running")
    state.begin()
    state.clock.now += 2
    assert "running for 2 s" in page_of(state)


def test_page_shows_100_per_cent_only_at_the_end(state):
    for row in state.rows.values():
        row.began = row.ended = state.clock()
    page = page_of(state)
    assert "**99 %**" in page
    assert "at card, accounts and report" in page
    assert " left" not in page
    state.finish()
    assert "**100 %**" in page_of(state)


def test_unknown_stages_are_ignored(state):
    page_before = page_of(state)
    state.add_report(progress_report("audit texts", None, 1, 2, 0))
    state.wait_for("note", Future())
    assert page_of(state) == page_before


def test_page_is_written_at_a_fixed_interval(monkeypatch, corpus):
    clock, write_times = Clock(), []
    state = SimpleNamespace(look=lambda: None, recipe=corpus.load())

    def wait(seconds):
        clock.now += seconds
        return clock.now > 160

    client = SimpleNamespace(update_artifact=lambda *_: write_times.append(clock.now))
    monkeypatch.setattr(live_artifact, "get_client", lambda **_: nullcontext(client))
    monkeypatch.setattr(live_artifact, "page_of", lambda *_: f"at {clock.now}")
    live_artifact.keep_written(None, state, [], SimpleNamespace(wait=wait))
    assert state.token_counter.startswith("counted by ")
    assert len(write_times) == 20
    assert {later - earlier for earlier, later in pairwise(write_times)} == {live_artifact.WRITE_SECONDS}


def test_progress_line_is_printed_each_minute_without_a_terminal(corpus, monkeypatch):
    output, clock = StringIO(), Clock()
    monkeypatch.setattr(progress_bars.time, "monotonic", clock)
    state = BuildState(corpus.load(), clock)
    state.followers.append(progress_bars.ProgressLines(Console(file=output)))
    state.add_report(progress_report("ingest", "best", 1, 4, 10))
    assert not output.getvalue()
    clock.now += progress_bars.SECONDS_BETWEEN_LINES
    state.add_report(progress_report("ingest", "best", 2, 4, 20))
    state.add_report(progress_report("ingest", "best", 3, 4, 30))
    assert output.getvalue() == "1 min: ingest 2/4 shards\n"


def test_host_that_limits_requests_is_shown_during_the_wait(corpus, monkeypatch):
    state = BuildState(corpus.load(), clock=Clock())
    state.add_report(progress_report("ingest", "best", 0, 3, 0))
    now = int(time.time()) + 0.5
    state.add_report({"host": "huggingface.co", "until": now + 600})
    state.add_report({"host": "huggingface.co", "until": now + 30})  # an earlier wait of another worker
    assert f"huggingface.co limits requests: waiting for {duration(600)}" in page_of(state)
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert "limits requests" not in page_of(state)
