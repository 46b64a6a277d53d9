"""The plan of a build: its time and storage, from listings, footers and a trial of its stages.

Costs that grow with the texts are extrapolated from the trial, by size. Costs that grow with the documents are
computed from the rates of docs/speed.md, because a trial has too few documents to measure them. No sample shows how
many documents are duplicates: the figures assume that no document is removed, and that a tenth to four fifths of
the documents are in clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from zyda_flows.tasks import pipeline
from zyda_flows.tasks.documents.contamination import is_decontaminated
from zyda_flows.tasks.documents.phrase_contexts import contexts_cost
from zyda_flows.tasks.forecast.limits import faults_of, notes_of
from zyda_flows.tasks.forecast.models import device_seconds
from zyda_flows.tasks.forecast.run_trial import run_trial
from zyda_flows.tasks.forecast.sizes import SizeEstimates
from zyda_flows.tasks.forecast.trial import Trial
from zyda_flows.tasks.forecast.workload import TrialWorkload
from zyda_flows.tasks.lookup.costs import statistics_cost
from zyda_flows.tasks.planning.estimates import Estimate, Plan, SourceEstimate, StageEstimate
from zyda_flows.tasks.planning.inspection import CallOnEach, inspect_new, shard_bytes
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.planning.survey import SourceSurvey, check_sources
from zyda_flows.tasks.publish.costs import (
    CORPUS,
    PUBLISH,
    corpus_cost,
    counts_cost,
    files_by_folder,
    largest_published,
)
from zyda_flows.tasks.publish.hub_limits import excess
from zyda_flows.tasks.quality.stored_vectors import STAGE as VECTORS
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.signatures.costs import largest_merged
from zyda_flows.tasks.signatures.index import index
from zyda_flows.tasks.sources.input_files import InputFile, sampled_files
from zyda_flows.tasks.spent import METER, Spent
from zyda_flows.tasks.stage.cost import BY_SHARD, StageCost, scaled
from zyda_flows.tasks.stage.results import BuildStep
from zyda_flows.tasks.stage.runner import threads_for
from zyda_flows.tasks.stage.stage import Stage
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.workers.batches import TASK_SECONDS, expected_tasks

MOST_INSPECTED = 64  # inspected files of a source
LATE_SHARE = 0.5  # the start may take longer than START_SECONDS by this share
# Seconds: of a flow run with its report, and of the first run of each kind of stage on the workers.
START_SECONDS, FIRST_SECONDS = 8.5, 2.5
# The factor by which a core is slower if other cores work, too: 1, or more for shared memory bandwidth.
SLOWDOWN = Estimate(value=1.15, low=0.95, high=1.5)


def plan_of(recipe: Recipe, workers: int, memory: int, call_on_each: CallOnEach) -> Plan:
    """Plan a build on a number of workers with `memory` bytes each. Raises the errors of a build, early.

    call_on_each: calls a function on every file to inspect.
    """
    return planner_of(recipe, call_on_each).plan(workers, memory)


def planner_of(recipe: Recipe, call_on_each: CallOnEach) -> "BuildPlanner":
    """Inspect a recipe's files and run a trial of a part of them."""
    survey = check_sources(recipe, replace=True)
    survey.expect_none()
    samples = [sampled_files(files, min(1.0, MOST_INSPECTED / len(files))) for files in survey.chosen]
    METER.take()
    inspected_survey = inspect_new(recipe, replace(survey, chosen=samples), call_on_each)
    inspecting = METER.take()
    files = {
        source.name: files_with_pieces(source, survey, chosen, [outcome.file for outcome in inspected])
        for source, chosen, inspected in zip(recipe.sources, samples, inspected_survey.inspected, strict=True)
    }
    return BuildPlanner(recipe, survey, files, run_trial(recipe, survey, files), inspecting)


def files_with_pieces(
    source: Source, survey: SourceSurvey, chosen: Sequence[InputFile], inspected: Sequence[InputFile]
) -> list[InputFile]:
    """Return the chosen files of a source as they were inspected, now or for an earlier build."""
    known = {file.key: file for file in survey.register.files.get(source.name, ())}
    known |= {file.key: file for file in inspected}
    return [known[file.key].model_copy(update={"location": file.location}) for file in chosen]


@dataclass(frozen=True)
class BuildPlanner:
    """A recipe, its files, and the measurements of a trial.

    files: the inspected files of each source, with their pieces. inspecting: the cost of the inspection.
    """

    recipe: Recipe
    survey: SourceSurvey
    files: dict[str, list[InputFile]]
    trial: Trial
    inspecting: Spent

    @cached_property
    def sizes(self) -> SizeEstimates:
        return SizeEstimates(self.recipe, self.survey, self.files, self.trial)

    @property
    def sources(self) -> dict[str, SourceEstimate]:
        return self.sizes.estimates

    def plan(self, workers: int, memory: int) -> Plan:
        """Return the plan: the sum of the costs of all stages."""
        workload, threads = TrialWorkload(self.sizes, workers), workers * threads_for(self.recipe)
        stages = tuple(self.stages(workload, threads))
        by_stage = {stage.stage: stage.spent for stage in stages}
        published = sum(by_stage.get(name, Spent()).written for name in (PUBLISH, index.name, VECTORS))
        written = sum(spent.written for name, spent in by_stage.items() if name != CORPUS)
        is_local = self.recipe.folder.is_local
        written_by_publish = by_stage.get(PUBLISH, Spent()).written
        largest_file = round(
            max(
                shard_bytes(self.recipe),
                largest_merged(workload, self.recipe),
                largest_published(workload, self.recipe, written_by_publish),
            )
        )
        plan = Plan(
            recipe=digest_of(self.recipe.as_written),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            workers=workers,
            threads=threads,
            memory=memory,
            sources=tuple(self.sources.values()),
            stages=stages,
            work=written,
            published=published,
            in_storage=written + published if self.recipe.work_copies and not is_local else written,
            at_most=written if is_local else written + published,
            scratch=0 if is_local else threads * largest_file,
            scheduler_seconds=scheduler_seconds(stages),
            seconds=self.seconds(stages, threads),
            files_by_folder=files_by_folder(workload, self.recipe),
            model_seconds=device_seconds(workload.sources),
            model_seconds_without_only_if=device_seconds(workload.sources, without_only_if=True),
        )
        notes = [*notes_of(self.recipe, self.trial, plan.sources), *excess(plan.files_by_folder)]
        return plan.model_copy(update={"faults": tuple(faults_of(plan, self.recipe)), "notes": tuple(notes)})

    def stages(self, workload: TrialWorkload, threads: int) -> Iterator[StageEstimate]:
        """Yield the cost of each stage and of each fan-out with its own name, in the order of the trial.

        threads: of all workers.
        """
        costs, (first, *_) = self.costs(workload), pipeline.steps(self.recipe)
        names = [
            prepare.name,
            *(name for name, _ in self.trial.calls),
            *self.trial.costs_outside_calls,
            *costs,
        ]
        for name in dict.fromkeys(names):
            cost = costs.get(name) or StageCost(name, workload.by_shard(name))
            spent = cost.spent + replace(self.trial.costs_outside_calls.get(name, Spent()), peak=0)
            if name == prepare.name:
                spent += self.preparing
            elif name == first.name:  # each worker loads its libraries in its first task
                spent += Spent(cpu=min(workload.workers, spent.calls) * self.trial.warm_up_seconds)
            yield StageEstimate(
                stage=name,
                tasks=self.tasks(name, spent, threads),
                spent=spent,
                most_clustered=max(cost.most_clustered, spent.cpu),
            )

    def tasks(self, name: str, spent: Spent, threads: int) -> int:
        """Return the number of Dask's tasks for the jobs of a name, which run separately for each source."""
        if not spent.calls:
            return 0
        is_by_source = any(stage == name and source for stage, source in self.trial.calls)
        times = min(spent.calls, len(self.recipe.sources)) if is_by_source else 1
        return times * expected_tasks(round(spent.calls / times), spent.cpu / spent.calls, threads)

    @property
    def preparing(self) -> Spent:
        """The cost of the inspection of all files."""
        files = sum(source.files for source in self.sources.values())
        return replace(scaled(self.inspecting, files / sum(map(len, self.files.values()))), calls=files)

    def costs(self, workload: TrialWorkload) -> dict[str, StageCost]:
        """Return the costs that the stages of the recipe state, by the names of their fan-outs."""
        costs = dict[str, StageCost]()
        searched = [
            source.name for source in self.recipe.sources if is_decontaminated(self.recipe, source.name)
        ]
        stated = [
            *self.stated(workload),
            *corpus_cost(workload, self.recipe),
            *counts_cost(workload, self.recipe),
            *contexts_cost(workload, searched),
            *statistics_cost(workload, self.recipe),
        ]
        for cost in stated:
            costs[cost.name] = costs[cost.name] + cost if cost.name in costs else cost
        return costs

    def stated(self, workload: TrialWorkload) -> Iterator[StageCost]:
        for step in pipeline.steps(self.recipe):
            if not isinstance(step.work, Stage):
                continue
            yield from step.work.cost(workload, step.subject, step.name)
            if step.work.cost is BY_SHARD:
                yield StageCost(step.name, Spent(calls=untried_shards(step, workload)))

    def seconds(self, stages: Sequence[StageEstimate], threads: int) -> Estimate:
        """Estimate the seconds of a build on a number of threads.

        The scheduler has one more thread, and works while the workers compute.
        """
        cores = min(threads, threads // threads_for(self.recipe))
        least, most = (sum(figure(stage) for stage in stages) for figure in (cpu_of, most_of))
        scheduler = scheduler_seconds(stages)
        low, value, high = (
            START_SECONDS + FIRST_SECONDS + max(cpu * factor / cores, scheduler)
            for cpu, factor in ((least, SLOWDOWN.low), (least, SLOWDOWN.value), (most, SLOWDOWN.high))
        )
        return Estimate(
            value=value, low=low * 0.8, high=high + scheduler / cores + LATE_SHARE * START_SECONDS
        )


def untried_shards(step: BuildStep, workload: TrialWorkload) -> int:
    """Return the shards of sources for which the trial did not run a stage: one task for each."""
    names, calls = step.sources or tuple(workload.sources), workload.calls(step.name)
    if step.name in workload.sizes.trial.costs_outside_calls and (not step.sources or not calls):
        return 0
    return sum(
        len(workload.sources[name].shards)
        for name in names
        if not workload.cost_of_source(step.name, name).calls
    )


def scheduler_seconds(stages: Sequence[StageEstimate]) -> float:
    """Return the seconds of the scheduler's thread for the tasks of stages."""
    return sum(stage.tasks for stage in stages) * TASK_SECONDS


def cpu_of(stage: StageEstimate) -> float:
    return stage.spent.cpu


def most_of(stage: StageEstimate) -> float:
    return stage.most_clustered
