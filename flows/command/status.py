"""`zyda status`: list active and ended runs and watched corpora, or the state of a corpus or mixture.

The command reads only: it starts and writes nothing.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from zyda_flows.flows.command.arguments import Sample, SomeRecipePath, Storage, load
from zyda_flows.flows.command.mixture_versions import version_lines
from zyda_flows.flows.command.terminal import as_time, console
from zyda_flows.tasks.errors import Damaged, Denied, ZydaError, first_line

if TYPE_CHECKING:
    from zyda_flows.tasks.accounts.published import Published
    from zyda_flows.tasks.planning.changes import Change
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda status", "zyda status recipe.yaml")


def status(recipe_path: SomeRecipePath = None, storage: Storage = None, sample: Sample = None) -> None:
    """List active runs, the last runs and watched corpora, or the state of the corpus of RECIPE.

    With RECIPE, show the date and size of the corpus, changes of its sources and its recipe since the last build,
    and running builds. RECIPE can also be the file of a mixture: then list its versions. The command starts and
    changes nothing.
    """
    out = console(soft_wrap=True)
    for line in machine_lines() if recipe_path is None else lines_of_file(recipe_path, storage, sample):
        out.print(line, markup=False)


def lines_of_file(path: str, storage: str | None, sample: float | None) -> Iterator[str]:
    """Yield the state of the corpus of a recipe, or of a mixture."""
    from zyda_flows.tasks.mixing.mixture import is_mixture, load_mixture  # late

    if is_mixture(path):
        yield from version_lines(load_mixture(path, storage=storage).folder)
    else:
        yield from corpus_lines(path, storage, sample)


def machine_lines() -> Iterator[str]:
    """Yield addresses, active and ended runs, and watched corpora. Raises NoServer."""
    from prefect.settings import PREFECT_UI_URL  # late

    from zyda_flows.deployments.addresses import NOTHING, addresses  # late
    from zyda_flows.deployments.schedules import watches_on  # late
    from zyda_flows.deployments.stack import load_stack  # late
    from zyda_flows.flows.command.server_runs import active_runs, ended_runs, server_client  # late

    parts = addresses(load_stack())
    yield from parts
    with server_client() as client:
        if client is None:
            yield from [] if parts else [NOTHING]
            return
        dashboard = str(PREFECT_UI_URL.value())
        if not any(dashboard in line for line in parts):
            yield f"dashboard        {dashboard}"
        yield from section("active runs", active_runs(client))
        yield from section("ended runs", ended_runs(client))
        yield from section("watched corpora", [str(watch) for watch in watches_on(client)])


def section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines or ["none"])]


def corpus_lines(recipe_path: str, storage: str | None, sample: float | None) -> Iterator[str]:
    """Yield the state of the corpus of a recipe, later changes, and running builds."""
    from zyda_flows.flows.command.server_runs import builds_of, run_line, server_client  # late
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late

    recipe = load(recipe_path, storage, sample)
    yield f"corpus {recipe.folder.url}/published"
    try:
        manifest = PublishedCorpus.of(recipe).manifest
    except Denied as error:
        yield str(error).removeprefix(f"{recipe.folder.url}: ")
    else:
        yield publication_line(recipe, manifest)
        yield from change_lines(recipe, manifest)
    with server_client() as client:
        runs = builds_of(client, recipe) if client else []
        yield from (f"running build: {' '.join(run_line(run).split())}" for run in runs)
        if not runs:
            yield f"running builds: none{' on this server' if client else ''}"


def publication_line(recipe: "Recipe", manifest: "Published") -> str:
    """Return the time of publication and the size of a corpus."""
    from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED  # late

    counts = manifest.ledger.of(manifest.ledger.stages[-1])
    seconds = recipe.folder.written_at(f"{PUBLISHED}/{MANIFEST}")
    when = datetime.fromtimestamp(seconds).astimezone()
    ago = as_time(datetime.now().timestamp() - seconds)
    return f"published on {when:%Y-%m-%d at %H:%M}, {ago} ago: {counts.sentence()}"


def change_lines(recipe: "Recipe", manifest: "Published") -> list[str]:
    """Return the changes since the last build, by source and by field of the recipe."""
    from zyda_flows.tasks.accounts.published_stamps import (  # late
        TIME_COLUMNS,
        file_states,
        missing_files,
        possibly_changed,
    )
    from zyda_flows.tasks.planning.changes import changes_between  # late
    from zyda_flows.tasks.planning.last_build import (  # late
        current_digest,
        current_versions,
        last_build,
        recorded_versions,
    )

    built = last_build(recipe.folder)
    if built is None:
        return ["the record of the last build is missing; a build checks all sources again"]
    try:
        changes = changes_between(recorded_versions(recipe.folder), current_versions(recipe))
    except ZydaError as error:
        return [f"its sources cannot be listed: {first_line(error)}"]
    is_same = built.recipe_digest == current_digest(recipe)
    lines = [source_line(change) for change in changes] or ["sources: unchanged"]
    lines.append("recipe: unchanged" if is_same else recipe_line(recipe, manifest))
    lost = changed = 0
    try:
        for files in file_states(recipe.folder, manifest, TIME_COLUMNS):
            lost, changed = lost + len(missing_files(files)), changed + len(possibly_changed(files))
    except Damaged as error:
        return [*lines, f"{error}; zyda verify --repair repairs it"]
    if lost or changed:
        lines.append(f"published files: {lost:,} missing, {changed:,} possibly changed")
    is_complete = is_same and not (changes or lost or changed)
    return [*lines, f"up to date: {'yes' if is_complete else 'no; start zyda build'}"]


def source_line(change: "Change") -> str:
    kinds = {"added": change.added, "changed": change.changed, "removed": change.removed}
    counts = ", ".join(f"{len(urls):,} {kind}" for kind, urls in kinds.items() if urls)
    example = (*change.added, *change.changed, *change.removed)[0]
    return f"source {change.source}: files {counts}, for example {example}"


def recipe_line(recipe: "Recipe", manifest: "Published") -> str:
    """Return the fields of the recipe that differ from those of the published corpus."""
    before, now = manifest.recipe, recipe.as_written
    fields = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if fields:
        return f"recipe: changed in {', '.join(fields)}"
    return (
        "recipe: unchanged, but the tokenizer, a model, a list or this program has changed, or the last build "
        "was interrupted"
    )
