"""The deployments: `deployments/prefect.yaml` declares each once, with its name, its flow and what starts it.

`prefect deploy --all` registers them. The names of their flows are read from there wherever the program asks a
server for runs of its flows: to mark dead runs as crashed, to list runs, to delete them.
"""

from functools import cache
from importlib.resources import files

import yaml

DEFINITIONS = files("zyda_flows.deployments") / "prefect.yaml"


@cache
def flow_names() -> tuple[str, ...]:
    """Return the names of all deployments. The flow of each has the same name (tests/server/test_deployed.py)."""
    declared = yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))["deployments"]
    return tuple(deployment["name"] for deployment in declared)


def expect_deployed(flow: str) -> None:
    """Raise TypeError if a flow has no deployment: its dead runs would never be marked as crashed."""
    if flow not in flow_names():
        names = ", ".join(flow_names())
        raise TypeError(
            f"deployments/prefect.yaml: expected a deployment of the flow {flow}, got only {names}"
        )
