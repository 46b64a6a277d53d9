"""What a person sees who starts a build in Prefect's dashboard and watches it, in a real browser."""

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
    """Give a corpus that takes some seconds to build: 60 MB of text in a dozen files."""
    made = Corpus(tmp_path_factory.mktemp("slow"))
    for i in range(12):
        texts = {
            f"l{i}_{j}": " ".join([prose(f"l{j % 40}")] * 5 + [prose(f"own {i} {j}", 60)]) for j in range(400)
        }
        write_rows(
            made.folder / f"in/worst-{i + 2}.arrow", [{"name": n, "text": t} for n, t in texts.items()]
        )
    made.recipe |= {"name": "slow", "shard_mib": 2}
    made.write()
    return made


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
    """Return the artifacts of a run that have a name, by what that says they are."""
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    found = client.read_artifacts(artifact_filter=of_run, limit=50)
    return {one.key.split("-")[-2]: one for one in found if one.key}


def wait_until_over(client, run):
    wait_for(lambda: client.read_flow_run(run.id).state.is_final(), every=0.5)
    return client.read_flow_run(run.id)


def progress_in(text):
    return int(re.search(r"\*\*(\d+) %\*\*", text)[1])


@pytest.fixture(scope="module")
def watched(stack, slow):
    """Build it; give its run, and the pages that it had, one after another."""
    pages = list[str]()
    with get_client(sync_client=True) as client:
        run = started(client, slow)

        def is_over():
            live = artifacts_of(client, run).get("build")
            if live and (not pages or live.data != pages[-1]):
                pages.append(live.data)
            return client.read_flow_run(run.id).state.is_final()

        wait_for(is_over, every=0.2)
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


def test_page_of_a_build_moves(watched):
    _, pages = watched
    seen = [progress_in(page) for page in pages]
    assert seen == sorted(seen)
    assert seen[-1] == 100
    assert len({*seen}) >= 3, seen


def test_last_page_of_a_build_adds_up_to_its_ledger(watched, slow):
    _, pages = watched
    lines = json.loads(published(slow.load()).read("ledger.json"))
    of_stages = {row["stage"]: row for row in table_below(pages[-1], "Stages")}
    of_sources = {row["source"].strip("*"): row for row in table_below(pages[-1], "Sources")}
    for stage in {line["stage"] for line in lines}:
        of_stage = [line for line in lines if line["stage"] == stage]
        shown = of_stages[stage]
        assert as_number(shown["documents"]) == sum(line["documents"] for line in of_stage)
        assert as_number(shown["tokens"]) == sum(line["tokens"] for line in of_stage)
        assert as_number(shown["removed"]) == sum(line["removed_documents"] for line in of_stage)
    for line in lines:
        if line["stage"] == "publish":
            assert as_number(of_sources[line["source"]]["documents"]) == line["documents"]
            assert as_number(of_sources[line["source"]]["tokens"]) == line["tokens"]
        if line["removed_documents"]:
            gone = of_sources[line["source"]][f"removed by {line['stage']}"]
            assert as_number(gone) == line["removed_documents"]
    whole = sum(line["documents"] for line in lines if line["stage"] == "publish")
    assert as_number(of_sources["total"]["documents"]) == whole


@pytest.mark.parametrize("size", SIZES)
def test_person_sees_the_page_the_accounts_and_the_report_of_a_build(
    stack, watched, slow, browser, tmp_path, size
):
    run, _ = watched
    width, height = SIZES[size]
    page = signed_in(browser, link(stack), viewport={"width": width, "height": height})
    page.goto(f"{dashboard(stack)}/runs/flow-run/{run.id}")
    page.get_by_text("build slow").first.wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("Progress").first.wait_for()
    page.screenshot(path=tmp_path / "artifacts.png")
    with get_client(sync_client=True) as client:
        found = artifacts_of(client, run)
    assert set(found) == {"build", "corpus", "report"}
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{found['build'].id}")
    page.get_by_text("slow: complete").wait_for()
    page.get_by_text("100 %").first.wait_for()
    widths = page.locator("table").first.evaluate(
        "table => [table.scrollWidth, table.parentElement.clientWidth]"
    )
    assert widths[0] <= widths[1] + 1  # no column is cut off
    page.screenshot(path=tmp_path / "page.png")
    place = page.get_by_role("link", name="accounts").get_attribute("href")  # it opens a page of its own
    page.goto(f"{dashboard(stack)}{place}")
    page.get_by_text("The corpus and its accounts").first.wait_for()
    assert place.endswith(str(found["corpus"].id))
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{found['corpus'].id}")
    assert_drawn(page)
    page.screenshot(path=tmp_path / "accounts.png")
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{found['report'].id}")
    assert_drawn(page)
    page.screenshot(path=tmp_path / "report.png")


def assert_drawn(page):
    picture = page.locator("img[src^='data:image/svg']").first
    picture.wait_for()
    page.wait_for_function("element => element.naturalWidth > 100", arg=picture.element_handle())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_legible_in_the_new_dashboard_on_light_and_dark(stack, watched, browser, tmp_path, scheme):
    run, _ = watched
    with get_client(sync_client=True) as client:
        found = artifacts_of(client, run)
    page = signed_in(browser, link(stack), viewport={"width": 1280, "height": 1000}, color_scheme=scheme)
    for name in ("build", "corpus"):
        page.goto(f"{dashboard(stack)}/v2/artifacts/artifact/{found[name].id}")
        page.get_by_text("removals").first.wait_for()
        page.screenshot(path=tmp_path / f"{name}.png")
    assert_drawn(page)


def test_person_starts_a_build_by_the_form(stack, browser, tmp_path):
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
        of_recipe = [
            r for r in client.read_flow_runs(limit=50) if r.parameters.get("recipe") == str(corpus.path)
        ]
        (run,) = of_recipe
        assert wait_until_over(client, run).state.is_completed()
        page.goto(f"{dashboard(stack)}/runs")
        page.get_by_text("build by-form").first.wait_for()


def test_person_sees_why_a_build_failed_and_what_to_do(stack, browser, tmp_path):
    page = signed_in(browser, link(stack), viewport={"width": 1400, "height": 1000})
    corpus = Corpus(tmp_path)
    corpus.recipe["name"] = "bad"
    late = [
        {"name": f"n{i}", "text": prose(f"n{i % 50}")} for i in range(4000)
    ]  # what is looked into first is fine
    write_rows(tmp_path / "in/worst-2.jsonl.zst", [*late, {"name": "n", "text": 1}])
    corpus.write()
    with get_client(sync_client=True) as client:
        run = wait_until_over(client, started(client, corpus))
        found = artifacts_of(client, run)
    what, todo = "source worst, file", "on_bad_rows: set_aside"
    assert what in run.state.message.splitlines()[0]
    assert "row 4000 (line 4001)" in run.state.message
    assert todo in run.state.message
    failure = found["failure"].data.replace("\\", "")  # before what would be taken for Markdown
    assert f"{what} {tmp_path}/in/worst-2.jsonl.zst, row 4000 (line 4001)" in failure
    assert todo in failure
    assert "failed" in found["build"].data.splitlines()[0]
    assert what in found["build"].data
    page.goto(f"{dashboard(stack)}/runs/flow-run/{run.id}")
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("Why it failed").first.wait_for()
    page.goto(f"{dashboard(stack)}/artifacts/artifact/{found['failure'].id}")
    page.get_by_text("bad was not built").wait_for()
    page.get_by_text("What to do").wait_for()
    page.screenshot(path=tmp_path / "failure.png")


def test_recipe_that_is_not_there_is_a_failure_with_its_path(stack, tmp_path):
    corpus = Corpus(tmp_path)
    with get_client(sync_client=True) as client:
        run = wait_until_over(client, started(client, corpus))
        found = artifacts_of(client, run)
    assert run.state.is_failed()
    assert run.name == "build recipe.yaml"
    assert str(corpus.path) in run.state.message
    assert str(corpus.path) in found["failure"].data.replace("\\", "")
