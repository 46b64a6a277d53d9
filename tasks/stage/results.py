"""How the stages of a build are run, and what they have given so far."""

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
    """How the stages of a build are run: as tasks of Prefect's, or HERE.

    submit: takes a stage or a task, and its arguments. result: of what `submit` returned. finished: the receipts of
    what it returned for a stage, of each group of sources or of the corpus.
    """

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    finished: Callable[[Sequence[Any]], list[Receipt]]


def task_of(work: Work) -> PrefectTask:
    return work.task if isinstance(work, Stage) else work


def flat_receipts(results: Iterable[Receipt | list[Receipt]]) -> list[Receipt]:
    """Return the receipts of a stage, whether it is about the corpus or about each group of sources."""
    return receipts_of(result if isinstance(result, list) else [result] for result in results)


# One after another in this process, without Prefect and Dask: for tests and measurements.
HERE = Runner(
    submit=lambda work, *inputs, **options: task_of(work).fn(*inputs, **options),
    result=lambda done: done,
    finished=flat_receipts,
)


class BuildStep(NamedTuple):
    """A stage as a build runs it: its subject is a recipe or a round; for the sources that enable it.

    A step about the corpus has no sources.
    """

    work: Work
    subject: Subject
    sources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.subject.name_of(self.work.name)


class Call(NamedTuple):
    """One call of a stage: its inputs, and the group of sources that it is about, by number, or None."""

    group: int | None
    inputs: list[Any]


class Results:
    """What the stages of a build have given so far: what `Runner.submit` returned, by the name of each step."""

    def __init__(self, plans: Sequence[Any], references: dict[str, Any]) -> None:
        """Begin with what there is before the first stage.

        plans: of all sources. references: the corpora that rounds are `against`, by their URLs.
        """
        self.plans, self.references = plans, references
        self.groups = in_groups(plans)
        self.trails = list[list[Any]]([] for _ in self.groups)
        self.of_steps = dict[str, Any]()

    def calls(self, step: BuildStep) -> Iterator[Call]:
        """Yield the calls of a step: one about the corpus, or one for each group with a source that enables it."""
        stage = step.work
        assert isinstance(stage, Stage)
        first, *rest_of_inputs = stage.inputs
        shared = [self.input(step, name) for name in rest_of_inputs]
        if stage.scope == "corpus":
            yield Call(None, [self.input(step, first), *shared])
            return
        for number, group in enumerate(self.groups):
            if any(plan.source in step.sources for plan in group):
                yield Call(number, [group if first == "plan" else [*self.trails[number]], *shared])

    def input(self, step: BuildStep, name: str) -> Any:
        """Return what a name in `Stage.inputs` stands for, of all sources."""
        if name == "trails":
            return self.all_trails()
        if name == "sources":
            return self.plans
        if name == "references":
            assert isinstance(step.subject, Round)
            return [self.references[url] for url in step.subject.dedup.against]
        return self.of_steps.get(step.subject.name_of(name), [])

    def all_trails(self) -> list[list[Any]]:
        return [[*trail] for trail in self.trails]

    def add(self, step: BuildStep, call: Call, result: Any) -> None:
        """Take what a call of a step gave."""
        if call.group is None:
            self.of_steps[step.name] = result
            return
        self.of_steps.setdefault(step.name, []).append(result)
        assert isinstance(step.work, Stage)
        if step.work.extends_trail:
            self.trails[call.group].append(result)

    def receipts(self, runner: Runner) -> dict[str, list[Receipt]]:
        """Wait for all steps so far; return the receipts of each. Raises what a stage raised.

        PoisonShards are raised last, when all that can be done without them is done.
        """
        wait = {
            name: partial(runner.finished, result if isinstance(result, list) else [result])
            for name, result in self.of_steps.items()
        }
        return dict(zip(wait, all_but_poison(wait.values()), strict=True))
