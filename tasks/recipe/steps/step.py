"""One step on documents: the name of the step with its settings."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from zyda_flows.tasks.recipe.cleaning import Cleaning
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.recipe.rule_settings import FUNCTION
from zyda_flows.tasks.recipe.values import Strict

Place = Callable[[str], str]  # returns the URL of a file for its name in the recipe


class Step(Strict):
    """The base of all steps. A step has one field, which has the name of the step and holds its settings.

    once: the advice of the error for a repeated step; "" if a recipe may repeat the step. reads_text: whether the
    step reads the text of documents. Such a step cannot be before `extract`.
    """

    kind: ClassVar[str] = ""
    once: ClassVar[str] = ""
    reads_text: ClassVar[bool] = True
    finds_language: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.kind = next(iter(cls.model_fields), "")

    @property
    def settings(self) -> Any:
        """The value of the one field."""
        return getattr(self, self.kind)

    @property
    def function(self) -> str | None:
        """The user's own function that does the step, as `module:function`."""
        return self.settings if isinstance(self.settings, str) and FUNCTION.fullmatch(self.settings) else None

    @property
    def name(self) -> str:
        """The name under which its documents are counted."""
        return self.settings if isinstance(self.settings, str) else self.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a source that the step reads or cleans, besides the text."""
        return ()

    def with_files(self, place: Place) -> Self:
        """Return the step with `place` applied to each URL of a file. A step that names files overrides this."""
        return self

    @property
    def is_for_prose(self) -> bool:
        """Whether the step ignores code and tables in Markdown texts."""
        return False

    @property
    def extractor(self) -> str:
        """The name of the built-in extractor that makes the text, or ""."""
        return ""

    @property
    def evaluation_sets(self) -> Mapping[str, EvaluationSet]:
        """The evaluation sets that the step searches for, by name."""
        return {}


def name_or_mapping(value: object) -> object:
    if not isinstance(value, str | dict | Cleaning):
        raise ValueError("a name or a mapping is expected; use one step for each name")
    return value
