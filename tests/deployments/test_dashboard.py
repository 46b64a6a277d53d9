"""Start and watch builds in Prefect's dashboard, in a real browser."""

import json
import re
from pathlib import Path

import pytest
from browser import SIZES, signed_in
from patience import wait_for
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from small_corpus import Corpus, prose, published, write_rows

from zyda_flows.flows.server.login import saved_api

pytestmark = [pytest.mark.slow, pytest.mark.early(1), pytest.mark.xdist_group("stack")]

BUILD = "build/build"


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Return a corpus that takes several seconds to build: 20 MB of text in a dozen files."""
    corpus = Corpus(tmp_path_factory.mktemp("slow"))
    common = [prose(f"l{j}") for j in range(40)]
    for i in range(12):
        texts = {
            f"l{i}_{j}": " ".join([common[j % 40]] * 5 + [prose(f"own {i} {j}", 60)]) for j in range(130)
        }
        write_rows(
            corpus.folder / f"in/worst-{i + 2}.arrow", [{"name": n, "text": t} for n, t in texts.items()]
        )
    corpus.recipe |= {"name": "slow", "shard_mib": 2}
    corpus.write()
    return corpus


def dashboard(stack):
    return saved_api(Path(stack["PREFECT_HOME"], "zyda")).dashboard


def link(stack):
    return saved_api(Path(stack["PREFECT_HOME"], "zyda")).link


def started(client, corpus):
    build = client.read_deployment_by_name(BUILD)
    run = client.create_flow_run_from_deployment(build.id, parameters={"recipe": str(corpus.path)})
    assert client.read_flow_run(run.id).name in ("recipe.yaml (scheduled)", f"build {corpus.recipe['name']}")
    return run


def artifacts_of(client, run):
    """Return the named artifacts of a run by the kind in their key, such as `build`."""
    run_filter = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    artifacts = client.read_artifacts(artifact_filter=run_filter, limit=50)
    return {artifact.key.split("-")[-2]: artifact for artifact in artifacts if artifact.key}


def wait_until_over(client, run):
    wait_for(lambda: client.read_flow_run(run.id).state.is_final(), every=0.5)
    return client.read_flow_run(run.id)


def progress_in(text):
    return int(re.search(r"\*\*(\d+) %\*\*", text)[1])


@pytest.fixture(scope="module")
def watched(stack, slow):
    """Build the slow corpus. Return its run and the successive contents of its page."""
    pages = list[str]()
    with get_client(sync_client=True) as client:
        run = started(client, slow)

        def is_over():
            live = artifacts_of(client, run).get("build")
            if live and (not pages or live.data != pages[-1]):
                pages.append(live.data)
            return client.read_flow_run(run.id).state.is_final()

        wait_for(is_over, every=0.4)
        run = client.read_flow_run(run.id)
        pages.append(artifacts_of(client, run)["build"].data)
    assert run.state.is_completed(), run.state
    return run, pages


def table_below(text, title):
    lines = text.partition(f"## {title}\n")[2].strip().split("\n\n")[0].splitlines()
    names, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(names, row, strict=True)) for row in rows]


def as_number(cell):
    return int(cell.replace(",", "") or 0)


def test_page_of_a_build_shows_increasing_progress(watched):
    _, pages = watched
    percentages = [progress_in(page) for page in pages]
    assert percentages == sorted(percentages)
    assert percentages[-1] == 100
    assert len({*percentages}) >= 3, percentages


def test_last_page_of_a_build_has_the_sums_of_the_ledger(watched, slow):
    _, pages = watched
    lines = json.loads(published(slow.load()).read("ledger.json"))
    stage_rows = {row["stage"]: row for row in table_below(pages[-1], "Stages")}
    source_rows = {row["source"].strip("*"): row for row in table_below(pages[-1], "Sources")}
    for stage in {line["stage"] for line in lines}:
        stage_lines = [line for line in lines if line["stage"] == stage]
        shown = stage_rows[stage]
        assert as_number(shown["documents"]) == sum(line["documents"] for line in stage_lines)
        assert as_number(shown["tokens"]) == sum(line["tokens"] for line in stage_lines)
        assert as_number(shown["removed"]) == sum(line["removed_documents"] for line in stage_lines)
    for line in lines:
        if line["stage"] == "publish":
            assert as_number(source_rows[line["source"]]["documents"]) == line["documents"]
            assert as_number(source_rows[line["source"]]["tokens"]) == line["tokens"]
        if line["removed_documents"]:
            removed = source_rows[line["source"]][f"removed by {line['stage']}"]
            assert as_number(removed) == line["removed_documents"]
    total = sum(line["documents"] for line in lines if line["stage"] == "publish")
    assert as_number(source_rows["total"]["documents"]) == total


def test_dashboard_shows_the_page_accounts_and_report_of_a_build(stack, watched, slow, browser, tmp_path):
    run, _ = watched
    page = signed_in(browser, link(stack))
    page.goto(f"{dashboard(stack)}/runs/flow-run/{run.id}")
    page.get_by_text("build slow").first.wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("Progress").first.wait_for()
    page.screenshot(path=tmp_path / "artifacts.png")
    with get_client(sync_client=True) as client:
        artifacts = artifacts_of(client, run)
    assert set(artifacts) == {"build", "corpus", "report"}
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{artifacts['build'].id}")
    page.get_by_text("slow: complete").wait_for()
    page.get_by_text("100 %").first.wait_for()
    for name, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        widths = page.locator("table").first.evaluate(
            "table => [table.scrollWidth, table.parentElement.clientWidth]"
        )
        assert widths[0] <= widths[1] + 1  # no column is cut off
        page.screenshot(path=tmp_path / f"{name}.png")
    accounts_path = page.get_by_role("link", name="accounts").get_attribute("href")  # it opens another page
    page.goto(f"{dashboard(stack)}{accounts_path}")
    page.get_by_text("The corpus and its accounts").first.wait_for()
    assert accounts_path.endswith(str(artifacts["corpus"].id))
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{artifacts['corpus'].id}")
    assert_drawn(page)
    page.screenshot(path=tmp_path / "accounts.png")
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{artifacts['report'].id}")
    assert_drawn(page)
    page.screenshot(path=tmp_path / "report.png")


def assert_drawn(page):
    picture = page.locator("img[src^='data:image/svg']").first
    picture.wait_for()
    page.wait_for_function("element => element.naturalWidth > 100", arg=picture.element_handle())


def test_page_is_legible_in_the_new_dashboard_on_light_and_dark(stack, watched, browser, tmp_path):
    run, _ = watched
    with get_client(sync_client=True) as client:
        artifacts = artifacts_of(client, run)
    page = signed_in(browser, link(stack), viewport={"width": 1280, "height": 1000})
    for name in ("build", "corpus"):
        page.goto(f"{dashboard(stack)}/v2/artifacts/artifact/{artifacts[name].id}")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.get_by_text("removals").first.wait_for()
            page.screenshot(path=tmp_path / f"{name}-{scheme}.png")
    assert_drawn(page)


def test_form_starts_a_build(stack, browser, tmp_path):
    page = signed_in(browser, link(stack), viewport={"width": 1400, "height": 1000})
    corpus = Corpus(tmp_path)
    corpus.recipe["name"] = "by-form"
    with get_client(sync_client=True) as client:
        build = client.read_deployment_by_name(BUILD)
        page.goto(f"{dashboard(stack)}/deployments")
        page.get_by_text("build", exact=True).first.wait_for()
        page.goto(f"{dashboard(stack)}/deployments/deployment/{build.id}/run")
        page.get_by_text("The recipe's YAML file").first.wait_for()
        page.locator("textarea").first.fill(corpus.write())
        page.get_by_text("float", exact=True).click()
        page.locator("input[type=number]").first.fill("2")
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("2 is not valid").first.wait_for()
        page.locator("input[type=number]").first.fill("1")
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("scheduled to start").first.wait_for()
        page.screenshot(path=tmp_path / "started.png")
        recipe_runs = [
            r for r in client.read_flow_runs(limit=50) if r.parameters.get("recipe") == str(corpus.path)
        ]
        (run,) = recipe_runs
        assert wait_until_over(client, run).state.is_completed()
        page.goto(f"{dashboard(stack)}/runs")
        page.get_by_text("build by-form").first.wait_for()


def test_dashboard_shows_the_cause_and_remedy_of_a_failed_build(stack, browser, tmp_path):
    page = signed_in(browser, link(stack), viewport={"width": 1400, "height": 1000})
    corpus = Corpus(tmp_path)
    corpus.recipe["name"] = "bad"
    valid_rows = [
        {"name": f"n{i}", "text": prose(f"n{i % 50}")} for i in range(4000)
    ]  # more valid rows than the check before the build reads
    write_rows(tmp_path / "in/worst-2.jsonl.zst", [*valid_rows, {"name": "n", "text": 1}])
    corpus.write()
    with get_client(sync_client=True) as client:
        run = wait_until_over(client, started(client, corpus))
        artifacts = artifacts_of(client, run)
    location, advice = "source worst, file", "on_bad_rows: set_aside"
    assert location in run.state.message.splitlines()[0]
    assert "row 4000 (line 4001)" in run.state.message
    assert advice in run.state.message
    failure = artifacts["failure"].data.replace("\\", "")  # backslashes that escape Markdown
    assert f"{location} {tmp_path}/in/worst-2.jsonl.zst, row 4000 (line 4001)" in failure
    assert advice in failure
    assert "failed" in artifacts["build"].data.splitlines()[0]
    assert location in artifacts["build"].data
    page.goto(f"{dashboard(stack)}/runs/flow-run/{run.id}")
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("Why it failed").first.wait_for()
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{artifacts['failure'].id}")
    page.get_by_text("bad was not built").wait_for()
    page.get_by_text("What to do").wait_for()
    page.screenshot(path=tmp_path / "failure.png")


def test_missing_recipe_fails_the_run_with_the_path_in_the_message(stack, tmp_path):
    corpus = Corpus(tmp_path)
    with get_client(sync_client=True) as client:
        run = wait_until_over(client, started(client, corpus))
        artifacts = artifacts_of(client, run)
    assert run.state.is_failed()
    assert run.name == "build recipe.yaml"
    assert str(corpus.path) in run.state.message
    assert str(corpus.path) in artifacts["failure"].data.replace("\\", "")
