"""All steps on documents, and the checks of a recipe's list of steps.

A new step is a class in a module of this folder with a place in STEPS, and a class that executes it with a place in
STEPS of `tasks.documents.steps.registry`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Union

from pydantic import BeforeValidator, SerializeAsAny

from zyda_flows.tasks.recipe.steps.clean import CleanStep
from zyda_flows.tasks.recipe.steps.decontaminate import DecontaminateStep
from zyda_flows.tasks.recipe.steps.extract import ExtractStep
from zyda_flows.tasks.recipe.steps.language_id import LanguageIdStep
from zyda_flows.tasks.recipe.steps.license_filter import LicenseFilterStep
from zyda_flows.tasks.recipe.steps.rules import FilterStep, MeasureStep
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.recipe.steps.url_rules import UrlRulesStep

STEPS: tuple[type[Step], ...] = (
    LicenseFilterStep,
    UrlRulesStep,
    ExtractStep,
    LanguageIdStep,
    CleanStep,
    FilterStep,
    DecontaminateStep,
    MeasureStep,
)
BY_KIND = {step.kind: step for step in STEPS}
KINDS = tuple(BY_KIND)


def as_step(given: Any) -> Any:
    """Return the step of a mapping with one field. Raises ValueError for no field, several, or an unknown field."""
    if isinstance(given, Step):
        return given
    if unknown := {kind: value for kind, value in given.items() if kind not in BY_KIND}:
        return Step.model_validate(unknown)  # raises an error for each unknown field
    kind, *others = [*given] or [""]
    if others or given.get(kind) is None:
        raise ValueError(f"give one of {', '.join(KINDS)}")
    return BY_KIND[kind].model_validate(given)


AnyStep = Annotated[
    SerializeAsAny[Step],
    BeforeValidator(as_step, json_schema_input_type=Union[STEPS]),  # noqa: UP007 (a tuple of all)
]


def as_steps(value: object) -> object:
    """Check a list of steps before each is validated. Raises ValueError for repeated or misplaced steps."""
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError(f"a list of steps is expected, each with one of {', '.join(KINDS)}")
    steps = value or ()
    for step in steps:
        if not isinstance(step, dict | Step):
            raise ValueError(
                f"a step is a mapping of one of {', '.join(KINDS)} to its settings, not {step!r}"
            )
    check_repeats(steps)
    check_order(steps)
    return value


def check_repeats(steps: Sequence[dict[str, Any] | Step]) -> None:
    """Raise ValueError if a step that may occur only once is repeated."""
    for kind, step in BY_KIND.items():
        if step.once and sum(isinstance(given, dict) and kind in given for given in steps) > 1:
            raise ValueError(f"{kind} is given twice; {step.once}")


def check_order(steps: Sequence[dict[str, Any] | Step]) -> None:
    """Raise ValueError if a step before `extract` reads texts, which `extract` makes."""
    kinds = [given.kind if isinstance(given, Step) else str(next(iter(given), "")) for given in steps]
    before = kinds[: kinds.index("extract")] if "extract" in kinds else []
    if early := [kind for kind in before if kind not in BY_KIND or BY_KIND[kind].reads_text]:
        raise ValueError(f"{early[0]} is before extract but reads texts; move it after extract")
