"""Run the flow of a build with stages that do nothing, so that only orchestration is measured.

`tasks.running.run_pipeline` runs stages and tasks with the names, options, keys, manifests and receipts of the
real ones, and with the live page in the dashboard. Each stage distributes as many items over the cluster as a
source has files, and each item returns at once. A real build has fewer items in most stages, as its shards hold
many files each. `prepare` has an item for each file of all sources; a stage of the corpus has as many items as a
source.

Not simulated: documents, the check of losses, publishing, and what `flows.build.build` adds around the pipeline
(locks, leases, progress bars of the terminal).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from prefect import flow

from zyda_flows.flows.build import on_prefect
from zyda_flows.flows.dashboard.live_artifact import live_page
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.ingest.source_plan import IngestParameters, SourcePlan
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_cache import keep_results_in_corpus
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.results import Work
from zyda_flows.tasks.stage.runner import task_runner
from zyda_flows.tasks.stage.stage import Stage
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key


def simulate(path: str, sources: int, files: int) -> None:
    """Run the pipeline for a recipe, whose first source is repeated as `sources` sources of `files` files."""
    loaded = load_recipe(path)
    copies = tuple(loaded.sources[0].model_copy(update={"name": f"s{i}"}) for i in range(sources))
    recipe = loaded.model_copy(update={"sources": copies})
    work = empty_work(sources, files)

    def build() -> None:
        state = BuildState(recipe)
        runner = on_prefect(state)

        def submit(stage: Any, *inputs: Any, **options: Any) -> Any:
            return runner.submit(work[stage.name], *inputs, **options)

        with live_page(recipe, state):
            keep_results_in_corpus(recipe)
            run_pipeline(recipe, runner._replace(submit=submit))

    flow(build, name="simulation", task_runner=task_runner(1), persist_result=False)()


def empty_work(sources: int, files: int) -> dict[str, Work]:
    """Return, by name, a stage or task without work and with the options of each stage and task of the flow."""
    names = ("check_losses", "publish_corpus", "record_last_build")
    tasks = {"prepare": partial(empty_plans, sources, files), **dict.fromkeys(names, do_nothing)}
    return {
        **{stage.name: empty_stage(stage, files) for stage in pipeline.stages()},
        **{name: task(name=name, task_run_name=name, **ONCE_A_BUILD)(call) for name, call in tasks.items()},
    }


def empty_stage(stage: Stage, files: int) -> Stage:
    """Return a stage that distributes its items and returns a manifest without artifacts."""

    def source_of(*inputs: Any) -> str | None:
        return None if stage.scope == "corpus" else str(inputs[0].source)

    def key(subject: Subject, *inputs: Any) -> str:
        return stage_key(subject.name_of(stage.name), 1, files, source_of(*inputs) or "")

    def run(_: Subject, *inputs: Any) -> Manifest:
        source = source_of(*inputs)
        fan_out(do_nothing, range(files), stage=stage.name, source=source)
        return Manifest(stage=stage.name, source=source)

    return replace(stage, run=run, key=key)


def empty_plans(sources: int, files: int, *_: Any, **__: Any) -> list[Any]:
    """Plan the sources as `prepare` does, with an item for each file."""
    fan_out(do_nothing, range(sources * files), stage="prepare", source=None)
    parameters = IngestParameters(
        text="text", classified=False, set_aside=False, shard_bytes=1, tokenizer="", special_tokens="text",
        sample_rows=1,
    )  # fmt: skip
    return [SourcePlan(source=f"s{i}", number=i, listing="", parameters=parameters) for i in range(sources)]


def do_nothing(*_: Any, **__: Any) -> None:
    """Return at once."""
