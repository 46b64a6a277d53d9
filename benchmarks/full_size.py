"""A corpus of any size, by `zyda plan`: what its stages take, and its hours on 1 to 1,000 workers.

    python -m benchmarks.full_size [FOLDER] [TOKENIZER.JSON] [TERABYTES] [GIGABYTES]

A corpus of some gigabytes is written, of pages as long as those of the web, and looked into and tried as `zyda
plan` does. Then the same is planned for as many such corpora as are so many terabytes of text, in an object store:
by arithmetic, from rates that were measured on this machine's disk. Nothing of that size is built.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.end_to_end import write_recipe, write_sources
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, show
from zyda_flows.flows.command.plan import rows_of_stages, sentences
from zyda_flows.tasks.forecast.plan import planning_of
from zyda_flows.tasks.planning.estimates import Plan
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.stage.fan_out import fan_out

PAGE_BYTES = 3_750  # of a document of Zyda-2: 45 TB in 12 billion
WORKERS = (1, 2, 10, 100, 208, 1000)
MEMORY = 4 << 30  # of a worker


def pages_of(texts: pa.LargeStringArray) -> Iterator[str]:
    """Cut texts where a line ends, into pages of PAGE_BYTES or a line more."""
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
    """Plan a corpus of so much text, made of the sources of a recipe, each many times over."""
    recipe = load_recipe(recipe_path)
    planning = planning_of(recipe, fan_out)
    text = sum(source.text.value for source in planning.sources.values())
    times = max(1, round(terabytes * 1e12 / text))
    large = replace(
        planning,
        recipe=recipe.model_copy(update={"storage": "memory://full-size"}),
        survey=replace(planning.survey, chosen=[[*files] * times for files in planning.survey.chosen]),
    )
    return [large.plan(number, MEMORY) for number in workers]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO
    tokenizer = sys.argv[2] if len(sys.argv) > 2 else str(REPOSITORY / "demo/tokenizer.json")
    terabytes, gigabytes = (float(n) for n in [*sys.argv[3:], *("45", "1.6")[len(sys.argv[3:]) :]])
    with tempfile.TemporaryDirectory() as scratch:
        pages = pa.array([*pages_of(load_texts(folder, 36))], pa.large_string())
        write_sources(Path(scratch), pages, gigabytes)
        made = plans(write_recipe(Path(scratch), "part", tokenizer), terabytes, WORKERS)
    for line in sentences(made[-1]):
        print(line)
    documents = sum(source.documents.value for source in made[0].sources)
    show(f"{terabytes:g} TB of text, {documents:,.0f} documents: what stages take", of_stages(made[0]))
    show("hours on some workers, each with a core", [of_workers(plan) for plan in made])


def of_stages(plan: Plan) -> list[dict[str, str | float]]:
    most = {stage.stage: stage.most_clustered for stage in plan.stages} | {"beside them": 0.0}
    most["all"] = sum(most.values())
    return [
        {"stage": name, "tasks": spent.calls, "core-hours": spent.cpu / 3600,
         "where 80 % are clustered": most[name] / 3600, "largest task, MiB": spent.peak / 2**20,
         "TB read": (spent.inputs + spent.read) / 1e12, "TB written": spent.written / 1e12,
         "million requests": (spent.input_requests + spent.requests) / 1e6}
        for name, spent in rows_of_stages(plan)
    ]  # fmt: skip


def of_workers(plan: Plan) -> dict[str, str | float]:
    hours = plan.seconds
    return {
        "workers": plan.workers,
        "hours": hours.value / 3600,
        "from": hours.low / 3600,
        "to": hours.high / 3600,
    }


if __name__ == "__main__":
    as_workers_are()
    main()
