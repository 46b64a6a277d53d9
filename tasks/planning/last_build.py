"""The input of the last build of a corpus, and whether it has changed since."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.published import MANIFEST, published_manifest
from zyda_flows.tasks.accounts.published_stamps import (
    TIME_COLUMNS,
    file_states,
    missing_files,
    possibly_changed,
)
from zyda_flows.tasks.accounts.readings import older_than, times_checked
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.deny_list import digests_of_lists
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.errors import Damaged, ZydaError
from zyda_flows.tasks.labels.label_tables import label_files
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.build_history import damaged_records
from zyda_flows.tasks.quality.forms import digest_of_model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.values import as_timedelta, has_commits
from zyda_flows.tasks.sources.copies import list_source_files
from zyda_flows.tasks.sources.hub import commit_of
from zyda_flows.tasks.sources.input_files import InputFile, load_listing, sampled_files
from zyda_flows.tasks.sources.register import Register, load_register, lost_entry
from zyda_flows.tasks.storage.artifacts import WORK, Receipt
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record
from zyda_flows.tasks.storage.stores import explain_errors

BUILT = f"{WORK}/built.json"
DENY_LISTS = "deny lists"  # no name of a source
LABELS_OF = "labels of {}"  # the name of the labels of a source


class BuildRecord(Record):
    """The last finished build: its recipe, each source's listing, and the manifests of all stages.

    others: the versions of the manifests of corpora in `against`, by the recipe's URLs, and of DENY_LISTS. entries:
    the number of entries in the register, because the loss of its last entries leaves no gap.
    """

    recipe_digest: str = ""
    listings: dict[str, str] = {}
    manifests: tuple[str, ...] = ()
    others: dict[str, dict[str, str]] = {}
    entries: int = 0


def recipe_digest(
    recipe: Recipe,
    tokenizer: str,
    models: Sequence[str],
    documents: Sequence[DocumentPlan],
    denied: Mapping[str, str],
) -> str:
    """Return a hash of everything that decides the result of a build, except the files of the sources.

    tokenizer, models: their digests; models in the order of the sources that have a model. documents: the steps of
    each source, with their lists and functions. denied: the SHA-256 of deny lists, by URL.
    """
    steps = [plan.model_dump() for plan in documents]
    return digest_of(
        [recipe.model_dump(mode="json"), tokenizer, list(models), steps, *denied.values(), digest_of_code()]
    )


def current_digest(recipe: Recipe) -> str | None:
    """Return the recipe digest with the current tokenizer, models and lists; None if any is unreadable."""
    # Late: the library of tokens sets an environment variable, and programs that read a corpus keep theirs.
    from zyda_flows.tasks.tokens.stored import load_tokenizer

    judges = [judge for source in recipe.sources for judge in recipe.judges_of(source.name)]
    try:
        digests = {key: digest_of_model(*key) for key in {(judge.model, judge.revision) for judge in judges}}
        models = [digests[judge.model, judge.revision] for judge in judges]
        documents = [plan_documents(recipe, source.name) for source in recipe.sources]
        tokenizer = digest_of(load_tokenizer(recipe.tokenizer).to_str())
        return recipe_digest(recipe, tokenizer, models, documents, digests_of_lists(recipe))
    except Exception:  # noqa: BLE001 (the hub raises many types of errors; the build raises them again)
        return None


@cache
def digest_of_code() -> str:
    """Return a hash of the code of the stages, so that another version checks everything again."""
    folders = [Path(str(files(package))) for package in ("zyda_flows.tasks", "zyda_flows.textkernels")]
    modules = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in modules)).hexdigest()


def make_build_record(
    recipe: Recipe,
    digest: str,
    listings: dict[str, str],
    references: dict[str, PublishedCorpus],
    denied: dict[str, str],
    labels: dict[str, dict[str, str]],
    receipts: Iterable[Receipt],
) -> BuildRecord:
    """Return the record of a build.

    digest: of the recipe and of the tokenizer, models and lists it used. labels: the versions of the files that
    joins read, by LABELS_OF their source.
    """
    return BuildRecord(
        recipe_digest=digest,
        listings=listings,
        manifests=tuple(sorted({receipt.path for receipt in receipts})),
        others={url: version_of(other) for url, other in references.items()}
        | ({DENY_LISTS: denied} if denied else {})
        | labels,
        entries=load_register(recipe.folder).entries,
    )


def whole_register(folder: Folder) -> Register:
    """Return the register. Raises Denied if it has lost an entry, in its middle or at its end."""
    register, built = load_register(folder), last_build(folder)
    if built is not None and register.entries < built.entries:
        raise lost_entry(folder, register.entries)
    return register


def last_build(folder: Folder) -> BuildRecord | None:
    """Return the record of the last build, or None if there was none."""
    try:
        return read_record(folder, BUILT, BuildRecord)
    except Damaged as error:
        warn(f"{error}; the published files are checked again")
        return None


def versions(listed: Iterable[InputFile]) -> dict[str, str]:
    return {file.url: file.version for file in listed}


def recorded_files(folder: Folder) -> dict[str, dict[str, str]]:
    """Return the version of each readable file of each source of the published corpus."""
    built, built_versions = last_build(folder), dict[str, dict[str, str]]()
    for name, path in (built.listings if built else {}).items():
        try:
            built_versions[name] = versions(load_listing(folder, path))
        except Damaged as error:
            warn(f"{error}; the source {name} is looked at as if it was new")
    return built_versions


def recorded_versions(folder: Folder) -> dict[str, dict[str, str]]:
    """Return the versions of all inputs of the published corpus: by source, and by other corpus."""
    built = last_build(folder)
    return recorded_files(folder) | (built.others if built else {})


def current_versions(recipe: Recipe) -> dict[str, dict[str, str]]:
    """Return the versions of all inputs that a build of this recipe would read now."""
    listed = {
        source.name: at_same_commit(recipe, source)
        or versions(sampled_files(list_source_files(source, recipe.inputs), recipe.sample))
        for source in recipe.sources
    }
    urls = [url for dedup in recipe.rounds for url in dedup.against]
    lists = {DENY_LISTS: digests_of_lists(recipe)} if recipe.deny_lists else {}
    labels = {
        LABELS_OF.format(source.name): versions(
            file for join in source.joins for file in label_files(source, join, recipe.inputs)[0]
        )
        for source in recipe.sources
        if source.joins
    }
    return listed | {url: version_of(PublishedCorpus.at(url)) for url in urls} | lists | labels


def at_same_commit(recipe: Recipe, source: Source) -> dict[str, str] | None:
    """Return the versions of a source's files in the last build, if it is on the hub with the same commit.

    Nothing is listed: the repository returns its commit only.
    """
    if recipe.inputs or source.lists or not all(map(has_commits, source.files)):
        return None
    built, manifest = last_build(recipe.folder), published_manifest(recipe.folder)
    path = built.listings.get(source.name) if built else None
    if path is None or manifest is None:
        return None
    if patterns_in(manifest.recipe, source.name) != patterns_in(recipe.as_written, source.name):
        return None
    with suppress(ZydaError), explain_errors(source.name):  # the listing of the source raises the fault
        commits = {commit_of(pattern, source.revision) for pattern in source.files}
        listed = load_listing(recipe.folder, path)
        if commits == {file.location.commit if file.location else "" for file in listed}:
            return versions(listed)
    return None


def patterns_in(recipe: Mapping[str, Any], source: str) -> list[Any]:
    """Return the patterns and revision of a source in a recipe as written."""
    return [
        [fields.get("files"), fields.get("revision")]
        for fields in recipe["sources"]
        if fields["name"] == source
    ]


def version_of(other: PublishedCorpus) -> dict[str, str]:
    return {f"{other.url}/{MANIFEST}": other.digest}


def ledger_if_complete(recipe: Recipe) -> Ledger | None:
    """Return the ledger of a corpus that a build would not change, else None.

    Only the listings of the sources and of the published folder are read, so it takes seconds and needs neither
    Prefect nor Dask.
    """
    folder = recipe.folder
    built = last_build(folder)
    try:
        if built is None or built.recipe_digest != current_digest(recipe):
            return None
        if recorded_versions(folder) != current_versions(recipe):
            return None
        manifest = published_manifest(folder)
        if manifest is None or damaged_records(folder):
            return None
        for files in file_states(folder, manifest, TIME_COLUMNS):
            unread = older_than(times_checked(folder, files), as_timedelta(recipe.reread_after))
            if len(unread) or len(missing_files(files)) or len(possibly_changed(files)):
                return None
    except ZydaError:  # the build raises it, with all other faults
        return None
    return manifest.ledger
