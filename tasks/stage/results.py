"""Run the stages of a build, and pass their results to later stages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from prefect import Task

from zyda_flows.tasks.errors import all_but_poison
from zyda_flows.tasks.recipe.rounds import Round, Subject
from zyda_flows.tasks.stage.groups import in_groups, receipts_of
from zyda_flows.tasks.stage.stage import Stage
from zyda_flows.tasks.storage.artifacts import Receipt

PrefectTask = Task[..., Any]
Work = Stage | PrefectTask


class Runner(NamedTuple):
    """The functions that run the stages of a build: as Prefect tasks, or HERE.

    submit: takes a stage or a task, and its arguments. result: returns the result for a return value of `submit`.
    finished: returns the receipts for the return values of `submit` for a stage, of each group of sources or of
    the corpus.
    """

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    finished: Callable[[Sequence[Any]], list[Receipt]]


def task_of(work: Work) -> PrefectTask:
    return work.task if isinstance(work, Stage) else work


def flat_receipts(results: Iterable[Receipt | list[Receipt]]) -> list[Receipt]:
    """Return the receipts of a stage from its results for the corpus or for each group of sources."""
    return receipts_of(result if isinstance(result, list) else [result] for result in results)


# Runs stages in sequence in this process, without Prefect and Dask: for tests and measurements.
HERE = Runner(
    submit=lambda work, *inputs, **options: task_of(work).fn(*inputs, **options),
    result=lambda done: done,
    finished=flat_receipts,
)


class BuildStep(NamedTuple):
    """A stage in a build. subject: a recipe or a round. sources: the sources for which the stage is enabled.

    A step about the corpus has no sources.
    """

    work: Work
    subject: Subject
    sources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.subject.name_of(self.work.name)


class StageCall(NamedTuple):
    """One call of a stage: its inputs, and the number of its group of sources, or None for the corpus."""

    group: int | None
    inputs: list[Any]


class Results:
    """The results of a build's stages so far: the return values of `Runner.submit`, by the name of each step."""

    def __init__(self, plans: Sequence[Any], references: dict[str, Any]) -> None:
        """Start with the inputs of the first stage.

        plans: the plans of all sources. references: the corpora that rounds are `against`, by URL.
        """
        self.plans, self.references = plans, references
        self.groups = in_groups(plans)
        self.trails = list[list[Any]]([] for _ in self.groups)
        self.results_by_step = dict[str, Any]()

    def calls(self, step: BuildStep) -> Iterator[StageCall]:
        """Yield the calls of a step: for the corpus, or for each group with a source that enables the step."""
        stage = step.work
        assert isinstance(stage, Stage)
        first, *rest_of_inputs = stage.inputs
        shared = [self.input(step, name) for name in rest_of_inputs]
        if stage.scope == "corpus":
            yield StageCall(None, [self.input(step, first), *shared])
            return
        for number, group in enumerate(self.groups):
            if any(plan.source in step.sources for plan in group):
                yield StageCall(number, [group if first == "plan" else [*self.trails[number]], *shared])

    def input(self, step: BuildStep, name: str) -> Any:
        """Return the value for a name in `Stage.inputs`, for all sources."""
        if name == "trails":
            return self.all_trails()
        if name == "sources":
            return self.plans
        if name == "references":
            assert isinstance(step.subject, Round)
            return [self.references[url] for url in step.subject.dedup.against]
        names = map(step.subject.name_of, name.split("|"))
        return next((self.results_by_step[each] for each in names if each in self.results_by_step), [])

    def all_trails(self) -> list[list[Any]]:
        return [[*trail] for trail in self.trails]

    def add(self, step: BuildStep, call: StageCall, result: Any) -> None:
        """Store the result of a call of a step."""
        if call.group is None:
            self.results_by_step[step.name] = result
            return
        self.results_by_step.setdefault(step.name, []).append(result)
        assert isinstance(step.work, Stage)
        if step.work.extends_trail:
            self.trails[call.group].append(result)

    def receipts(self, runner: Runner) -> dict[str, list[Receipt]]:
        """Wait for all steps so far; return the receipts of each step. Raises the error of a failed stage.

        PoisonShards is raised last, after all work that does not depend on the failed shards.
        """
        wait = {
            name: partial(runner.finished, result if isinstance(result, list) else [result])
            for name, result in self.results_by_step.items()
        }
        return dict(zip(wait, all_but_poison(wait.values()), strict=True))
