"""The flow that mixes published corpora into the files that a training run reads."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact

from zyda_flows.flows.dashboard.artifact_keys import key_of
from zyda_flows.flows.dashboard.mixture_page import MixturePage
from zyda_flows.flows.server.exclusion import mixture_lock
from zyda_flows.flows.server.run_names import name_by_mixture
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.erasure.removal_certificate import expect_finished
from zyda_flows.tasks.mixing import removal
from zyda_flows.tasks.mixing.mixing import mix_all
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.mixture_manifest import MixtureManifest
from zyda_flows.tasks.mixing.planning import Inputs, inputs_of
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.runner import task_runner
from zyda_flows.tasks.storage.claims import reading


@flow(name="mix", flow_run_name=name_by_mixture, task_runner=task_runner(), persist_result=False)
def mix(mixture: str, storage: str | None = None, forget: bool = False) -> str:
    """Mix published corpora into the files that a training run reads, on the cluster; return their folder.

    Args:
        mixture: The mixture's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the mixture, instead of the file's `storage`: any fsspec URL.
        forget: Mix again without documents that the corpora have removed, and remove all older versions.
    """
    loaded = load_mixture(mixture, storage=storage)
    with mixture_lock(loaded):
        inputs = inputs_of(loaded)
        with reading(inputs.corpus_folders, f"zyda mix {loaded.name}"):
            mixed: MixtureManifest = mix_files.submit(inputs, forget).result()
        show(inputs, mixed)
    place = inputs.folder.folder(mixed.place).url
    return completed_state(place, f"{mixed.tokens:,} tokens are in {place}.")


@task(task_run_name="mix", **ONCE_A_BUILD)
def mix_files(inputs: Inputs, forget: bool) -> MixtureManifest:
    """Write the files that are missing, and show the progress. forget: also remove all older versions."""
    page = MixturePage(inputs.mixture.name, inputs.folder.url)
    run_jobs = partial(over_cluster, page)
    with page.until_the_end():
        if forget:
            expect_finished(inputs.corpus_folders)
            removal.forget(inputs, removal.planned_certificate(inputs), run_jobs)
        mixed = mix_all(inputs, run_jobs)
    page.complete(mixed.parts)
    return mixed


def over_cluster(page: MixturePage, jobs: Sequence[Any], step: str) -> list[Any]:
    """Run the jobs of a step on the workers, show the progress, and return their results."""
    page.begin(step, len(jobs))
    with calling_on_result(lambda *_: page.advance()):
        return fan_out(operator.call, jobs, stage=step, source=None)


def show(inputs: Inputs, mixed: MixtureManifest) -> None:
    """Show the accounts of the parts in the dashboard."""
    rows = [part.model_dump(exclude_none=True) for part in mixed.parts]
    create_table_artifact(
        rows, key_of(mixed.name, "mixture", inputs.folder.url), "The mixture's documents and tokens by part"
    )
