"""Watching: whether the sources are still what the last build saw, from their listings alone."""

import time

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.build_history import forget_damaged_records, is_recorded, record_build
from zyda_flows.tasks.planning.changes import Change, changes_between
from zyda_flows.tasks.planning.last_build import (
    BUILT,
    build_record,
    current_versions,
    last_build,
    recipe_digest,
    recorded_versions,
    versions,
)
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.input_files import load_listing
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.storage.artifacts import WORK, Receipt
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record

PATIENCE = 60  # seconds in which an automation has started the build that it was asked for
WATCHED = f"{WORK}/watched.json"


class PollState(Record):
    """What the watcher saw last: a hash of all listings, and the one that it announced last, and when."""

    seen: str = ""
    announced: str = ""
    announced_at: float = 0.0


class SourceChanges(Record):
    """What a look at the sources found, and whether it is to be announced.

    It is when something has changed, the listing is the same as at the look before (so no upload is
    under way) and this listing was not announced before. It is unanswered when it was, and there still
    is no corpus of it: the build may run, or may have failed.
    """

    changes: tuple[Change, ...]
    is_settled: bool
    is_to_announce: bool
    is_unanswered: bool = False


@task(task_run_name="note", **ONCE_A_BUILD)
def record_last_build(
    recipe: Recipe, inputs: list[SourcePlan], references: dict[str, PublishedCorpus], receipts: list[Receipt]
) -> None:
    """Remember what the published corpus was built from, and that it was built, if it is new."""
    folder = recipe.folder
    models = [prepared.model.digest for prepared in inputs if prepared.model]
    documents = [prepared.parameters.documents for prepared in inputs]
    digest = recipe_digest(recipe, inputs[0].parameters.tokenizer, models, documents, inputs[0].denied)
    listings = {prepared.source: prepared.listing for prepared in inputs}
    built = build_record(recipe, digest, listings, references, inputs[0].denied, receipts)
    manifest = published_manifest(folder)
    forget_damaged_records(folder)
    if manifest is not None and not is_recorded(folder):
        record_build(folder, manifest, changes_since(folder, listings, built.others))
    # Also where it is as before: whoever cleans takes what is newer for that of a build that has not ended.
    write_record(folder, BUILT, built)


def changes_since(
    folder: Folder, listings: dict[str, str], references: dict[str, dict[str, str]]
) -> tuple[Change, ...]:
    """Return what is not in the listings of a build as in those of the build before; nothing for a first."""
    if last_build(folder) is None:
        return ()
    now = {source: versions(load_listing(folder, path)) for source, path in listings.items()}
    return changes_between(recorded_versions(folder), now | references)


@task(task_run_name="look", **ONCE_A_BUILD)
def detect_changes(recipe: Recipe) -> SourceChanges:
    """List all sources, and the corpora that it is against, and compare them with what the last build saw."""
    folder = recipe.folder
    listed = current_versions(recipe)
    changes = changes_between(recorded_versions(folder), listed)
    watched = last_poll(folder)
    now = digest_of(listed)
    is_settled = watched.seen == now
    announce = bool(changes) and is_settled and watched.announced != now
    is_known = bool(changes) and is_settled and not announce
    waited = time.time() - watched.announced_at
    kept = {"announced": now, "announced_at": time.time()} if announce else {}
    watched = watched.model_copy(update={"seen": now, **kept})
    write_record(folder, WATCHED, watched)
    return SourceChanges(
        changes=changes,
        is_settled=is_settled,
        is_to_announce=announce,
        is_unanswered=is_known and waited > PATIENCE,
    )


def last_poll(folder: Folder) -> PollState:
    try:
        return read_record(folder, WATCHED, PollState) or PollState()
    except Damaged as error:
        warn(f"{error}; the watcher begins anew")
        return PollState()
