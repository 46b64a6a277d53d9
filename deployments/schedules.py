"""The watched corpora and their intervals: a schedule of the deployment `watch/watch` for each corpus.

The schedules are stored on the Prefect server, each with its recipe as its parameters. So there may be any number
of them, and registering the deployments again keeps them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.exceptions import ObjectNotFound
from pydantic import BaseModel

from zyda_flows.deployments.stack import stack_api
from zyda_flows.flows.server.exclusion import lock_name
from zyda_flows.flows.server.health import is_healthy
from zyda_flows.flows.server.local_server import NoServer, configured_server
from zyda_flows.flows.server.login import use_api
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.folder import absolute

WATCH = "watch/watch"
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
SHORTEST = timedelta(seconds=10)
NO_WATCHER = "nothing runs that could watch; start it with: zyda up"


class InvalidSchedule(ZydaError):
    """The arguments of `zyda watch` are ambiguous or invalid."""


class Watch(BaseModel):
    """A watched corpus: its recipe with its options, and the interval between looks at its sources."""

    recipe: str
    storage: str | None = None
    sample: float | None = None
    every: timedelta

    def __str__(self) -> str:
        more = [f"--storage {self.storage}"] if self.storage else []
        more += [f"--sample {self.sample:g}"] if self.sample else []
        return " ".join([f"every {in_words(self.every):>4}", "", self.recipe, *more])


def duration(text: str) -> timedelta:
    """Parse `30s`, `15m`, `1h` or `1d`. Raises InvalidSchedule."""
    parsed = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not parsed:
        raise InvalidSchedule(f"--every {text}: expected a whole number and a unit: 30s, 15m, 1h or 1d")
    every = timedelta(**{UNITS[parsed[2]]: int(parsed[1])})
    if every < SHORTEST:
        raise InvalidSchedule(
            f"--every {text}: expected {in_words(SHORTEST)} or more, because each look takes seconds"
        )
    return every


def in_words(every: timedelta) -> str:
    """Format a duration so that `duration` can parse it."""
    seconds = int(every.total_seconds())
    unit, size = next(
        (unit, size) for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)) if not seconds % size
    )
    return f"{seconds // size}{unit}"


def run_watch_command(
    recipe: str | None, every: str | None, stop: bool, show: bool, storage: str | None, sample: float | None
) -> list[str]:
    """Run `zyda watch` with its arguments; return the lines to print."""
    is_clear = not (recipe or every or stop or storage or sample) if show else recipe and stop != bool(every)
    if not is_clear:
        raise InvalidSchedule("give a RECIPE with --every 1h or --stop; or --list alone")
    if recipe is None:  # the watched corpora are listed
        return [str(watch) for watch in list_watches()] or ["nothing is watched"]
    if every:
        watch = watch_every(recipe, storage, sample, duration(every))
        return [f"watching {watch}"]
    return [
        f"{recipe}: {'no longer watched' if stop_watching(recipe, storage, sample) else 'was not watched'}"
    ]


def watch_every(recipe: str, storage: str | None, sample: float | None, every: timedelta) -> Watch:
    """Watch a corpus at an interval; a corpus that is already watched gets the new interval."""
    watch = absolute_watch(recipe, storage, sample, every)
    slug = slug_of(watch)
    parameters = watch.model_dump(exclude={"every"})
    schedule = IntervalSchedule(interval=every)
    with watch_deployment() as (client, deployment):
        for known in deployment.schedules:
            if known.slug == slug:
                client.update_deployment_schedule(
                    deployment.id, known.id, schedule=schedule, parameters=parameters, active=True
                )
                return watch
        creation = DeploymentScheduleCreate(schedule=schedule, parameters=parameters, slug=slug)
        client.create_deployment_schedules(deployment.id, [creation])
    return watch


def stop_watching(recipe: str, storage: str | None, sample: float | None) -> bool:
    """Stop watching a corpus. Returns whether it was watched."""
    slug = slug_of(absolute_watch(recipe, storage, sample, timedelta(1)))
    with watch_deployment() as (client, deployment):
        schedules = [schedule for schedule in deployment.schedules if schedule.slug == slug]
        for schedule in schedules:
            client.delete_deployment_schedule(deployment.id, schedule.id)
    return bool(schedules)


def list_watches() -> list[Watch]:
    """Return the watched corpora of the configured server."""
    with watch_deployment() as (client, _):
        return watches_on(client)


def watches_on(client: SyncPrefectClient) -> list[Watch]:
    """Return the watched corpora of a server; none if the deployment is not registered."""
    try:
        deployment = client.read_deployment_by_name(WATCH)
    except ObjectNotFound:
        return []
    return [watch for known in deployment.schedules if (watch := watch_of(known))]


def watch_of(known: DeploymentSchedule) -> Watch | None:
    """Return the watched corpus of a schedule; None if the schedule has no recipe."""
    if isinstance(known.schedule, IntervalSchedule) and "recipe" in known.parameters and known.active:
        return Watch(**known.parameters, every=known.schedule.interval)
    return None


def absolute_watch(recipe: str, storage: str | None, sample: float | None, every: timedelta) -> Watch:
    """Return a watch with absolute paths, which a process in another folder can use."""
    place = absolute(storage) if storage else None
    return Watch(recipe=absolute(recipe), storage=place, sample=sample, every=every)


def slug_of(watch: Watch) -> str:
    """Return the name of a corpus's schedule. Raises BadRecipe if its recipe is invalid for the watcher."""
    return lock_name(load_recipe(watch.recipe, storage=watch.storage, sample=watch.sample))


@contextmanager
def watch_deployment() -> Iterator[tuple[SyncPrefectClient, DeploymentResponse]]:
    """Yield the deployment `watch/watch` on the configured server or on the server of `zyda up`."""
    api = configured_server() or stack_api()
    if not api or not is_healthy(api):
        raise NoServer(f"{api.url}: {NO_WATCHER}" if api else NO_WATCHER)
    with use_api(api), get_client(sync_client=True) as client:
        try:
            yield client, client.read_deployment_by_name(WATCH)
        except ObjectNotFound as error:
            raise NoServer(f"{api.url}: the deployment {WATCH} is not there; {NO_WATCHER}") from error
