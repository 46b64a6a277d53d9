"""Register the work pool and the deployments on the Prefect server of the stack."""

import hashlib
import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from zyda_flows.deployments.stack import Stack, api_of, environment
from zyda_flows.flows.server.deployed import DEFINITIONS, flow_names
from zyda_flows.flows.server.local_server import NoServer
from zyda_flows.flows.server.login import use_api

POOL = "zyda"
REGISTERED = "zyda_deployments"  # variable on the server with the digest of the registered deployments


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
    """Create or update the work pool and the deployments; schedules are kept.

    `prefect deploy` needs five seconds, so it runs only if the server lacks a deployment, or if the definitions or
    the code have changed since it ran for this server.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.variables import Variable

    jobs = json.loads((files("zyda_flows.deployments") / "process-jobs.json").read_text())
    digest = digest_of_deployments()
    with use_api(api_of(stack)), get_client(sync_client=True) as client:
        pool = WorkPoolCreate(name=POOL, type="process", base_job_template=jobs)
        client.create_work_pool(pool, overwrite=True)
        registered = {deployment.name for deployment in client.read_deployments()}
        if Variable.get(REGISTERED) == digest and registered.issuperset(flow_names()):
            return
        prefect("deploy", "--all", "--prefect-file", str(DEFINITIONS), environment=environment(stack))
        Variable.set(REGISTERED, digest, overwrite=True)


def digest_of_deployments() -> str:
    """Hash the definitions of the deployments, and the code that determines their parameters."""
    folders = [Path(str(files(f"zyda_flows.{chapter}"))) for chapter in ("flows", "tasks")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    definitions = DEFINITIONS.read_bytes()
    return hashlib.sha256(b"".join([definitions, *(path.read_bytes() for path in paths)])).hexdigest()
