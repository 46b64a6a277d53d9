"""The limits of memory, disks and ids that a build would exceed, and the costs that a plan does not include."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from zyda_flows.tasks.forecast.trial import Trial
from zyda_flows.tasks.ids import MAX_FILES
from zyda_flows.tasks.planning.estimates import Plan, SourceEstimate
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.cost import AT_MOST
from zyda_flows.tasks.words import counted

HELD_SHARE = 0.4  # share of a task's memory that a worker still holds from earlier tasks
SAFE_SHARE = 0.95  # of a worker's memory limit


def faults_of(plan: Plan, recipe: Recipe) -> Iterator[str]:
    """Yield a sentence for each resource that will not suffice."""
    largest = max(plan.stages, key=lambda stage: stage.spent.peak)
    with_rest = largest.spent.peak * (1 + HELD_SHARE)
    if with_rest > SAFE_SHARE * plan.memory:
        yield (
            f"the largest task, of {largest.stage}, takes {gib(largest.spent.peak)}, {gib(with_rest)} with "
            f"the rest of earlier tasks, but a worker has {gib(plan.memory)}: start fewer workers with "
            "more each, or make shard_mib smaller"
        )
    if recipe.folder.is_local:
        yield from no_room(recipe.folder.url, plan.at_most, "the corpus")
    elif plan.scratch:
        yield from no_room(tempfile.gettempdir(), plan.scratch, "files that are being written")
    for source in plan.sources:
        if source.files > MAX_FILES:
            yield f"source {source.source}: {source.files:,} files, and ids have room for {MAX_FILES:,}"


def notes_of(recipe: Recipe, trial: Trial, sources: Sequence[SourceEstimate]) -> Iterator[str]:
    """Yield a sentence for each cost that the figures do not include."""
    yield (
        "No sample shows how many documents are duplicates: the published size is computed without any, "
        f"and the time with a tenth of the documents in clusters, at most {AT_MOST:.0%}."
    )
    largest = len(trial.parts)
    if largest < len(sources):
        yield (
            f"Of {counted(len(sources), 'source')}, the {largest} largest were tried; "
            "the other sources are estimated from their measurements."
        )
    for name, models in trial.models.items():
        for judge, tried in models.items():
            yield (
                f"The judge {judge} of {name} was run on {counted(tried.documents, 'document')}. "
                f"{tried.entering:.0%} of all documents enter it; it reads {tried.judged:.0%} of these, and keeps "
                f"{tried.kept:.0%}. The shares of the whole source may differ."
            )
    yield (
        "Kernels are compiled once on each machine, which takes a core a minute or more. The figures do not "
        "include it: this machine compiled its kernels for this plan."
    )
    if recipe.passages and trial.ledger is not None:
        cut, entering = trial.ledger.cut("cuts").tokens, trial.ledger.of("ingest").tokens
        yield (
            f"`passages` cut {cut / max(1, entering):.1%} of the sample's tokens. A sample has fewer repeats than "
            "the corpus, so less will be published than the plan computes."
        )
    if recipe.is_against_others:
        yield "The cost of the corpora in `against`, and the documents removed for them, are not included."


def no_room(place: str, needed: float, content: str) -> Iterator[str]:
    """Yield a sentence if a disk of this machine has too little free space."""
    existing_folder = next(path for path in (Path(place), *Path(place).parents) if path.exists())
    free = shutil.disk_usage(existing_folder).free
    if needed > free:
        yield f"{place}: {content} will take {gib(needed)}, and {gib(free)} are free there"


def gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"
