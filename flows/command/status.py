"""`zyda status`: what runs, what ran and what is watched; of a corpus, what was built and has changed since.

It only looks: nothing is started, written or announced.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from zyda_flows.flows.command.arguments import Sample, SomeRecipePath, Storage, load
from zyda_flows.flows.command.terminal import as_time, console
from zyda_flows.tasks.errors import Damaged, Denied, ZydaError, first_line

if TYPE_CHECKING:
    from zyda_flows.tasks.accounts.published import Published
    from zyda_flows.tasks.planning.changes import Change
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda status", "zyda status recipe.yaml")


def status(recipe_path: SomeRecipePath = None, storage: Storage = None, sample: Sample = None) -> None:
    """Say what runs, what ran last and what is watched; of a recipe, what was built and has changed since.

    Changes nothing and starts nothing.
    """
    out = console(soft_wrap=True)
    for line in of_machine() if recipe_path is None else of_corpus(recipe_path, storage, sample):
        out.print(line, markup=False)


def of_machine() -> Iterator[str]:
    """Say what runs here and on the server, what has ended, and what is watched. Raises NoServer."""
    from prefect.settings import PREFECT_UI_URL  # late

    from zyda_flows.deployments.addresses import NOTHING, addresses  # late
    from zyda_flows.deployments.schedules import watches_on  # late
    from zyda_flows.deployments.stack import load_stack  # late
    from zyda_flows.flows.command.server_runs import a_server, ended_runs, runs_under_way  # late

    parts = addresses(load_stack())
    yield from parts
    with a_server() as client:
        if client is None:
            yield from [] if parts else [NOTHING]
            return
        dashboard = str(PREFECT_UI_URL.value())
        if not any(dashboard in line for line in parts):
            yield f"dashboard        {dashboard}"
        yield from section("under way", runs_under_way(client))
        yield from section("ended", ended_runs(client))
        yield from section("watched", [str(watch) for watch in watches_on(client)])


def section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines or ["nothing"])]


def of_corpus(recipe_path: str, storage: str | None, sample: float | None) -> Iterator[str]:
    """Say what was built of a recipe, what has changed since, and whether a build is under way."""
    from zyda_flows.flows.command.server_runs import a_server, builds_of, in_words  # late
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late

    recipe = load(recipe_path, storage, sample)
    yield f"corpus {recipe.folder.url}/published"
    try:
        manifest = PublishedCorpus.of(recipe).manifest
    except Denied as error:
        yield str(error).removeprefix(f"{recipe.folder.url}: ")
    else:
        yield publication_lines(recipe, manifest)
        yield from change_lines(recipe, manifest)
    with a_server() as client:
        runs = builds_of(client, recipe) if client else []
        yield from (f"running build: {' '.join(in_words(run).split())}" for run in runs)
        if not runs:
            yield f"running builds: none{' on this server' if client else ''}"


def publication_lines(recipe: "Recipe", manifest: "Published") -> str:
    """Say when a corpus was published, and how large it is."""
    from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED  # late

    counts = manifest.ledger.of(manifest.ledger.stages[-1])
    seconds = recipe.folder.written_at(f"{PUBLISHED}/{MANIFEST}")
    when = datetime.fromtimestamp(seconds).astimezone()
    ago = as_time(datetime.now().timestamp() - seconds)
    return f"published on {when:%Y-%m-%d at %H:%M}, {ago} ago: {counts.sentence()}"


def change_lines(recipe: "Recipe", manifest: "Published") -> list[str]:
    """Say what a build would have to do, by source and by field of the recipe."""
    from zyda_flows.tasks.accounts.published_stamps import TIMES, missing, possibly_changed, states  # late
    from zyda_flows.tasks.planning.changes import changes_between  # late
    from zyda_flows.tasks.planning.last_build import (  # late
        current_digest,
        current_versions,
        last_build,
        recorded_versions,
    )

    built = last_build(recipe.folder)
    if built is None:
        return ["what it was built from is not known any more; a build looks at everything again"]
    try:
        changes = changes_between(recorded_versions(recipe.folder), current_versions(recipe))
    except ZydaError as error:
        return [f"its sources cannot be listed: {first_line(error)}"]
    is_same = built.recipe_digest == current_digest(recipe)
    lines = [of_source(change) for change in changes] or ["sources: unchanged"]
    lines.append("recipe: unchanged" if is_same else of_recipe(recipe, manifest))
    gone = changed = 0
    try:
        for files in states(recipe.folder, manifest, TIMES):
            gone, changed = gone + len(missing(files)), changed + len(possibly_changed(files))
    except Damaged as error:
        return [*lines, f"{error}; zyda verify --repair repairs it"]
    if gone or changed:
        lines.append(f"published files: {gone:,} missing, {changed:,} perhaps changed")
    is_complete = is_same and not (changes or gone or changed)
    return [*lines, f"up to date: {'yes' if is_complete else 'no; zyda build makes what is missing'}"]


def of_source(change: "Change") -> str:
    kinds = {"added": change.added, "changed": change.changed, "removed": change.removed}
    counts = ", ".join(f"{len(urls):,} {kind}" for kind, urls in kinds.items() if urls)
    example = (*change.added, *change.changed, *change.removed)[0]
    return f"source {change.source}: files {counts}, for example {example}"


def of_recipe(recipe: "Recipe", manifest: "Published") -> str:
    """Say which fields of the recipe are other than those of what is published."""
    before, now = manifest.recipe, recipe.as_written
    fields = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if fields:
        return f"recipe: changed in {', '.join(fields)}"
    return (
        "recipe: unchanged, but the tokenizer, a model, a list or this program has changed, or the last build "
        "did not come to its end"
    )
