"""The settings of the step `decontaminate`: evaluation sets, and the action on documents that contain their items.

documents:
  - decontaminate:
      sets:
        mmlu: hf://datasets/cais/mmlu/all/test-*.parquet    # a known set: its columns need no template
        own: {files: own.jsonl, question: "{{ task }}", answer: "{{ options[right] }}"}
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zyda_flows.tasks.recipe.values import Number, OneOrMore, Strict, Url, one_or_more

SetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


def as_mapping(value: object) -> object:
    return {"files": value} if isinstance(value, str | list | tuple) else value


class EvaluationSet(Strict):
    """The questions and answers of one set."""

    files: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = Field(
        min_length=1, description="Parquet or JSON Lines, any fsspec URL or pattern."
    )
    revision: str | None = Field(None, description="For files on the hub: a branch, tag or commit.")
    question: str | None = Field(
        None,
        description="The question of a row, as a Jinja template over the columns. If omitted, the columns of known "
        "sets are used.",
    )
    answer: str | None = Field(
        None,
        description="The correct answer of a row, as a Jinja template. If `answer` is omitted and `question` is "
        "given, finding the question alone is enough.",
    )

    @model_validator(mode="after")
    def answer_needs_question(self) -> "EvaluationSet":
        if self.answer is not None and self.question is None:
            raise ValueError("answer: give `question`, too")
        return self


class Decontaminate(Strict):
    """Which evaluation sets are searched for, which matches count, and the action on a matching document."""

    sets: dict[SetName, Annotated[EvaluationSet, BeforeValidator(as_mapping)]] = Field(
        min_length=1, description="Files of questions and answers, by the name of the set."
    )
    action: Literal["remove", "mark", "cut"] = Field(
        "remove",
        description="remove: remove the document. mark: keep the document and list the sets in the column "
        "`contamination`. cut: like mark, and cut the matching passages out of the text; frequent "
        "phrases count, too.",
    )
    share: Annotated[float, Number, Field(gt=0, le=1)] = Field(
        0.5, description="The share of a question's phrases that must match; at least two phrases."
    )
    answer_within: Annotated[int, Number, Field(ge=1, le=10_000)] = Field(
        100,
        description="The largest distance between a question and its answer, in words, in either direction.",
    )
    frequent_documents: Annotated[int, Number, Field(ge=1)] = Field(
        100,
        description="Ignore a phrase that occurs in more than this number of different contexts and in more than "
        "`frequent_share` of the documents. Copies and near-copies of a page count once.",
    )
    frequent_share: Annotated[float, Number, Field(ge=0, lt=1)] = Field(
        0.00001, description="A share of the documents; see `frequent_documents`."
    )

    def with_files(self, place: Any) -> "Decontaminate":
        """Return the settings with `place` applied to each URL of a file."""
        sets = {
            name: items.model_copy(update={"files": tuple(map(place, items.files))})
            for name, items in self.sets.items()
        }
        return self.model_copy(update={"sets": sets})
