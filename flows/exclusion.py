"""Two builds of one corpus never run at the same time: the second waits."""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger

from tasks.artifacts import corpus_folder, digest_of
from tasks.recipe import Recipe

LEASE_SECONDS = 60  # so long after a build was killed, the next one of the same corpus may begin


@contextmanager
def one_at_a_time(recipe: Recipe) -> Iterator[None]:
    """Hold this corpus for as long as the block runs, on this Prefect server."""
    name = f"zyda-{recipe.corpus}-{digest_of(corpus_folder(recipe).url)[:8]}"
    with get_client(sync_client=True) as client:
        try:
            limit = client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
        else:
            if limit.active_slots:
                get_run_logger().warning(
                    "another build of %s is running, or was killed less than a minute ago; waiting", name
                )
    with concurrency(name, occupy=1, strict=True, lease_duration=LEASE_SECONDS):
        yield
