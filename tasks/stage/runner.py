"""Choose the cluster for the stages of a build, and connect each worker to the Prefect server of the run."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Self

import httpx
from prefect.client.orchestration import get_client
from prefect.context import SettingsContext, TagsContext
from prefect.runtime import flow_run
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)
from prefect_dask import DaskTaskRunner, PrefectDaskClient
from prefect_dask.task_runners import PrefectDaskFuture

from zyda_flows.tasks.errors import BadRecipe, LostWorkers, first_line
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.stage.senders import ApiServer, senders_of_run, server_of_run
from zyda_flows.tasks.storage.folder import is_local
from zyda_flows.tasks.workers.dask_cluster import local_cluster
from zyda_flows.tasks.workers.scheduler_address import configured_scheduler

THREADS_FOR_STORES = 2


class BuildTaskRunner(DaskTaskRunner):
    """Prefect's runner on Dask, for a cluster whose workers may also run tasks of other Prefect servers.

    For each task, Prefect enters a copy of the runner on the worker, with the settings of the run.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.senders = ExitStack()
        self.is_checked = self.address is None  # workers of a cluster on this machine reach the same servers

    def __enter__(self) -> Self:
        self.senders.enter_context(senders_of_run())
        super().__enter__()
        return self

    def __exit__(self, *arguments: Any) -> None:
        super().__exit__(*arguments)
        self.senders.close()

    def submit(self, *arguments: Any, **options: Any) -> PrefectDaskFuture[Any]:
        """Submit a task without the tags of the flow run: Prefect requests a slot of a limit for each tag.

        Raises LostWorkers if a worker cannot use the server of this run.
        """
        if not self.is_checked:
            self.check_server()
        # Task runs are unique. Without `pure`, Dask does not hash their arguments, which contain the recipe.
        self.client.submit = partial(PrefectDaskClient.submit, self.client, pure=False)
        with TagsContext(current_tags=set()), PickledSettings.current():
            return super().submit(*arguments, **options)

    def check_server(self) -> None:
        server = server_of_run()
        if server.url and (fault := self.client.submit(server_fault, server, pure=False).result()):
            raise LostWorkers(
                f"a worker of the Dask cluster at {self.address} cannot use the Prefect server at {server.url}: "
                f"{fault}; set PREFECT_API_URL to a server that the workers can use, or unset "
                "DASK_SCHEDULER_ADDRESS"
            )
        self.is_checked = True


class PickledSettings(SettingsContext):
    """Settings of a run that Dask pickles. Prefect's own form costs 55 ms for each task to write and read."""

    @classmethod
    def current(cls) -> Self:
        now = SettingsContext.get()
        assert now is not None
        return cls(profile=now.profile, settings=now.settings)

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:
        return {"profile": self.profile, "settings": self.settings}


def server_fault(server: ApiServer) -> str:
    """Return why this process cannot use a Prefect server, with the name of the machine; "" if it can."""
    settings = {
        PREFECT_API_URL: server.url,
        PREFECT_API_AUTH_STRING: server.login,
        PREFECT_API_SSL_CERT_FILE: server.certificate,
        PREFECT_CLIENT_MAX_RETRIES: 1,
    }
    try:
        with temporary_settings(settings), get_client(sync_client=True) as client:
            client.api_version()
    except (httpx.HTTPError, OSError, ValueError) as error:
        refused = getattr(getattr(error, "response", None), "status_code", None) == HTTPStatus.UNAUTHORIZED
        return f"{socket.gethostname()}: {'it refuses the login' if refused else first_line(error)}"
    return ""


def task_runner(threads: int | None = None) -> BuildTaskRunner:
    """Return Prefect's runner on the cluster that the environment configures.

    If Dask's configuration has a scheduler address (DASK_SCHEDULER_ADDRESS), the runner uses that scheduler.
    Otherwise it starts a cluster on this machine for the duration of the flow run, with `threads` threads per core.
    threads: None for a number that suits the run's recipe.
    """
    if address := configured_scheduler():
        return BuildTaskRunner(address=address)
    return BuildTaskRunner(cluster_class=cluster_of_run, cluster_kwargs={"threads": threads})


@contextmanager
def cluster_of_run(threads: int | None = None) -> Iterator[Any]:
    """Yield a cluster on this machine for the flow run that is about to start."""
    with local_cluster(threads or threads_of_run()) as cluster:
        yield cluster


def threads_for(recipe: Recipe) -> int:
    """Return the threads per core for a build: with remote storage, a thread can wait while another computes."""
    urls = [recipe.storage, *(url for source in recipe.sources for url in source.places)]
    return 1 if all(map(is_local, urls)) else THREADS_FOR_STORES


def threads_of_run() -> int:
    parameters = flow_run.parameters or {}
    with suppress(KeyError, BadRecipe):  # the flow itself reports an invalid recipe
        return threads_for(
            load_recipe(
                parameters["recipe"], storage=parameters.get("storage"), sample=parameters.get("sample")
            )
        )
    return 1
