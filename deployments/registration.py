"""Register the work pool and the deployments on the Prefect server of the stack."""

import json
import os
import subprocess
import sys
from importlib.resources import files

from zyda_flows.deployments.stack import Stack, api_of, environment
from zyda_flows.flows.server.deployed import DEFINITIONS
from zyda_flows.flows.server.local_server import NoServer
from zyda_flows.flows.server.login import use_api

POOL = "zyda"


def prefect(*arguments: str, environment: dict[str, str]) -> None:
    """Run a command of Prefect. Raises NoServer with its output if it fails."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    result = subprocess.run(  # noqa: S603
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd="/", check=False
    )
    if result.returncode:
        output = (result.stdout + result.stderr).strip()
        raise NoServer(f"prefect {' '.join(arguments)} failed: {output[-2000:]}")


def register(stack: Stack) -> None:
    """Create or update the work pool and the deployments. Schedules are kept."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate

    jobs = json.loads((files("zyda_flows.deployments") / "process-jobs.json").read_text())
    with use_api(api_of(stack)), get_client(sync_client=True) as client:
        pool = WorkPoolCreate(name=POOL, type="process", base_job_template=jobs)
        client.create_work_pool(pool, overwrite=True)
    prefect("deploy", "--all", "--prefect-file", str(DEFINITIONS), environment=environment(stack))
