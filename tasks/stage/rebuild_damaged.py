"""A build that finds damage makes what is damaged again, from what that was made of."""

from collections.abc import Callable
from typing import TypeVar

from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget

Result = TypeVar("Result")


def rebuilding_damaged(folder: Folder, make: Callable[[], Result]) -> Result:
    """Call `make` until it meets no damage; what it has finished it does not do again.

    Raises Denied where what was made again is damaged at once: that is the storage's doing.
    """
    seen_paths = set[str]()
    while True:
        try:
            return make()
        except Damaged as error:
            if seen_paths & set(error.paths):
                raise Denied(f"{error}, again after it was made anew: is the storage sound?") from error
            warn(f"{error}; it is made again")
            for path in error.paths[1:]:
                warn(f"{folder.url}/{path} is made again, too")
            seen_paths |= set(error.paths)
            forget(folder, error.paths)
