"""On which cluster Prefect runs the stages of a build."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from prefect.runtime import flow_run
from prefect_dask import DaskTaskRunner

from tasks.errors import BadRecipe
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe
from tasks.storage.folder import is_local
from tasks.workers.dask_cluster import configured_scheduler, local_cluster

THREADS_FOR_STORES = 2


def task_runner(threads: int | None = None) -> DaskTaskRunner:
    """Return Prefect's runner on the cluster that the environment says.

    An existing scheduler where Dask's own configuration names one (DASK_SCHEDULER_ADDRESS), else a
    cluster on this machine that lives as long as the flow run, with so many threads for each core, or as
    many as suit the run's recipe.
    """
    if address := configured_scheduler():
        return DaskTaskRunner(address=address)
    return DaskTaskRunner(cluster_class=cluster_of_run, cluster_kwargs={"threads": threads})


@contextmanager
def cluster_of_run(threads: int | None = None) -> Iterator[Any]:
    """Give a cluster on this machine for the flow run that is about to start."""
    with local_cluster(threads or threads_of_run()) as cluster:
        yield cluster


def threads_for(recipe: Recipe) -> int:
    """Return how many threads for each core suit a build: one waits for a store while another works."""
    urls = [recipe.storage, *(url for source in recipe.sources for url in source.places)]
    return 1 if all(map(is_local, urls)) else THREADS_FOR_STORES


def threads_of_run() -> int:
    parameters = flow_run.parameters or {}
    with suppress(KeyError, BadRecipe):  # the flow itself says what is wrong with a recipe
        return threads_for(
            load_recipe(
                parameters["recipe"], storage=parameters.get("storage"), sample=parameters.get("sample")
            )
        )
    return 1
