"""`zyda up`, deployments, the watcher's automation, and `zyda down`, all with real parts."""

import contextlib
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import yaml
from disturbances import code_run_by, is_refused, pids_alive, task_runs_of
from patience import HANG, wait_for
from prefect.client.orchestration import get_client
from small_corpus import (
    COMMAND,
    REPOSITORY,
    Corpus,
    build_here,
    contents,
    kept_names,
    prose,
    rows,
    table_of,
    write_rows,
    zyda,
)
from small_mixtures import all_files, corpus_of, experiment_file, mixed_in, mixture_file

from zyda_flows.deployments.stack import Stack
from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.server.login import saved_api, use_api
from zyda_flows.flows.watch import watch
from zyda_flows.tasks.planning.bandings import tried_before

pytestmark = [pytest.mark.slow, pytest.mark.early(1), pytest.mark.xdist_group("stack")]

DEFINITIONS = yaml.safe_load((REPOSITORY / "deployments/prefect.yaml").read_text())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    small = Corpus(tmp_path_factory.mktemp("stack-corpus"))
    small.recipe["sources"] = small.recipe["sources"][:2]  # each task of a source takes a tenth of a second
    small.write()
    return small


def run(name, **parameters):
    """Run a deployment, wait for its end, and return the flow run."""
    from prefect.deployments import run_deployment

    return run_deployment(name, parameters=parameters, poll_interval=1)


def flow_runs(prefix):
    with get_client(sync_client=True) as client:
        return [flow_run for flow_run in client.read_flow_runs(limit=100) if flow_run.name.startswith(prefix)]


def test_up_again_starts_nothing(stack):
    home = stack["PREFECT_HOME"]
    before = Path(f"{home}/zyda/stack.json").read_text()
    process = zyda("up", env=stack)
    assert "starting" not in process.stdout
    assert "dashboard" in process.stdout
    assert Path(f"{home}/zyda/stack.json").read_text() == before


def test_everything_listens_on_the_loopback_address(stack):
    saved_stack = Stack.model_validate_json(Path(f"{stack['PREFECT_HOME']}/zyda/stack.json").read_text())
    listening = set()
    for part in saved_stack.parts.values():
        process = psutil.Process(part.pid)
        for member in [process, *process.children(recursive=True)]:
            listening |= {
                c.laddr.ip for c in member.net_connections("inet") if c.status == psutil.CONN_LISTEN
            }
    assert listening == {"127.0.0.1"}


def scheduler_of(stack):
    saved_stack = Stack.model_validate_json(Path(f"{stack['PREFECT_HOME']}/zyda/stack.json").read_text())
    return saved_stack.parts["scheduler"].address


def test_dask_rejects_clients_without_the_key(stack):
    home, address = Path(stack["PREFECT_HOME"], "zyda"), scheduler_of(stack)
    certificate, key = home / "dask-certificate.pem", home / "dask-key.pem"
    for place, files in [
        (address, ["own"]),
        (address.replace("tls://", "tcp://"), []),
        (address, [certificate]),
    ]:
        assert is_refused(code_run_by(place, *files))
    assert code_run_by(address, certificate, certificate, key, seconds=HANG).stdout == f"{os.getuid()}\n"


def test_key_is_readable_only_by_its_owner(stack):
    for name in ("dask-certificate.pem", "dask-key.pem"):
        assert stat.S_IMODE(Path(stack["PREFECT_HOME"], "zyda", name).stat().st_mode) == 0o600


def test_up_prints_the_settings_for_other_programs(stack):
    program = "import distributed; print(distributed.Client().submit(sum, [1, 2]).result())"
    home = {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}
    settings = zyda("up", "--env", env=home).stdout
    assert f"export PREFECT_API_URL={stack['PREFECT_API_URL']}\n" in settings
    process = subprocess.run(
        ["sh", "-c", f"{settings}\n{shlex.quote(sys.executable)} -c {shlex.quote(program)}"],
        env=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.stdout == "3\n", process.stderr


def test_registered_deployments_equal_the_file(stack):
    with get_client(sync_client=True) as client:
        deployments = {deployment.name: deployment for deployment in client.read_deployments()}
    assert set(deployments) == {deployment["name"] for deployment in DEFINITIONS["deployments"]}
    assert set(deployments) == {
        "build",
        "watch",
        "report",
        "export",
        "push",
        "bandings",
        "mix",
        "ablate",
        "removals",
    }
    for definition in DEFINITIONS["deployments"]:
        assert deployments[definition["name"]].description.strip() == definition["description"].strip()
        assert deployments[definition["name"]].tags == definition["tags"]
    tags = [{*definition["tags"]} - {"zyda"} for definition in DEFINITIONS["deployments"]]
    # With these tags the dashboard shows builds without the runs of the watcher.
    assert tags == [
        {"build"},
        {"watch"},
        {"report"},
        {"export"},
        {"push"},
        {"bandings"},
        {"mix"},
        {"ablate"},
        {"removals"},
    ]


def test_form_of_a_build_has_help_and_rejects_a_bad_value(stack):
    with get_client(sync_client=True) as client:
        build = client.read_deployment_by_name("build/build")
        properties = build.parameter_openapi_schema["properties"]
        assert set(properties) == {"recipe", "storage", "sample", "replace"}
        assert all(field.get("description") for field in properties.values())
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


def test_deployments_export_and_try_bandings(stack, corpus):
    target = corpus.folder / "exported"
    options = {"to": str(target), "format": "parquet", "columns": ["doc_id", "name"]}
    assert run("export/export", recipe=str(corpus.path), **options).state.is_completed()
    recipe = corpus.load()
    for source in recipe.sources:
        exported = [
            row
            for path in sorted((target / source.name).glob("*"))
            for row in pq.read_table(path).to_pylist()
        ]
        assert exported == [
            {"doc_id": row["doc_id"], "name": row["name"]} for row in table_of(recipe, source.name)
        ]
    assert run("bandings/bandings", recipe=str(corpus.path), thresholds=[0.5, 0.9]).state.is_completed()
    assert [tried.threshold for tried in tried_before(recipe.folder).tried] == [0.5, 0.9]
    failed = run("export/export", recipe=str(corpus.path), to=str(corpus.folder / "out"))
    assert failed.state.is_failed()
    assert "this is the folder of the corpus" in failed.state.message


def test_ablation_on_the_cluster_shows_curves_and_verdicts(stack, tmp_path):
    corpus = corpus_of(tmp_path / "corpus", documents=20)
    url = str(Path(corpus.recipe["storage"]) / corpus.recipe["name"])
    options = {
        "variants": [{"name": "all", "corpus": url}],
        "controls": {"equal": True, "degraded": None},
    }
    finished = run("ablate/ablate", experiment=str(experiment_file(tmp_path, corpus, **options)))
    assert finished.state.is_completed(), finished.state
    assert finished.name == "ablate experiment"
    assert "Equal control: " in finished.state.message
    assert (tmp_path / "ablations/experiment/ablation.html").exists()
    with get_client(sync_client=True) as client:
        artifacts = [artifact for artifact in client.read_artifacts(limit=200) if artifact.key]
    (page,) = [artifact.data for artifact in artifacts if artifact.key.startswith("experiment-ablate-")]
    assert page.startswith("# experiment: complete")
    assert "data:image/svg+xml;base64," in page
    assert "| runs | " in page
    proposed = run("ablate/ablate", experiment=str(experiment_file(tmp_path, corpus, **options)), swarm=2)
    assert "Predicted gain: " in proposed.state.message, proposed.state
    assert (tmp_path / "ablations/experiment/swarm/swarm.html").exists()
    sizes = {"tokens": "10K", "parameters": "158K", "storage": str(tmp_path / "removed")}
    explained = run("removals/removals", recipe=str(corpus.path), **sizes)
    assert explained.name == f"removals {corpus.recipe['name']}"
    assert "cells of a source and a length have too few documents" in explained.state.message, explained.state
    assert [*(tmp_path / "removed").glob("removed-*/removed.html")]
    failed = run("ablate/ablate", experiment=str(experiment_file(tmp_path, corpus, measure="gold")))
    assert failed.state.is_failed()
    assert "measure: gold is not measured here" in failed.state.message


def test_mix_on_the_cluster_equals_a_local_mix(stack, corpus, tmp_path):
    parts = [{"name": source, "source": source, "weight": 1} for source in ("best", "middle")]
    options = {"parts": parts, "budget": {"tokens": 2000}, "formats": ["megatron", "text"]}
    path = mixture_file(tmp_path, [corpus], **options)
    finished = run("mix/mix", mixture=str(path))
    assert finished.state.is_completed(), finished.state
    assert finished.name == "mix mixture"
    _, place = mixed_in(mixture_file(tmp_path / "here", [corpus], **options))
    on_cluster = all_files(tmp_path / f"mixed/mixture/{place.name}")
    expected = all_files(place)
    assert {k: v for k, v in on_cluster.items() if not k.endswith(".json")} == {
        k: v for k, v in expected.items() if not k.endswith(".json")
    }
    with get_client(sync_client=True) as client:
        artifacts = [artifact for artifact in client.read_artifacts(limit=200) if artifact.key]
    tables = [artifact for artifact in artifacts if artifact.key.startswith("mixture-mixture")]
    assert [row["name"] for row in json.loads(tables[0].data)] == ["best", "middle"]
    (page,) = [artifact.data for artifact in artifacts if artifact.key.startswith("mixture-mix-")]
    assert page.startswith("# mixture: complete")
    for row in ("| best | ", "| middle | ", "| tokens | ", "| shuffle of ids | "):
        assert row in page
    assert "░" not in page
    failed = run("mix/mix", mixture=str(mixture_file(tmp_path / "bad", ["nowhere"])))
    assert failed.state.is_failed()
    assert "no corpus is published there" in failed.state.message


def test_dashboard_has_the_page_the_accounts_and_the_report(stack, corpus):
    recipe = corpus.load()
    with get_client(sync_client=True) as client:
        artifacts = {artifact.key: artifact for artifact in client.read_artifacts(limit=200) if artifact.key}
    assert {artifact_key(recipe, kind) for kind in ("build", "corpus", "report")} <= set(artifacts)
    assert "| total |" in artifacts[artifact_key(recipe, "corpus")].data
    assert "middle" in artifacts[artifact_key(recipe, "build")].data


def test_build_starts_when_sources_have_changed_and_settled(stack, corpus):
    """Runs the watcher in this process. test_schedules.py tests its deployment and schedule."""
    recipe, path = corpus.load(), str(corpus.path)
    builds = len(flow_runs("build"))
    assert not watch(path).changes
    write_rows(corpus.folder / "in/best-2.parquet", rows(newcomer=prose("newcomer")))
    assert not watch(path).is_settled
    assert len(flow_runs("build")) == builds
    assert watch(path).is_settled
    wait_for(lambda: "newcomer" in kept_names(recipe), every=1)
    assert len(flow_runs("build")) == builds + 1


def test_simultaneous_builds_of_a_corpus_complete_in_sequence(stack, corpus):
    from prefect.deployments import run_deployment

    write_rows(corpus.folder / "in/best-3.parquet", rows(twice=prose("twice")))
    started = [
        run_deployment("build/build", parameters={"recipe": str(corpus.path)}, timeout=0) for _ in range(2)
    ]
    with get_client(sync_client=True) as client:
        wait_for(
            lambda: all(client.read_flow_run(flow_run.id).state.is_final() for flow_run in started), every=1
        )
        runs = [client.read_flow_run(flow_run.id) for flow_run in started]
        assert all(flow_run.state.is_completed() for flow_run in runs), [flow_run.state for flow_run in runs]
        periods = []
        for flow_run in runs:
            tasks = [task for task in task_runs_of(client, flow_run.id) if task.start_time]
            tasks = [task for task in tasks if task.name != "report"]  # for which no build waits
            periods.append((min(task.start_time for task in tasks), max(task.end_time for task in tasks)))
    (_, first_end), (second_start, _) = sorted(periods)
    assert first_end <= second_start
    assert "twice" in kept_names(corpus.load())


ANY_WORKER = "prefect worker start --pool zyda --name local"


def up_twice_at_once(environment):
    """Run `zyda up` twice at the same time. Return the outputs; the output of the process that waited is the second."""
    processes = [
        subprocess.Popen(
            [*COMMAND, "up", "--workers", "2"], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return sorted(outputs, key=lambda text: "waiting for its end" in text)


def running_for(home):
    """Return the command lines of the processes of a Prefect home, without the arguments for Python."""
    commands = []
    for process in psutil.process_iter(["cmdline", "status"]):
        with contextlib.suppress(psutil.Error):
            is_ours = process.environ().get("PREFECT_HOME") == str(home)
            if is_ours and process.info["status"] != psutil.STATUS_ZOMBIE:
                commands.append(" ".join(process.info["cmdline"][2:]))
    return commands


def test_up_after_down_keeps_the_history_and_the_ports(stack):
    home = stack["PREFECT_HOME"]
    saved_stack = Stack.model_validate_json(Path(f"{home}/zyda/stack.json").read_text())
    environment = {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}
    before = saved_api(Path(home, "zyda"))
    assert zyda("down", env=environment).returncode == 0
    assert not pids_alive() & {part.pid for part in saved_stack.parts.values()}
    assert zyda("down", env=environment).stdout == "nothing was running\n"
    first, second = up_twice_at_once(environment)
    assert "another `zyda up` or `zyda down` is under way; waiting for its end" in second
    assert [command for command in running_for(home) if "worker start" in command] == [ANY_WORKER]
    restarted = Stack.model_validate_json(Path(f"{home}/zyda/stack.json").read_text())
    assert [part.address for part in restarted.parts.values()] == [
        part.address for part in saved_stack.parts.values()
    ]
    assert f"Dask's dashboard {restarted.parts['scheduler'].dashboard}\n" in first
    assert restarted.parts["scheduler"].dashboard == saved_stack.parts["scheduler"].dashboard
    assert saved_api(Path(home, "zyda")).login != before.login  # the old login is no longer valid
    with use_api(saved_api(Path(home, "zyda"))):
        assert flow_runs("build")
