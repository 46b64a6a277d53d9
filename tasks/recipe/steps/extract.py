"""The step `extract`: makes the text of a page, of wikitext or of LaTeX with an extractor."""

from pydantic import Field, model_validator

from zyda_flows.tasks.extraction.extractors import EXTRACTORS
from zyda_flows.tasks.recipe.steps.step import Step


class ExtractStep(Step):
    """Make the text of each document from its source."""

    once = "use a single extractor"
    reads_text = False

    extract: str = Field(
        description=f"Make the text with an extractor: {', '.join(f'`{name}`' for name in EXTRACTORS)}, or "
        "module:function."
    )

    @model_validator(mode="after")
    def extractor_is_known(self) -> "ExtractStep":
        if self.extractor and self.extractor not in EXTRACTORS:
            raise ValueError(f"extract: unknown extractor {self.extract}; use one of {', '.join(EXTRACTORS)}")
        return self

    @property
    def name(self) -> str:
        return self.function or f"extract-{self.extract}"

    @property
    def extractor(self) -> str:
        return "" if self.function else self.extract
