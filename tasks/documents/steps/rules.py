"""Run the steps `filter` and `measure`, which measure rule sets in shared passes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.functions import UserFunction, load_user_function
from zyda_flows.tasks.documents.measures import (
    PERSONAL,
    Measure,
    languages_of,
    measures_of,
    statistics_of,
)
from zyda_flows.tasks.documents.passes import (
    NumberedMeasures,
    measure_characters,
    measure_patterns,
    measure_personal,
    measure_prose,
)
from zyda_flows.tasks.documents.steps.step import DocumentStep, Part, PublishedColumn, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.recipe.steps.rules import FilterStep, MeasureStep, RuleSetStep

Sets = TypeVar("Sets", bound=RuleSetStep)


class RuleSets(DocumentStep[Sets]):
    """The base of both steps. result: the type that a user's function must return."""

    result: ClassVar[pa.DataType]

    measures: tuple[Measure, ...] = ()
    function: UserFunction | None = None

    @classmethod
    def needs(cls, step: StepOfRecipe[Sets]) -> dict[str, Any]:
        measures = measures_of(step.settings.sets(), languages_of(step.before))
        return {"measures": measures, "function": load_user_function(step.settings)}

    def check_compatible(self, steps: Sequence[DocumentStep[Any]]) -> None:
        """Raise ValueError if rule sets have stop words from different files, because they share a pass."""
        measures = [measure for step in steps if isinstance(step, RuleSets) for measure in step.measures]
        if len({repr(measure.stop_words) for measure in measures if measure.languages}) > 1:
            raise ValueError("two steps have different `languages` files; use the same files")

    def term_files(self) -> Mapping[str, str]:
        return {f"{m.rule_set}.{name}": digest for m in self.measures for name, digest in m.digests.items()}

    def columns(self) -> Iterator[pa.Field]:
        if self.function:
            yield pa.field(self.column(self.function.named), self.result)
        for measure in self.measures:
            for name in measure.statistics:
                yield pa.field(self.column(f"{measure.rule_set}.{name}"), pa.float64())

    def parts(self, together: Sequence[DocumentStep[Any]]) -> Iterator[Part]:
        if self.function:
            yield partial(self.call, self.function)
        steps = [step for step in together if isinstance(step, RuleSets)]
        measures = [(step.number, measure) for step in steps for measure in step.measures]
        for measure in self.measures:
            if not measure.shared_pass:
                yield partial(measure_characters, number=self.number)
                yield partial(measure_patterns, number=self.number, measure=measure)
                continue
            group = [numbered for numbered in measures if numbered[1].shared_pass == measure.shared_pass]
            if group[0] == (self.number, measure):  # the first step of the group runs the pass
                yield self.shared_pass(measure, group)

    def call(self, function: UserFunction, documents: Documents) -> None:
        """Call a user's function with the remaining documents."""
        result = function.call(documents.remaining_documents().text, self.result)
        documents.set_columns({self.column(function.named): result})

    def shared_pass(self, measure: Measure, wanted: NumberedMeasures) -> Part:
        """Return the pass that measures a set and the sets that share the pass."""
        if measure.rule_set == PERSONAL:
            return partial(measure_personal, wanted=wanted)
        return partial(measure_prose, wanted=wanted, is_markdown=self.is_markdown)


class RuleFiltering(RuleSets[FilterStep]):
    """Removes documents by the values of their statistics, or by a user's function."""

    settings, result = FilterStep, pa.string()

    @classmethod
    def rules(cls, step: StepOfRecipe[FilterStep]) -> Iterator[Rule]:
        if named := step.settings.function:
            bound = Bound(rule=named, column=step.column(named))
            yield Rule(bound, "the function of this name removed it", trial_sentence="your own function")
        for settings in step.settings.sets():
            for rule, (low, high) in settings.bounds.items():
                statistic = f"{settings.published_set}.{rule}" if settings.published_set else rule
                rule_set, _, name = statistic.partition(".")
                bound = Bound(
                    rule=f"{settings.name}.{rule}", column=step.column(statistic), low=low, high=high
                )
                yield Rule(bound, RULE_SETS[rule_set].rules[name].sentence)

    @classmethod
    def bounds_of(cls, step: StepOfRecipe[FilterStep]) -> Iterator[Bound]:
        languages = languages_of(step.before)
        by_language = {
            f"{settings.name}.{rule}": {"languages": languages.column, "by_language": limits}
            for settings in step.settings.sets()
            for rule, limits in languages.bounds_of(settings).items()
        }
        for bound in super().bounds_of(step):
            yield bound.model_copy(update=by_language.get(bound.rule, {}))


class RuleMeasuring(RuleSets[MeasureStep]):
    """Publishes statistics with the documents."""

    settings, result = MeasureStep, pa.float64()

    @classmethod
    def published(cls, step: StepOfRecipe[MeasureStep]) -> Iterable[PublishedColumn]:
        if function := step.settings.function:
            yield PublishedColumn(function.partition(":")[2], step.column(function), cls.result)
        for settings in step.settings.sets():
            for rule in statistics_of(settings.name, settings.lists):
                name = f"{settings.name}_{rule}".replace("-", "_")
                yield PublishedColumn(name, step.column(f"{settings.name}.{rule}"), cls.result)
