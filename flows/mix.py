"""The flow that mixes published corpora into the files that a training run reads."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact

from flows.dashboard.artifact_keys import key_of
from flows.dashboard.mixture_page import MixturePage
from flows.server.exclusion import mixture_lock
from flows.server.run_names import name_by_mixture
from flows.server.run_states import completed
from tasks.mixing.mixing import Mixed, mix_all
from tasks.mixing.mixture import load_mixture
from tasks.mixing.planning import Inputs, inputs_of
from tasks.stage.fan_out import fan_out
from tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from tasks.stage.runner import task_runner
from tasks.storage.claims import reading

AT_ONCE = 256  # jobs between two looks at how far it is


@flow(name="mix", flow_run_name=name_by_mixture, task_runner=task_runner(), persist_result=False)
def mix(mixture: str, storage: str | None = None) -> str:
    """Mix published corpora into the files that a training run reads, over the cluster; return their folder.

    Args:
        mixture: The mixture's YAML file, as the machine that runs the flow sees it.
        storage: Where the mixture goes, instead of where the file says: any fsspec URL.
    """
    loaded = load_mixture(mixture, storage=storage)
    with mixture_lock(loaded):
        inputs = inputs_of(loaded)
        with reading(inputs.corpus_folders, f"zyda mix {loaded.name}"):
            mixed: Mixed = mix_files.submit(inputs).result()
        show(inputs, mixed)
    place = inputs.folder.folder(mixed.place).url
    return completed(place, f"{mixed.tokens:,} tokens are in {place}.")


@task(task_run_name="mix", **ONCE_A_BUILD)
def mix_files(inputs: Inputs) -> Mixed:
    """Write what is not there yet, and show how far it is."""
    page = MixturePage(inputs.mixture.name, inputs.folder.url)
    with page.until_the_end():
        mixed = mix_all(inputs, partial(over_cluster, page))
    page.complete(mixed.parts)
    return mixed


def over_cluster(page: MixturePage, jobs: Sequence[Any], step: str) -> list[Any]:
    """Do the jobs of a step on the workers, and show how far it is."""
    made = list[Any]()
    page.begin(step, len(jobs))
    for start in range(0, len(jobs), AT_ONCE):
        some = jobs[start : start + AT_ONCE]
        made += fan_out(operator.call, some, stage=step, source=None)
        page.advance(len(some))
    return made


def show(inputs: Inputs, mixed: Mixed) -> None:
    """Put the account of the parts into the dashboard."""
    rows = [part.model_dump(exclude_none=True) for part in mixed.parts]
    create_table_artifact(
        rows, key_of(mixed.name, "mixture", inputs.folder.url), "What the mixture has of each part"
    )
