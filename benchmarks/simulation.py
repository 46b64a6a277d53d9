"""A build whose stages do nothing: what is left is orchestration.

The flow's own wiring (`tasks.running.run_pipeline`), on tasks that have the options of the real ones, their keys,
manifests, receipts and the page of the build in the dashboard. Each spreads as many items over the cluster as a
source has files, and every item returns at once.

It reads and writes no documents, looks at no sources, checks no losses and publishes nothing; nor has it what
`flows.build.build` puts around the wiring: locks, leases, the bars of the terminal. `prepare` has an item for each
file of all sources, a stage about all sources as many as one source. A real build has fewer in most stages, for its
shards hold many files each.
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
    """Run the flow's own wiring on stages that do nothing."""
    one = load_recipe(path)
    of_many = tuple(one.sources[0].model_copy(update={"name": f"s{i}"}) for i in range(sources))
    plan = one.model_copy(update={"sources": of_many})
    stages = stages_that_do_nothing(sources, files)

    def build() -> None:
        state = BuildState(plan)
        on = on_prefect(state)

        def submit(stage: Any, *inputs: Any, **options: Any) -> Any:
            return on.submit(stages[stage.name], *inputs, **options)

        with live_page(plan, state):
            keep_results_in_corpus(plan)
            run_pipeline(plan, on._replace(submit=submit))

    flow(build, name="simulation", task_runner=task_runner(1), persist_result=False)()


def stages_that_do_nothing(sources: int, files: int) -> dict[str, Work]:
    """Return a stage or task for each of the flow's, by its name, with its options and without its work."""
    tasks = {
        "prepare": partial(plans_of, sources, files), "check_losses": nothing, "publish_corpus": nothing,
        "record_last_build": nothing,
    }  # fmt: skip
    return {
        **{stage.name: without_work(stage, files) for stage in pipeline.stages()},
        **{name: task(name=name, task_run_name=name, **ONCE_A_BUILD)(call) for name, call in tasks.items()},
    }


def without_work(stage: Stage, files: int) -> Stage:
    """Return a stage that spreads its items, and leaves a manifest of nothing."""

    def source_of(*inputs: Any) -> str | None:
        return None if stage.scope == "corpus" else str(inputs[0].source)

    def key(subject: Subject, *inputs: Any) -> str:
        return stage_key(subject.name_of(stage.name), 1, files, source_of(*inputs) or "")

    def run(_: Subject, *inputs: Any) -> Manifest:
        source = source_of(*inputs)
        fan_out(nothing, range(files), stage=stage.name, source=source)
        return Manifest(stage=stage.name, source=source)

    return replace(stage, run=run, key=key)


def plans_of(sources: int, files: int, *_: Any, **__: Any) -> list[Any]:
    """Plan the sources of a simulation as `prepare` does, with an item for each file."""
    fan_out(nothing, range(sources * files), stage="prepare", source=None)
    parameters = IngestParameters(
        text="text",
        classified=False,
        set_aside=False,
        shard_bytes=1,
        tokenizer="",
        special_tokens="text",
        sample_rows=1,
    )
    return [SourcePlan(source=f"s{i}", number=i, listing="", parameters=parameters) for i in range(sources)]


def nothing(*_: Any, **__: Any) -> None:
    """Return at once."""
