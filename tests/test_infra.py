"""What of the set-ups can be checked without a container engine or the charts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
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


@pytest.mark.parametrize("path", sorted(INFRA.rglob("*.yaml")), ids=lambda path: path.name)
def test_file_is_yaml_without_a_credential(path):
    fields = list(values_in(yaml.safe_load(path.read_text())))
    assert fields
    assert all(value.startswith("${") for name, value in fields if name.endswith(("PASSWORD", "_KEY")))


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
