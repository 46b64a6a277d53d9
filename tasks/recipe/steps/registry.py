"""All steps on documents, and how a recipe names them.

A new step is a class in a module of this folder with a place in STEPS, and a class that executes it with a place in
STEPS of `tasks.documents.steps.registry`.
"""

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
    """Return the step of the one field that is given. Raises ValueError where it is not one, or an unknown one."""
    if isinstance(given, Step):
        return given
    if unknown := {kind: value for kind, value in given.items() if kind not in BY_KIND}:
        return Step.model_validate(unknown)  # which refuses every field, each in its place
    kind, *others = [*given] or [""]
    if others or given.get(kind) is None:
        raise ValueError(f"give one of {', '.join(KINDS)}")
    return BY_KIND[kind].model_validate(given)


AnyStep = Annotated[
    SerializeAsAny[Step],
    BeforeValidator(as_step, json_schema_input_type=Union[STEPS]),  # noqa: UP007 (a tuple of all)
]


def as_steps(value: object) -> object:
    """Refuse a value that is no list of mappings, and steps that contradict each other."""
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError(f"a list of steps is expected, each with one of {', '.join(KINDS)}")
    for step in value or ():
        if not isinstance(step, dict | Step):
            raise ValueError(f"a step is one of {', '.join(KINDS)} with what it says, not {step!r}")
    for kind, step in BY_KIND.items():
        if step.once and sum(isinstance(given, dict) and kind in given for given in value or ()) > 1:
            raise ValueError(f"{kind} stands there twice; {step.once}")
    kinds = [given.kind if isinstance(given, Step) else str(next(iter(given), "")) for given in value or ()]
    before = kinds[: kinds.index("extract")] if "extract" in kinds else []
    if early := [kind for kind in before if kind not in BY_KIND or BY_KIND[kind].reads_text]:
        raise ValueError(f"{early[0]} stands before extract, and reads texts; put it after it")
    return value
