"""Load models once for all shards and threads of a worker, and only if their files are unchanged."""

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

from zyda_flows.tasks.errors import BadInput

Arguments = ParamSpec("Arguments")
Loaded = TypeVar("Loaded")


class Loader(Generic[Arguments, Loaded]):
    """A function that loads models, with a cache of the last two. Threads load a model one after another."""

    def __init__(self, load: Callable[Arguments, Loaded]) -> None:
        self.cached = lru_cache(maxsize=2)(load)
        self.loading = Lock()

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Loaded:
        with self.loading:  # without the lock, two threads could load the model at the same time
            return self.cached(*args, **kwargs)  # type: ignore[arg-type]

    def forget(self) -> None:
        """Empty the cache."""
        self.cached.cache_clear()


def load_unchanged(
    name: str, digest: str, current_digest: Callable[[], str], load: Callable[[], Loaded]
) -> Loaded:
    """Load a model. Raises BadInput if its files have changed since `digest` was taken, or change meanwhile."""
    expect_digest(name, digest, current_digest())
    loaded = load()
    expect_digest(name, digest, current_digest())
    return loaded


def expect_digest(name: str, digest: str, current: str) -> None:
    if current != digest:
        raise BadInput(f"model {name}: its files have changed since the build began; build again")
