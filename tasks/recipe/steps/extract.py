"""Which extractor makes the text of a page, of wikitext or of LaTeX."""

from pydantic import Field, model_validator

from zyda_flows.tasks.extraction.extractors import EXTRACTORS
from zyda_flows.tasks.recipe.steps.step import Step


class ExtractStep(Step):
    """Make the text of each document from its source."""

    once = "a text is extracted once"
    reads_text = False

    extract: str = Field(
        description=f"Make the text with one of {', '.join(f'`{name}`' for name in EXTRACTORS)}; or "
        "module:function."
    )

    @model_validator(mode="after")
    def has_its_extractor(self) -> "ExtractStep":
        if self.extractor and self.extractor not in EXTRACTORS:
            raise ValueError(f"extract: there is no {self.extract}; there are {', '.join(EXTRACTORS)}")
        return self

    @property
    def name(self) -> str:
        return self.function or f"extract-{self.extract}"

    @property
    def extractor(self) -> str:
        return "" if self.function else self.extract
