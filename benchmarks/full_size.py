"""Plan a corpus of many terabytes as `zyda plan` does: the cost of its stages, and its hours on 1 to 1,000 workers.

A corpus of some gigabytes is written, with pages as long as web pages, surveyed and tried. The plan is for as
many of such corpora as TERABYTES of text need, in an object store: arithmetic from rates that were measured on
the disk of this machine. Nothing of that size is built.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.corpora import SOURCES, in_folders, load_texts, write_multiplied, write_recipe
from benchmarks.harness import DEMO, DEMO_TOKENIZER, Row, Size, Table, TextsFolder, TokenizerFile, benchmark
from zyda_flows.flows.command.plan import rows_of_stages, sentences
from zyda_flows.tasks.forecast.plan import SLOWDOWN, planner_of
from zyda_flows.tasks.planning.estimates import Plan
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.stage.fan_out import fan_out

PAGE_BYTES = 3_750  # with the shorter rests of texts, pages have 3.3 kB: 45 TB in 14 billion documents
WORKERS = (1, 2, 10, 100, 208, 1000)
MEMORY = 4 << 30  # bytes of a worker
NETWORK = 100e9  # bits a second, of all workers together


def cut_pages(texts: pa.LargeStringArray) -> Iterator[str]:
    """Cut texts at ends of lines, into pages of PAGE_BYTES or up to a line more."""
    for text in texts.to_pylist():
        page, size = list[str](), 0
        for line in text.splitlines(keepends=True):
            page.append(line)
            size += len(line)
            if size >= PAGE_BYTES:
                yield "".join(page)
                page, size = [], 0
        if page:
            yield "".join(page)


def plans(recipe_path: str, terabytes: float, workers: Sequence[int]) -> list[Plan]:
    """Plan a corpus of `terabytes` of text, in which each source of a recipe is repeated."""
    recipe = load_recipe(recipe_path)
    planning = planner_of(recipe, fan_out)
    text = sum(source.text.value for source in planning.sources.values())
    times = max(1, round(terabytes * 1e12 / text))
    large = replace(
        planning,
        recipe=recipe.model_copy(update={"storage": "memory://full-size"}),
        survey=replace(planning.survey, chosen=[[*files] * times for files in planning.survey.chosen]),
    )
    return [large.plan(number, MEMORY) for number in workers]


@benchmark("full_size")
def measure(
    folder: TextsFolder = DEMO,
    tokenizer: TokenizerFile = DEMO_TOKENIZER,
    terabytes: Size = 45,
    gigabytes: Size = 1.6,
) -> Iterator[Table]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        write_multiplied(place, pa.array([*cut_pages(load_texts(folder, 36))], pa.large_string()), gigabytes)
        recipe = write_recipe(place, "part", in_folders(SOURCES), tokenizer=str(tokenizer.resolve()))
        made = plans(recipe, terabytes, WORKERS)
    print(*sentences(made[-1]), sep="\n")
    moved = bytes_moved(made[-1])
    print(
        f"network: {moved / 1e12:,.0f} TB, {moved * 8 / NETWORK / 3600:.1f} hours at {NETWORK / 1e9:g} Gbit/s"
    )
    documents = sum(source.documents.value for source in made[0].sources)
    yield Table(
        f"{terabytes:g} TB of text, {documents:,.0f} documents: cost of the stages", stage_rows(made[0])
    )
    yield Table("hours on workers with one core each", [
        {"workers": plan.workers, "hours": plan.seconds.value / 3600, "from": plan.seconds.low / 3600,
         "to": plan.seconds.high / 3600, "compute": plan.total.cpu * SLOWDOWN.value / plan.workers / 3600,
         "scheduler": plan.scheduler_seconds / 3600, "tasks": plan.tasks} for plan in made
    ])  # fmt: skip


def bytes_moved(plan: Plan) -> float:
    """Return the bytes that a build reads from and writes to stores."""
    total = plan.total
    return total.inputs + total.read + total.written


def stage_rows(plan: Plan) -> list[Row]:
    most = {stage.stage: stage.most_clustered for stage in plan.stages} | {"outside tasks": 0.0}
    most["all"] = sum(most.values())
    return [
        {"stage": name, "jobs": spent.calls, "core-hours": spent.cpu / 3600,
         "if 80 % are clustered": most[name] / 3600, "largest task, MiB": spent.peak / 2**20,
         "TB read": (spent.inputs + spent.read) / 1e12, "TB written": spent.written / 1e12,
         "million requests": (spent.input_requests + spent.requests) / 1e6}
        for name, spent in rows_of_stages(plan)
    ]  # fmt: skip


if __name__ == "__main__":
    measure.main()
