"""Watching: whether the sources are still what the last build saw, from their listings alone."""

import time

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.artifacts import WORK, Record, corpus_folder, digest_of
from tasks.ingest import Prepared
from tasks.listing import InputFile, list_files, load_listing
from tasks.prepare import sampled_files
from tasks.recipe import Recipe
from tasks.stage import RETRYING
from tasks.storage import Folder

PATIENCE = 60  # seconds in which an automation has started the build that it was asked for
BUILT = f"{WORK}/built.json"
WATCHED = f"{WORK}/watched.json"


class Built(Record):
    """The path of each source's listing in the corpus that is published."""

    listings: dict[str, str] = {}


class Watched(Record):
    """What the watcher saw last: a hash of all listings, and the one that it announced last, and when."""

    seen: str = ""
    announced: str = ""
    announced_at: float = 0.0


class Change(Record):
    """The files of a source that are not as the last build saw them, by URL."""

    source: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Sight(Record):
    """What a look at the sources found, and whether it is to be announced.

    It is when something has changed, the listing is the same as at the look before (so no upload is
    under way) and this listing was not announced before. It is unanswered when it was, and there still
    is no corpus of it: the build may run, or may have failed.
    """

    changes: tuple[Change, ...]
    is_settled: bool
    is_to_announce: bool
    is_unanswered: bool = False


@task(task_run_name="note", cache_policy=NO_CACHE, **RETRYING)
def note_built(recipe: Recipe, inputs: list[Prepared]) -> None:
    """Remember which files the published corpus was built from."""
    built = Built(listings={prepared.source: prepared.listing for prepared in inputs})
    content = built.model_dump_json().encode()
    folder = corpus_folder(recipe)
    if folder.read_if_there(BUILT) != content:
        folder.write(BUILT, content)


@task(task_run_name="look", cache_policy=NO_CACHE, **RETRYING)
def look(recipe: Recipe) -> Sight:
    """List all sources and compare them with what the last build saw."""
    folder = corpus_folder(recipe)
    listed = {source.name: sampled_files(list_files(source), recipe.sample) for source in recipe.sources}
    before = built_files(folder)
    names = [*listed, *(name for name in before if name not in listed)]
    changes = tuple(
        change
        for name in names
        if (change := difference(name, before.get(name, {}), versions(listed.get(name, []))))
    )
    content = folder.read_if_there(WATCHED)
    watched = Watched.model_validate_json(content) if content else Watched()
    now = digest_of({name: versions(found) for name, found in listed.items()})
    is_settled = watched.seen == now
    announce = bool(changes) and is_settled and watched.announced != now
    is_known = bool(changes) and is_settled and not announce
    waited = time.time() - watched.announced_at
    kept = {"announced": now, "announced_at": time.time()} if announce else {}
    watched = watched.model_copy(update={"seen": now, **kept})
    folder.write(WATCHED, watched.model_dump_json().encode())
    return Sight(
        changes=changes,
        is_settled=is_settled,
        is_to_announce=announce,
        is_unanswered=is_known and waited > PATIENCE,
    )


def versions(found: list[InputFile]) -> dict[str, str]:
    return {file.url: file.version for file in found}


def built_files(folder: Folder) -> dict[str, dict[str, str]]:
    """Return the version of each file of each source of the published corpus."""
    content = folder.read_if_there(BUILT)
    if not content:
        return {}
    listings = Built.model_validate_json(content).listings
    return {name: versions(list(load_listing(folder, path))) for name, path in listings.items()}


def difference(source: str, before: dict[str, str], now: dict[str, str]) -> Change:
    return Change(
        source=source,
        added=tuple(url for url in now if url not in before),
        changed=tuple(url for url in now if url in before and now[url] != before[url]),
        removed=tuple(url for url in before if url not in now),
    )
