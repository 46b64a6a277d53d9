"""Locks on a Prefect server: builds of a corpus, or mixes of a mixture, wait for each other."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.logging import get_run_logger

from zyda_flows.flows.server.liveness import LEASE_SECONDS, mark_dead_runs, with_heartbeat
from zyda_flows.tasks.mixing.mixture import Mixture
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import digest_of


def lock_name(recipe: Recipe) -> str:
    """Return the name of a corpus's lock. It has a hash of the URL, because two corpora may have equal names."""
    return f"zyda-{recipe.corpus}-{digest_of(recipe.folder.url)[:8]}"


def mixture_lock_name(mixture: Mixture) -> str:
    return f"zyda-mix-{mixture.name}-{digest_of(mixture.folder.url)[:8]}"


def build_lock(recipe: Recipe, say: Callable[[str], object]) -> AbstractContextManager[None]:
    """Hold the lock of a corpus within a block. say: called with the reason if the build has to wait."""
    return one_at_a_time(lock_name(recipe), f"build of {recipe.corpus}", say)


def mixture_lock(mixture: Mixture) -> AbstractContextManager[None]:
    """Hold the lock of a mixture's folder within a block."""
    return one_at_a_time(mixture_lock_name(mixture), f"mix of {mixture.name}", lambda _: None)


def ablation_lock(name: str, url: str) -> AbstractContextManager[None]:
    """Hold the lock of an experiment, or of an explained corpus, within a block. url: of its folder."""
    return one_at_a_time(f"zyda-ablate-{name}-{digest_of(url)[:8]}", f"run of {name}", lambda _: None)


@contextmanager
def one_at_a_time(name: str, work: str, say: Callable[[str], object]) -> Iterator[None]:
    """Wait until no run holds a lock, and hold it within the block."""
    # The heartbeat begins before the wait, so that a run that frees locks of dead runs keeps the lock of this run.
    with with_heartbeat(name):
        mark_dead_runs()
        if is_held(name):
            why = f"another {work} is running, or was killed less than a minute ago"
            get_run_logger().warning("%s; waiting", why)
            say(why)
        with concurrency(name, occupy=1, strict=True, lease_duration=LEASE_SECONDS):
            yield


@contextmanager
def look_lock(recipe: Recipe) -> Iterator[bool]:
    """Hold the lock of looks at a corpus within the block; yield False if another run holds it."""
    name = f"{lock_name(recipe)}-look"
    with with_heartbeat(name):
        mark_dead_runs()
        if is_held(name):
            yield False
            return
        with concurrency(name, occupy=1, strict=True, lease_duration=LEASE_SECONDS):
            yield True


def is_held(name: str) -> bool:
    """Return whether a run holds a limit; create the limit if it does not exist."""
    with get_client(sync_client=True) as client:
        try:
            return bool(client.read_global_concurrency_limit_by_name(name).active_slots)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # two first builds may create it at the same time
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
            return False
