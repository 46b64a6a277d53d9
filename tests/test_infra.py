"""What of the set-ups can be checked without a container engine or the charts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from distributed.cli import dask_scheduler, dask_worker
from small_corpus import REPOSITORY

from tasks.cluster import ALLOCATOR

INFRA = REPOSITORY / "infra"


def test_compose_file_follows_the_specification():
    pytest.importorskip("check_jsonschema")
    command = ["--builtin-schema", "vendor.compose-spec", str(INFRA / "compose.yaml")]
    said = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *command], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


def values_in(content, name=""):
    """Yield every value of a YAML tree with the name of its field."""
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
    assert all(value.startswith("${") for name, value in fields if name.endswith(("PASSWORD", "_KEY")))


@pytest.mark.parametrize("name", ["dask.yaml", "leases.yaml"])
def test_manifests_follow_the_schemas_of_kubernetes(name):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    found = documents(INFRA / "kubernetes" / name)
    assert found
    for manifest in found:
        kubernetes_validate.validate(manifest, "1.33", strict=True)


def containers():
    """Yield the command of every container that starts a part of Dask, as a list."""
    for manifest in documents(INFRA / "kubernetes/dask.yaml"):
        if manifest["kind"] == "Deployment":
            yield from (c["command"] for c in manifest["spec"]["template"]["spec"]["containers"])
    services = documents(INFRA / "compose.yaml")[0]["services"].values()
    yield from (s["command"].split() for s in services if str(s.get("command")).startswith("dask "))


@pytest.mark.parametrize("command", list(containers()), ids=" ".join)
def test_command_is_one_that_dask_has(command):
    program, part, *arguments = command
    assert program == "dask"
    if part == "cuda":
        cli = pytest.importorskip("dask_cuda.cli", reason="needs dask-cuda, which needs a GPU")
        part, *arguments = arguments
        main = {"worker": cli.worker}[part]
    else:
        main = {"worker": dask_worker.main, "scheduler": dask_scheduler.main}[part]
    assert main.make_context(part, arguments).params["preload_argv"] == ()


def test_worker_of_prefects_chart_finds_what_it_starts_by():
    for name in ("Dockerfile", "Dockerfile.gpu"):
        text = (INFRA / name).read_text()
        assert re.search(r"apt-get install .*\btini\b", text)
        assert "> /opt/prefect/entrypoint.sh" in text


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_image_copies_what_there_is_and_has_the_settings_of_the_workers(name):
    text = (INFRA / name).read_text()
    copied = [
        part for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE) for part in line.split()[:-1]
    ]
    assert copied
    assert all(Path(REPOSITORY / part).exists() for part in copied), copied
    for setting, value in ALLOCATOR.items():
        assert f"{setting}={value}" in text
