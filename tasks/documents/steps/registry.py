"""The classes that run the steps on documents, by the step of a recipe."""

from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny

from zyda_flows.tasks.documents.steps.clean import TextCleaning
from zyda_flows.tasks.documents.steps.decontaminate import Decontamination
from zyda_flows.tasks.documents.steps.extract import Extraction
from zyda_flows.tasks.documents.steps.language_id import LanguageIdentification
from zyda_flows.tasks.documents.steps.license_filter import LicenseFiltering
from zyda_flows.tasks.documents.steps.rules import RuleFiltering, RuleMeasuring
from zyda_flows.tasks.documents.steps.step import DocumentStep
from zyda_flows.tasks.documents.steps.url_rules import UrlFiltering
from zyda_flows.tasks.recipe.steps.registry import KINDS

STEPS: tuple[type[DocumentStep[Any]], ...] = (
    LicenseFiltering,
    UrlFiltering,
    Extraction,
    LanguageIdentification,
    TextCleaning,
    RuleFiltering,
    Decontamination,
    RuleMeasuring,
)
BY_KIND = {step.settings.kind: step for step in STEPS}
if unmatched := BY_KIND.keys() ^ {*KINDS}:
    raise TypeError(f"steps in STEPS of only one of the two registries: {', '.join(sorted(unmatched))}")


def as_planned(value: Any) -> DocumentStep[Any]:
    """Return a planned step; a mapping, as in JSON, is validated."""
    return value if isinstance(value, DocumentStep) else BY_KIND[value["kind"]].model_validate(value)


# A plain validator, because pydantic does not accept a step as an instance of DocumentStep[Any].
PlannedStep = Annotated[SerializeAsAny[DocumentStep[Any]], PlainValidator(as_planned)]
