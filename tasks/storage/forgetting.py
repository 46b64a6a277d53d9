"""Remove damaged artifacts, and the records that mark them as finished, so that they are rebuilt."""

import re
from collections.abc import Iterable
from functools import partial

from zyda_flows.tasks.storage.artifacts import MANIFESTS, RESULTS, key_of
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import KEY, digest_of
from zyda_flows.tasks.storage.stores import ask_again

NAMED = re.compile(MANIFESTS.encode() + rb'/[^"\\]+\.json')
KEYS = re.compile(rb'\\"key\\":\\"([0-9a-f]{20})\\"')


def forget(folder: Folder, paths: Iterable[str]) -> None:
    """Remove damaged artifacts or records, and the manifests and cached results that mark them as finished."""
    damaged = set(paths)
    ask_again(partial(forget_once, folder, damaged))
    forget_results_of_nothing(folder)


def forget_once(folder: Folder, damaged: set[str]) -> None:
    for path in damaged:
        folder.delete(path)
        parent, _, name = path.rpartition("/")
        key = key_of(name)
        if not KEY.fullmatch(key):  # a record of the corpus, which does not mark other files as finished
            continue
        folder.delete(f"{RESULTS}/{key}")
        for record in folder.files(parent):
            if record.endswith(".json") and key in record:
                folder.delete(record)
    for manifest in folder.files(MANIFESTS):
        content = folder.read_if_there(manifest) or b""
        if any(path.encode() in content for path in damaged):
            folder.delete(manifest)


def forget_results_of_nothing(folder: Folder) -> None:
    """Remove Prefect's cached results of stages whose manifests are missing, so that the stages run again.

    Also remove results that are stored under the key of another result.
    """
    ask_again(partial(forget_results_once, folder))


def forget_results_once(folder: Folder) -> None:
    manifests = {*folder.files(MANIFESTS)}
    finished_keys = {key_of(manifest) for manifest in manifests}
    for path in folder.files(RESULTS):
        content, result_key = folder.read_if_there(path) or b"", path.rpartition("/")[2]
        # The result of a group of sources has its own key, and names a manifest of each source.
        named = {name.decode() for name in NAMED.findall(content)}
        keys = [name.decode() for name in KEYS.findall(content)]
        is_in_its_place = result_key == (keys[0] if len(keys) == 1 else digest_of(keys))
        if not is_in_its_place or not (result_key in finished_keys or (named and named <= manifests)):
            folder.delete(path)
