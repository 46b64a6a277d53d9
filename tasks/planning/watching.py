"""Detect changes of the sources since the last build, from their listings only."""

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
    LABELS_OF,
    current_versions,
    last_build,
    make_build_record,
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

PATIENCE = 60  # seconds within which an automation starts a requested build
WATCHED = f"{WORK}/watched.json"


class PollState(Record):
    """The state of the watcher: hashes of the last and the last announced listings, and when announced."""

    seen: str = ""
    announced: str = ""
    announced_at: float = 0.0


class SourceChanges(Record):
    """The changes of the sources, and whether to announce them.

    They are announced if the listing equals the previous listing (so no upload is in progress) and was not
    announced before. They are unanswered if they were announced and no corpus of them exists: the build may be
    running, or may have failed.
    """

    changes: tuple[Change, ...]
    is_settled: bool
    is_to_announce: bool
    is_unanswered: bool = False


@task(task_run_name="note", **ONCE_A_BUILD)
def record_last_build(
    recipe: Recipe, inputs: list[SourcePlan], references: dict[str, PublishedCorpus], receipts: list[Receipt]
) -> None:
    """Record the input of the published corpus, if its build is new."""
    folder = recipe.folder
    models = [model.digest for prepared in inputs for model in prepared.models]
    documents = [prepared.parameters.documents for prepared in inputs]
    digest = recipe_digest(recipe, inputs[0].parameters.tokenizer, models, documents, inputs[0].denied)
    listings = {prepared.source: prepared.listing for prepared in inputs}
    labels = {
        LABELS_OF.format(plan.source): versions(
            file for planned in plan.labels for file in load_listing(folder, planned.listing)
        )
        for plan in inputs
        if plan.labels
    }
    built = make_build_record(recipe, digest, listings, references, inputs[0].denied, labels, receipts)
    manifest = published_manifest(folder)
    forget_damaged_records(folder)
    if manifest is not None and not is_recorded(folder):
        record_build(folder, manifest, changes_since(folder, listings, built.others))
    # Written also if unchanged: `zyda clean` treats newer files as those of an unfinished build.
    write_record(folder, BUILT, built)


def changes_since(
    folder: Folder, listings: dict[str, str], references: dict[str, dict[str, str]]
) -> tuple[Change, ...]:
    """Return the changes in the listings of a build since the build before; nothing for a first build."""
    if last_build(folder) is None:
        return ()
    now = {source: versions(load_listing(folder, path)) for source, path in listings.items()}
    return changes_between(recorded_versions(folder), now | references)


@task(task_run_name="look", **ONCE_A_BUILD)
def detect_changes(recipe: Recipe) -> SourceChanges:
    """List all sources and the corpora in `against`, and compare them with the last build."""
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
