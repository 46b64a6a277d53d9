"""`zyda up`, deployments, the watcher's automation, and `zyda down`, all with real parts."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from disturbances import code_run_by, is_refused, task_runs_of
from prefect.client.orchestration import get_client
from small_corpus import REPOSITORY, Corpus, build_here, contents, kept_names, prose, rows, write_rows, zyda

from deployments.local import Stack
from flows.dashboard.run_artifacts import artifact_key
from tasks import pipeline

DEFINITIONS = yaml.safe_load((REPOSITORY / "deployments/prefect.yaml").read_text())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    made = Corpus(tmp_path_factory.mktemp("stack-corpus"))
    made.write()
    return made


def run(name, **parameters):
    """Run a deployment and wait for its end; return the flow run."""
    from prefect.deployments import run_deployment

    return run_deployment(name, parameters=parameters, timeout=120, poll_interval=1)


def flow_runs(prefix):
    with get_client(sync_client=True) as client:
        return [found for found in client.read_flow_runs(limit=100) if found.name.startswith(prefix)]


def test_up_again_starts_nothing(stack):
    home = stack["PREFECT_HOME"]
    before = Path(f"{home}/zyda/stack.json").read_text()
    said = zyda("up", env=stack)
    assert "starting" not in said.stdout
    assert "dashboard" in said.stdout
    assert Path(f"{home}/zyda/stack.json").read_text() == before


def test_everything_listens_on_the_loopback_address(stack):
    import psutil

    found = Stack.model_validate_json(Path(f"{stack['PREFECT_HOME']}/zyda/stack.json").read_text())
    listening = set()
    for part in found.parts.values():
        process = psutil.Process(part.pid)
        for member in [process, *process.children(recursive=True)]:
            listening |= {
                c.laddr.ip for c in member.net_connections("inet") if c.status == psutil.CONN_LISTEN
            }
    assert listening == {"127.0.0.1"}


def scheduler_of(stack):
    found = Stack.model_validate_json(Path(f"{stack['PREFECT_HOME']}/zyda/stack.json").read_text())
    return found.parts["scheduler"].address


def test_dask_takes_no_work_from_who_has_not_the_key(stack):
    home, address = Path(stack["PREFECT_HOME"], "zyda"), scheduler_of(stack)
    certificate, key = home / "dask-certificate.pem", home / "dask-key.pem"
    for place, files in [
        (address, ["own"]),
        (address.replace("tls://", "tcp://"), []),
        (address, [certificate]),
    ]:
        assert is_refused(code_run_by(place, *files))
    assert code_run_by(address, certificate, certificate, key).stdout == f"{os.getuid()}\n"


def test_key_is_readable_by_its_owner_alone(stack):
    for name in ("dask-certificate.pem", "dask-key.pem"):
        assert stat.S_IMODE(Path(stack["PREFECT_HOME"], "zyda", name).stat().st_mode) == 0o600


def test_settings_of_the_stack_can_be_had_for_other_programs(stack):
    program = "import distributed; print(distributed.Client().submit(sum, [1, 2]).result())"
    home = {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}
    settings = zyda("up", "--env", env=home).stdout
    assert f"export PREFECT_API_URL={stack['PREFECT_API_URL']}\n" in settings
    said = subprocess.run(
        ["sh", "-c", f"{settings}\n{shlex.quote(sys.executable)} -c {shlex.quote(program)}"],
        env=home, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert said.stdout == "3\n", said.stderr


def test_registered_deployments_are_those_of_the_file(stack):
    with get_client(sync_client=True) as client:
        found = {one.name: one for one in client.read_deployments()}
    assert set(found) == {one["name"] for one in DEFINITIONS["deployments"]} == {"build", "watch", "report"}
    for definition in DEFINITIONS["deployments"]:
        assert found[definition["name"]].description.strip() == definition["description"].strip()
        assert found[definition["name"]].tags == ["zyda"]


def test_form_of_a_build_has_help_and_rejects_a_bad_value(stack):
    with get_client(sync_client=True) as client:
        build = client.read_deployment_by_name("build/build")
        properties = build.parameter_openapi_schema["properties"]
        assert set(properties) == {"recipe", "storage", "sample", "replace"}
        assert all(one.get("description") for one in properties.values())
        with pytest.raises(Exception, match="maximum"):
            client.create_flow_run_from_deployment(build.id, parameters={"recipe": "x.yaml", "sample": 2})


def test_deployments_build_and_report(stack, corpus):
    finished = run("build/build", recipe=str(corpus.path))
    assert finished.state.is_completed(), finished.state
    undisturbed = corpus.load(storage=str(corpus.folder / "undisturbed"))
    build_here(undisturbed)
    recipe = corpus.load()
    assert contents(recipe) == contents(undisturbed)
    assert run("report/report", recipe=str(corpus.path)).state.is_completed()
    assert (corpus.folder / "out/small/report.html").exists()


def test_dashboard_has_a_table_of_every_stage_and_the_accounts(stack, corpus):
    recipe = corpus.load()
    with get_client(sync_client=True) as client:
        found = {one.key: one for one in client.read_artifacts(limit=200) if one.key}
    stages = {artifact_key(recipe, stage) for stage in pipeline.accounted()}
    assert stages | {artifact_key(recipe, "corpus"), artifact_key(recipe, "report")} <= set(found)
    assert "| total |" in found[artifact_key(recipe, "corpus")].data
    assert "middle" in found[artifact_key(recipe, "removals")].data


@pytest.fixture
def page():
    """Give a page of a real browser."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


def test_person_sees_the_stages_the_tables_and_the_funnel_in_a_browser(stack, corpus, page, tmp_path):
    dashboard = stack["PREFECT_API_URL"].removesuffix("/api")
    run = flow_runs(f"build {corpus.path}")[0]
    page.goto(f"{dashboard}/runs/flow-run/{run.id}")
    page.get_by_text("Task Runs", exact=True).click()
    page.get_by_text("publish worst").first.wait_for()
    page.screenshot(path=tmp_path / "stages.png")
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("After ingest, by source").first.wait_for()
    page.screenshot(path=tmp_path / "artifacts.png")
    with get_client(sync_client=True) as client:
        found = {one.key: one.id for one in client.read_artifacts(limit=200) if one.flow_run_id == run.id}
    page.goto(f"{dashboard}/artifacts/artifact/{found[artifact_key(corpus.load(), 'removals')]}")
    page.get_by_text("removed documents").first.wait_for()
    page.screenshot(path=tmp_path / "table.png")
    page.goto(f"{dashboard}/artifacts/artifact/{found[artifact_key(corpus.load(), 'funnel')]}")
    picture = page.locator("img[src^='data:image/svg']").first
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100
    page.screenshot(path=tmp_path / "funnel.png")


def test_person_is_told_what_is_wrong_in_the_form_of_a_build(stack, page, tmp_path):
    dashboard = stack["PREFECT_API_URL"].removesuffix("/api")
    with get_client(sync_client=True) as client:
        build = client.read_deployment_by_name("build/build")
    page.goto(f"{dashboard}/deployments/deployment/{build.id}/run")
    page.get_by_text("The recipe's YAML file").first.wait_for()
    page.get_by_text("instead of where the recipe says").first.wait_for()
    page.locator("textarea").first.fill(str(tmp_path / "recipe.yaml"))
    page.get_by_text("float", exact=True).click()
    page.locator("input[type=number]").first.fill("2")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("2 is not valid").first.wait_for()
    page.screenshot(path=tmp_path / "form.png")


def test_watcher_starts_a_build_when_a_source_has_changed_and_come_to_rest(stack, corpus):
    recipe = corpus.load()
    builds = len(flow_runs("build"))
    assert run("watch/watch", recipe=str(corpus.path)).state.is_completed()
    write_rows(corpus.folder / "in/best-2.parquet", rows(newcomer=prose("newcomer")))
    assert run("watch/watch", recipe=str(corpus.path)).state.is_completed()
    assert len(flow_runs("build")) == builds
    assert run("watch/watch", recipe=str(corpus.path)).state.is_completed()
    deadline = time.monotonic() + 90
    while "newcomer" not in kept_names(recipe) and time.monotonic() < deadline:
        time.sleep(1)
    assert "newcomer" in kept_names(recipe)
    assert len(flow_runs("build")) == builds + 1


def test_failed_run_says_source_file_and_row_in_its_first_line(stack, corpus):
    bad = Corpus(corpus.folder / "bad")
    write_rows(bad.folder / "in/worst-2.arrow", [{"name": "n", "text": None}])
    bad.recipe["name"] = "bad"
    failed = run("build/build", recipe=bad.write())
    assert failed.state.is_failed()
    assert "source worst, file" in failed.state.message.splitlines()[0]
    assert "worst-2.arrow" in failed.state.message.splitlines()[0]


def test_two_builds_of_one_corpus_at_once_end_well_one_after_the_other(stack, corpus):
    from prefect.deployments import run_deployment

    write_rows(corpus.folder / "in/best-3.parquet", rows(twice=prose("twice")))
    started = [
        run_deployment("build/build", parameters={"recipe": str(corpus.path)}, timeout=0) for _ in range(2)
    ]
    deadline = time.monotonic() + 150
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = [client.read_flow_run(one.id) for one in started]
            if all(one.state.is_final() for one in runs):
                break
            time.sleep(1)
        assert all(one.state.is_completed() for one in runs), [one.state for one in runs]
        corpora = []
        for one in runs:
            mine = [task for task in task_runs_of(client, one.id) if task.start_time]
            corpora.append((min(task.start_time for task in mine), max(task.end_time for task in mine)))
    (_, first_end), (second_start, _) = sorted(corpora)
    assert first_end <= second_start
    assert "twice" in kept_names(corpus.load())


def test_down_stops_everything_and_up_remembers_on_the_same_ports(stack):
    import psutil

    home = stack["PREFECT_HOME"]
    found = Stack.model_validate_json(Path(f"{home}/zyda/stack.json").read_text())
    environment = {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}
    assert zyda("down", env=environment).returncode == 0
    assert not any(psutil.pid_exists(part.pid) for part in found.parts.values())
    assert zyda("down", env=environment).stdout == "nothing was running\n"
    said = zyda("up", "--workers", "2", env=environment)
    assert said.returncode == 0
    again = Stack.model_validate_json(Path(f"{home}/zyda/stack.json").read_text())
    assert [part.address for part in again.parts.values()] == [part.address for part in found.parts.values()]
    assert f"Dask's dashboard {again.parts['scheduler'].dashboard}\n" in said.stdout
    assert again.parts["scheduler"].dashboard == found.parts["scheduler"].dashboard
    assert flow_runs("build")
