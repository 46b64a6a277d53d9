"""Without its libraries, an ablation names the command that installs them."""

import subprocess
import sys

import pytest

from zyda_flows.tasks.ablation import libraries
from zyda_flows.tasks.errors import BadRequest


def test_missing_libraries_are_named(monkeypatch):
    libraries.expect_libraries()
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name in {"torch", "scipy"} else name)
    with pytest.raises(
        BadRequest, match=r"^torch and scipy not installed; pip install 'zyda-flows\[ablation\]'$"
    ):
        libraries.expect_libraries()


def test_flow_and_commands_are_imported_without_the_libraries():
    """Prefect imports every flow when `zyda up` registers the deployments."""
    program = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['torch', 'scipy', 'transformers'])\n"
        "import zyda_flows.flows.ablate, zyda_flows.flows.command.cli, zyda_flows.tasks.ablation.removed\n"
        "import zyda_flows.flows.command.ablate"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
