"""Evaluation sets, and what a step `decontaminate` does with documents that hold items of them.

documents:
  - decontaminate:
      sets:
        mmlu: hf://datasets/cais/mmlu/all/test-*.parquet    # its columns say what is question and answer
        own: {files: own.jsonl, question: "{{ task }}", answer: "{{ options[right] }}"}
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zyda_flows.tasks.recipe.values import Number, OneOrMore, Strict, Url, one_or_more

SetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


def files_alone(value: object) -> object:
    return {"files": value} if isinstance(value, str | list | tuple) else value


class EvaluationSet(Strict):
    """The questions and answers of one set."""

    files: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = Field(
        min_length=1, description="Parquet or JSON Lines, any fsspec URL or pattern."
    )
    revision: str | None = Field(None, description="Of files on the hub: a branch, a tag or a commit.")
    question: str | None = Field(
        None,
        description="The question of a row, as a template of Jinja's over its columns; without it, the columns of "
        "the known sets say what it is.",
    )
    answer: str | None = Field(
        None,
        description="Its right answer, likewise. Beside a `question` it may be missing: that says all, then.",
    )

    @model_validator(mode="after")
    def answers_a_question(self) -> "EvaluationSet":
        if self.answer is not None and self.question is None:
            raise ValueError("answer: give its question, too")
        return self


class Decontaminate(Strict):
    """Which sets are looked for, what is evidence, and what becomes of a document that holds an item."""

    sets: dict[SetName, Annotated[EvaluationSet, BeforeValidator(files_alone)]] = Field(
        min_length=1, description="Files of questions and answers, by the name of their set."
    )
    action: Literal["remove", "mark", "cut"] = Field(
        "remove",
        description="remove: the document goes. mark: it stays, and the column `contamination` names the sets. "
        "cut: it stays so, too, without the passages; every phrase is evidence then, however frequent.",
    )
    share: Annotated[float, Number, Field(gt=0, le=1)] = Field(
        0.5, description="The part of a question's phrases that has to be found; two phrases at the least."
    )
    answer_within: Annotated[int, Number, Field(ge=1, le=10_000)] = Field(
        100, description="How many words before or after its question an answer may stand."
    )
    frequent_documents: Annotated[int, Number, Field(ge=1)] = Field(
        100,
        description="A phrase is no evidence where it stands in more surroundings than this, and in more than "
        "`frequent_share` of the documents. Copies and near-copies of a page are one.",
    )
    frequent_share: Annotated[float, Number, Field(ge=0, lt=1)] = Field(
        0.00001, description="A part of the documents: see `frequent_documents`."
    )

    def with_files(self, place: Any) -> "Decontaminate":
        """Return it with files that are somewhere else. place: takes a URL and returns one."""
        sets = {
            name: one.model_copy(update={"files": tuple(map(place, one.files))})
            for name, one in self.sets.items()
        }
        return self.model_copy(update={"sets": sets})
