"""Checks of the files in infra/ that need neither a container engine nor the Helm charts."""

import atexit
import contextlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from distributed.cli import dask_scheduler, dask_worker
from small_corpus import REPOSITORY

from zyda_flows.deployments.stack import short_logs
from zyda_flows.flows.server.local_server import retention
from zyda_flows.tasks.workers.dask_cluster import ALLOCATOR, OWN_SCHEDULER, SCHEDULER_PRELOAD
from zyda_flows.tasks.workers.tls import dask_key_pair

INFRA = REPOSITORY / "infra"


def test_compose_file_follows_the_specification():
    pytest.importorskip("check_jsonschema")
    command = ["--builtin-schema", "vendor.compose-spec", str(INFRA / "compose.yaml")]
    process = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *command], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_compose_header_and_example_list_the_required_variables():
    content = (INFRA / "compose.yaml").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?", content))
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", content))
    header = content.partition("\nx-zyda")[0]
    example = (INFRA / ".env.example").read_text()
    assert needed == used == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    assert needed == set(re.findall(r"\b[A-Z0-9]+_[A-Z0-9_]+\b", header))
    ignored = subprocess.run(
        ["git", "check-ignore", "infra/.env"], cwd=REPOSITORY, capture_output=True, check=False
    )
    assert ignored.returncode in (0, 128)  # 128: no repository


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_dockerignore_allows_exactly_the_copied_paths(name):
    copied = {
        source
        for line in (INFRA / name).read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    rules = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    assert copied == {rule[1:] for rule in rules if rule.startswith("!")}
    assert all((REPOSITORY / source).exists() for source in copied)
    assert {"**/.env", "**/__pycache__"} <= set(rules)


def values_in(content, name=""):
    """Yield (field name, value) for every scalar of a YAML tree."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from values_in(value, str(key))
    elif isinstance(content, list):
        for value in content:
            yield from values_in(value, name)
    else:
        yield name, content


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", sorted(INFRA.rglob("*.yaml")), ids=lambda path: path.name)
def test_file_is_yaml_without_a_credential(path):
    fields = list(values_in(documents(path)))
    assert fields
    assert all(
        value.startswith(("${", "/tls/")) for name, value in fields if name.endswith(("PASSWORD", "_KEY"))
    )


@pytest.mark.parametrize("name", ["dask.yaml", "leases.yaml", "network.yaml"])
def test_manifests_follow_the_schemas_of_kubernetes(name):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    manifests = documents(INFRA / "kubernetes" / name)
    assert manifests
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.33", strict=True)


def containers():
    """Yield the command of every container that starts a part of Dask, as a list of arguments."""
    for manifest in documents(INFRA / "kubernetes/dask.yaml"):
        if manifest["kind"] == "Deployment":
            yield from (c["command"] for c in manifest["spec"]["template"]["spec"]["containers"])
    services = documents(INFRA / "compose.yaml")[0]["services"].values()
    yield from (s["command"].split() for s in services if str(s.get("command")).startswith("dask "))


@pytest.mark.parametrize("command", list(containers()), ids=" ".join)
def test_commands_are_valid_for_dask(command):
    program, part, *arguments = command
    assert program == "dask"
    if part == "cuda":
        cli = pytest.importorskip("dask_cuda.cli", reason="needs dask-cuda, which needs a GPU")
        part, *arguments = arguments
        main = {"worker": cli.worker}[part]
    else:
        main = {"worker": dask_worker.main, "scheduler": dask_scheduler.main}[part]
    assert main.make_context(part, arguments).params["preload_argv"] == ()


def test_images_have_the_entrypoint_of_prefects_chart():
    for name in ("Dockerfile", "Dockerfile.gpu"):
        text = (INFRA / name).read_text()
        assert re.search(r"apt-get install .*\btini\b", text)
        assert "> /opt/prefect/entrypoint.sh" in text


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_images_copy_existing_paths_and_have_the_worker_settings(name):
    text = (INFRA / name).read_text()
    copied = [
        part for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE) for part in line.split()[:-1]
    ]
    assert copied
    assert all(Path(REPOSITORY / part).exists() for part in copied), copied
    for setting, value in ALLOCATOR.items():
        assert f"{setting}={value}" in text


def test_every_part_of_dask_in_containers_has_the_key():
    services = documents(INFRA / "compose.yaml")[0]["services"]
    settings = dask_key_pair(Path("/tls")).dask_environment()
    for name in ("dask-scheduler", "dask-worker", "worker"):
        assert settings.items() <= services[name].get("environment", {}).items(), name
        assert "tls:/tls" in services[name]["volumes"]
    assert services["certificate"]["command"] == "python -m zyda_flows.deployments.make_certificate /tls"


def test_containers_have_the_limits_and_scheduler_preload_of_the_stack():
    services = documents(INFRA / "compose.yaml")[0]["services"]
    scheduler, worker = (services[name]["environment"] for name in ("dask-scheduler", "dask-worker"))
    pod_environments = [
        {variable["name"]: variable.get("value") for variable in container["env"]}
        for manifest in documents(INFRA / "kubernetes/dask.yaml")
        if manifest["kind"] == "Deployment"
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]
    length = "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH"
    assert len(pod_environments) == 3
    assert {variable[length] for variable in (scheduler, worker, *pod_environments)} == {short_logs()[length]}
    assert scheduler[SCHEDULER_PRELOAD] == pod_environments[0][SCHEDULER_PRELOAD] == OWN_SCHEDULER
    chart = documents(INFRA / "kubernetes/prefect-server-values.yaml")[0]["server"]["env"]
    for name, value in retention().items():
        assert services["prefect"]["environment"][name] == value
        assert {"name": name, "value": value} in chart


def test_prefect_servers_require_a_login_and_pools_ignore_commands_of_runs():
    services = documents(INFRA / "compose.yaml")[0]["services"]
    server, worker = services["prefect"]["environment"], services["worker"]
    assert server["PREFECT_SERVER_API_AUTH_STRING"].startswith("${PREFECT_LOGIN:?")
    assert worker["environment"]["PREFECT_API_AUTH_STRING"] == server["PREFECT_SERVER_API_AUTH_STRING"]
    assert server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4200"
    assert "--base-job-template /opt/zyda-flows/deployments/process-jobs.json" in worker["command"]
    secret = {"enabled": True, "existingSecret": "prefect-login"}
    chart = documents(INFRA / "kubernetes/prefect-server-values.yaml")[0]["server"]
    pool = documents(INFRA / "kubernetes/prefect-worker-values.yaml")[0]["worker"]
    assert chart["basicAuth"] == pool["selfHostedServerApiConfig"]["basicAuth"] == secret
    assert {"name": "PREFECT_SERVER_CORS_ALLOWED_ORIGINS", "value": "http://127.0.0.1:4200"} in chart["env"]
    jobs = (REPOSITORY / "deployments/process-jobs.json").read_text()
    assert pool["config"]["baseJobTemplate"]["configuration"] == jobs
    assert (
        "create secret generic prefect-login --from-literal auth-string=" in (INFRA / "README.md").read_text()
    )


def test_every_pod_that_talks_to_dask_has_the_key():
    pods = [
        m["spec"]["template"]["spec"]
        for m in documents(INFRA / "kubernetes/dask.yaml")
        if m["kind"] == "Deployment"
    ]
    values = documents(INFRA / "kubernetes/prefect-worker-values.yaml")[0]["worker"]
    assert len(pods) == 3
    for volumes, mounts in [
        *((pod["volumes"], pod["containers"][0]["volumeMounts"]) for pod in pods),
        (values["extraVolumes"], values["extraVolumeMounts"]),
    ]:
        assert {"name": "tls", "secret": {"secretName": "dask-tls"}} in volumes
        assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in mounts


def test_network_policies_allow_only_our_pods_to_reach_dask():
    labels = {
        m["metadata"]["name"] for m in documents(INFRA / "kubernetes/dask.yaml") if m["kind"] == "Deployment"
    }
    policies = {m["metadata"]["name"]: m["spec"] for m in documents(INFRA / "kubernetes/network.yaml")}
    pod_names = {
        value
        for name, value in values_in(list(policies.values()))
        if name in ("app", "values") and str(value).startswith("dask")
    }
    assert pod_names == labels
    for policy in policies.values():
        assert policy["policyTypes"] == ["Ingress"]
        assert all("podSelector" in peer for rule in policy["ingress"] for peer in rule["from"])


def test_make_certificate_prints_the_dask_environment(tmp_path):
    command = ["-m", "zyda_flows.deployments.make_certificate", str(tmp_path / "tls"), "--seen-at", "/tls"]
    process = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert (
        dict(line.split("=", 1) for line in process.stdout.splitlines())
        == dask_key_pair(Path("/tls")).dask_environment()
    )
    assert {path.name for path in (tmp_path / "tls").iterdir()} == {"dask-certificate.pem", "dask-key.pem"}


@pytest.fixture
def on_slurm(tmp_path, monkeypatch):
    """Return a function that runs infra/slurm.py with a fake SLURM and returns the submitted options."""
    cluster_options = {}

    class SLURMCluster:
        scheduler_address = "tls://10.0.0.1:8786"

        def __init__(self, **options):
            cluster_options.update(options)

        def scale(self, jobs):
            cluster_options["jobs"] = jobs

    for program in ("sbatch", "scancel"):
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/{program}\ncat >> {tmp_path}/{program}\necho "42;west"\n'
        )
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=SLURMCluster))
    monkeypatch.setattr(time, "sleep", Mock(side_effect=SystemExit))
    exit_calls = []

    def register(function, *positional, **options):
        if function is subprocess.run:  # libraries register functions too
            exit_calls.append(partial(function, *positional, **options))

    monkeypatch.setattr(atexit, "register", register)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slurm.py", *arguments, "--tls", str(tmp_path)])
        with pytest.raises(SystemExit):
            runpy.run_path(str(INFRA / "slurm.py"), run_name="__main__")
        return cluster_options, exit_calls

    return run


def test_slurm_cluster_has_a_key_and_listens_on_the_interface(on_slurm, tmp_path):
    cluster_options, at_exit = on_slurm("--interface", "ib0")
    assert (cluster_options["interface"], cluster_options["protocol"], cluster_options["jobs"]) == (
        "ib0",
        "tls://",
        1,
    )
    assert cluster_options["security"].get_tls_config_for_role("worker")["key"] == str(
        tmp_path / "dask-key.pem"
    )
    assert any("COMM__TLS__WORKER__KEY" in line for line in cluster_options["job_script_prologue"])
    assert not at_exit


def test_slurm_cluster_has_gpu_jobs_and_cpu_jobs(on_slurm, tmp_path):
    arguments = [
        "--queue",
        "cpu",
        "--gpu-jobs",
        "4",
        "--gpu-queue",
        "gpu",
        "--gpus",
        "8",
        "--interface",
        "ib0",
    ]
    cluster_options, at_exit = on_slurm(*arguments)
    assert (cluster_options["queue"], cluster_options["worker_extra_args"]) == (
        "cpu",
        ["--resources", "CPU=1"],
    )
    options, _, script = (tmp_path / "sbatch").read_text().partition("#!/bin/bash\n")
    assert {"--array=1-4", "--partition=gpu", "--gres=gpu:8", "--mem=262144M"} <= set(options.split())
    *exports, command = script.splitlines()
    assert any("COMM__TLS__WORKER__KEY" in line for line in exports)
    words = shlex.split(command)
    assert words[1:6] == ["-m", "dask", "cuda", "worker", "tls://10.0.0.1:8786"]
    dask_cuda_worker(words[5:])
    assert {"GPU=1", "ib0", str(32 << 30)} <= set(words)
    for call in at_exit:
        call(stdin=subprocess.DEVNULL)
    assert (tmp_path / "scancel").read_text().split() == ["42"]


def test_slurm_cluster_with_ucx_has_no_key(on_slurm, tmp_path):
    cluster_options, _ = on_slurm("--gpu-jobs", "1", "--ucx")
    assert (cluster_options["protocol"], cluster_options["security"]) == ("ucx://", None)
    script = (tmp_path / "sbatch").read_text()
    assert "TLS" not in script + "".join(cluster_options["job_script_prologue"])
    assert "export DASK_DISTRIBUTED_UCXX__CREATE_CUDA_CONTEXT=true" in script
    words = shlex.split(script.splitlines()[-1])
    assert words[words.index("--protocol") + 1] == "ucx"
    dask_cuda_worker(words[5:])
    assert not [*tmp_path.glob("*.pem")]


ODD_SIZES = [
    "--cores=0",
    "--memory=lots",
    "--memory=0",
    "--jobs=-1",
    "--jobs=x",
    "--gpus=0",
    "--gpu-jobs=-1",
    "--gpu-memory=lots",
    "--gpu-memory=-3GB",
]


@pytest.mark.parametrize("odd", ODD_SIZES)
def test_invalid_slurm_sizes_are_rejected_before_jobs_start(on_slurm, tmp_path, odd, capsys):
    cluster_options, _ = on_slurm("--gpu-jobs", "1", odd)
    assert f"argument {odd.split('=')[0]}: " in capsys.readouterr().err
    assert not cluster_options
    assert not (tmp_path / "sbatch").exists()


def dask_cuda_worker(arguments):
    """Parse arguments with the command line of dask-cuda if it is installed."""
    with contextlib.suppress(ImportError):
        from dask_cuda.cli import worker

        worker.make_context("worker", list(arguments))
