"""The steps `filter` and `measure`, executed: both measure rule sets, in passes that they share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.functions import OwnFunction, own_function
from zyda_flows.tasks.documents.measures import (
    PERSONAL,
    Measure,
    languages_of,
    measures_of,
    statistics_of,
)
from zyda_flows.tasks.documents.passes import (
    Wanted,
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
    """The base of both. answer: the type of what a user's own function returns."""

    answer: ClassVar[pa.DataType]

    measures: tuple[Measure, ...] = ()
    function: OwnFunction | None = None

    @classmethod
    def needs(cls, step: StepOfRecipe[Sets]) -> dict[str, Any]:
        measures = measures_of(step.settings.sets(), languages_of(step.before))
        return {"measures": measures, "function": own_function(step.settings)}

    def check_beside(self, steps: Sequence[DocumentStep[Any]]) -> None:
        """Raise ValueError where rule sets have stop words from other files: one pass counts them."""
        measures = [one for step in steps if isinstance(step, RuleSets) for one in step.measures]
        if len({repr(measure.stop_words) for measure in measures if measure.languages}) > 1:
            raise ValueError("two steps name different files of languages")

    def term_files(self) -> Mapping[str, str]:
        return {f"{m.of}.{name}": digest for m in self.measures for name, digest in m.digests.items()}

    def columns(self) -> Iterator[pa.Field]:
        if self.function:
            yield pa.field(self.column(self.function.named), self.answer)
        for measure in self.measures:
            for name in measure.statistics:
                yield pa.field(self.column(f"{measure.of}.{name}"), pa.float64())

    def parts(self, together: Sequence[DocumentStep[Any]]) -> Iterator[Part]:
        if self.function:
            yield partial(self.call, self.function)
        steps = [step for step in together if isinstance(step, RuleSets)]
        wanted = [(step.number, measure) for step in steps for measure in step.measures]
        for measure in self.measures:
            if not measure.shared_pass:
                yield partial(measure_characters, number=self.number)
                yield partial(measure_patterns, number=self.number, measure=measure)
                continue
            group = [one for one in wanted if one[1].shared_pass == measure.shared_pass]
            if group[0] == (self.number, measure):  # the first of the steps measures for all
                yield self.shared_pass(measure, group)

    def call(self, function: OwnFunction, documents: Documents) -> None:
        """Call a function of the user's own on the remaining documents."""
        answer = function.answer(documents.remaining_documents().text, self.answer)
        documents.set_columns({self.column(function.named): answer})

    def shared_pass(self, measure: Measure, wanted: Wanted) -> Part:
        """Return the pass that measures a set and all others that are measured with it."""
        if measure.of == PERSONAL:
            return partial(measure_personal, wanted=wanted)
        return partial(measure_prose, wanted=wanted, is_markdown=self.is_markdown)


class RuleFiltering(RuleSets[FilterStep]):
    """Removes documents by the values of their statistics, or by a function of the user's own."""

    settings, answer = FilterStep, pa.string()

    @classmethod
    def rules(cls, step: StepOfRecipe[FilterStep]) -> Iterator[Rule]:
        if named := step.settings.function:
            bound = Bound(rule=named, column=step.column(named))
            yield Rule(bound, "the function of that name let it go", in_trial="a function of your own")
        for settings in step.settings.sets():
            for rule, (low, high) in settings.bounds.items():
                statistic = f"{settings.published_set}.{rule}" if settings.published_set else rule
                of, _, name = statistic.partition(".")
                bound = Bound(
                    rule=f"{settings.name}.{rule}", column=step.column(statistic), low=low, high=high
                )
                yield Rule(bound, RULE_SETS[of].rules[name].sentence)

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


class Measuring(RuleSets[MeasureStep]):
    """Publishes statistics beside the documents."""

    settings, answer = MeasureStep, pa.float64()

    @classmethod
    def published(cls, step: StepOfRecipe[MeasureStep]) -> Iterable[PublishedColumn]:
        if function := step.settings.function:
            yield PublishedColumn(function.partition(":")[2], step.column(function), cls.answer)
        for settings in step.settings.sets():
            for rule in statistics_of(settings.name, settings.lists):
                name = f"{settings.name}_{rule}".replace("-", "_")
                yield PublishedColumn(name, step.column(f"{settings.name}.{rule}"), cls.answer)
