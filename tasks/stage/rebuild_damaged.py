"""Rebuild damaged artifacts of a build from their inputs."""

from collections.abc import Callable
from typing import TypeVar

from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget

Result = TypeVar("Result")


def rebuilding_damaged(folder: Folder, make: Callable[[], Result]) -> Result:
    """Call `make` until it raises no Damaged; each call reuses the finished artifacts of the calls before.

    Raises Denied if a rebuilt artifact is damaged again: then the storage is faulty.
    """
    seen_paths = set[str]()
    while True:
        try:
            return make()
        except Damaged as error:
            if seen_paths & set(error.paths):
                raise Denied(f"{error}, again after it was rebuilt: check the storage") from error
            warn(f"{error}; it is rebuilt")
            for path in error.paths[1:]:
                warn(f"{folder.url}/{path} is rebuilt, too")
            seen_paths |= set(error.paths)
            forget(folder, error.paths)
