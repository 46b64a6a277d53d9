"""The items of evaluation sets: questions with their answers, read from the published files of the sets.

Templates make the question and the answer of a row: templates of the recipe, or of a known set with the same
columns.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import pyarrow as pa
from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from zyda_flows.tasks.errors import BadInput, first_line
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.formats.parquet import bounded_batches
from zyda_flows.tasks.sources.small_files import (
    PlannedFile,
    decompress_list,
    planned_files,
    read_planned_file,
)
from zyda_flows.tasks.sources.streams import Input
from zyda_flows.tasks.storage.records import Record


@dataclass(frozen=True)
class ItemForm:
    """The templates for sets with these columns. answer: None if the question contains the answer."""

    columns: frozenset[str]
    question: str
    answer: str | None


def known_form(columns: str, question: str, answer: str | None) -> ItemForm:
    return ItemForm(frozenset(columns.split()), question, answer)


COMPLETED = "{{ sentence | replace('_', [none, option1, option2] | chosen(answer)) }}"
BY_LETTER = (
    "{{ choices.text | chosen(choices.label.index(answerKey) if answerKey in choices.label else none) }}"
)
# The first matching form is used. In order: ARC, OpenBookQA, MMLU, HellaSwag, WinoGrande, PIQA, BoolQ, SciQ, SQuAD,
# TriviaQA, HumanEval, MBPP, MATH; then frequent names of columns.
FORMS = (
    known_form("question choices answerKey", "{{ question }}", BY_LETTER),
    known_form("question_stem choices answerKey", "{{ question_stem }}", BY_LETTER),
    known_form("question choices answer", "{{ question }}", "{{ choices | chosen(answer) }}"),
    known_form("ctx endings label", "{{ ctx }}", "{{ endings | chosen(label) }}"),
    known_form("sentence option1 option2 answer", COMPLETED, answer=None),
    known_form("goal sol1 sol2 label", "{{ goal }}", "{{ [sol1, sol2] | chosen(label) }}"),
    known_form("question passage answer", "{{ question }}", "{{ ['no', 'yes'] | chosen(answer) }}"),
    known_form("question correct_answer", "{{ question }}", "{{ correct_answer }}"),
    known_form("question answers", "{{ question }}", "{{ (answers.text + [''])[0] }}"),
    known_form("prompt canonical_solution", "{{ prompt }}", "{{ canonical_solution }}"),
    known_form("text code", "{{ text }}", "{{ code }}"),
    known_form("problem solution", "{{ problem }}", "{{ solution }}"),
    *(
        known_form(f"{question} {answer}", f"{{{{ {question} }}}}", f"{{{{ {value} }}}}")
        for question in ("question", "prompt", "problem", "input", "query", "instruction")
        for answer, value in (
            ("answer", "answer.value if answer is mapping else answer"), ("target", "target"),
            ("solution", "solution"), ("output", "output"), ("response", "response"),
        )
    ),
)  # fmt: skip


class PlannedSet(Record):
    """An evaluation set with its files as they were listed, and the templates of the recipe."""

    name: str
    files: tuple[PlannedFile, ...]
    question: str | None = None
    answer: str | None = None


@dataclass(frozen=True)
class EvaluationItem:
    """A question and its answer. row: its position in the set, over all files. answer: None for no answer."""

    row: int
    question: str
    answer: str | None


def plan_set(name: str, settings: EvaluationSet) -> PlannedSet:
    """Look up the files of a set. Raises BadInput for no files, Denied, Unavailable."""
    files = planned_files(f"set {name}", settings.files, settings.revision)
    return PlannedSet(name=name, files=files, question=settings.question, answer=settings.answer)


def items_of(planned: PlannedSet) -> Iterator[EvaluationItem]:
    """Yield the items of a set.

    Raises BadInput for a changed or unreadable file, for a row without templates, and if all answers are empty.
    """
    number, is_answered = 0, False
    for file in planned.files:
        where = f"set {planned.name}, file {file.listed.url}"
        content = read_planned_file(f"set {planned.name}", file)
        for row in rows_of(content, where):
            item = item_of(planned, number, row, f"{where}, row {number:,}")
            is_answered = is_answered or item.answer != ""
            yield item
            number += 1
    if not number:
        raise BadInput(f"set {planned.name}: it has no items")
    if not is_answered:
        raise BadInput(
            f"set {planned.name}: none of its {number:,} items has an answer; give a template: `answer:`"
        )


def rows_of(content: bytes, where: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet or JSON Lines file. Raises BadInput."""
    try:
        if content[:4] == b"PAR1":
            stream = Input(where, where, io.BytesIO(content), len(content), "", dict)
            for batch in bounded_batches(stream):
                yield from batch.to_pylist()
            return
        for number, line in enumerate(io.BytesIO(decompress_list(content, where))):
            if line.strip():
                yield object_of(line, f"{where}, line {number:,}")
    except (*DAMAGED, pa.ArrowException) as error:
        raise BadInput(f"{where}: cannot be read as Parquet or JSON Lines: {first_line(error)}") from error


def object_of(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{where}: invalid JSON: {error.msg}") from error
    if not isinstance(row, dict):
        raise BadInput(f"{where}: not a JSON object")
    return row


def item_of(planned: PlannedSet, number: int, row: Mapping[str, Any], where: str) -> EvaluationItem:
    question, answer = templates_of(planned, frozenset(row), where)
    try:
        question_text = template(question).render(row)
        answer_text = None if answer is None else template(answer).render(row)
    except (TemplateError, LookupError, ValueError, TypeError) as error:
        raise BadInput(
            f"{where}: the template of its question or answer fails: {first_line(error)}"
        ) from error
    return EvaluationItem(number, question_text, answer_text)


def templates_of(planned: PlannedSet, columns: frozenset[str], where: str) -> tuple[str, str | None]:
    """Return the templates of question and answer for rows with the given columns. Raises BadInput."""
    if planned.question is not None:
        return planned.question, planned.answer
    form = form_of(columns)
    if form is None:
        names = ", ".join(sorted(columns))
        raise BadInput(
            f"{where}: its columns are not those of a known set; give templates `question:` and `answer:` over its "
            f"columns: {names}"
        )
    return form.question, form.answer


@cache
def form_of(columns: frozenset[str]) -> ItemForm | None:
    return next((form for form in FORMS if form.columns <= columns), None)


@cache
def template(text: str) -> Template:
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, finalize=lambda value: "" if value is None else value
    )
    environment.filters["chosen"] = chosen_answer
    return environment.from_string(text)


def chosen_answer(choices: Sequence[Any], answer: Any) -> Any:
    """Return the choice at a position (from 0), for a letter, or for a truth value; None for no choice.

    Sets with secret answers have no value or -1. Raises LookupError, ValueError for an invalid choice.
    """
    text = str(int(answer) if isinstance(answer, float) and answer.is_integer() else answer).strip()
    if answer is None or text in {"", "-1"}:
        return None
    if len(text) == 1 and "A" <= text <= "Z":
        return choices[ord(text) - ord("A")]
    number = ["false", "true"].index(text.lower()) if text.lower() in {"false", "true"} else int(text)
    if number < 0:
        raise LookupError(f"{number} is not the position of a choice")
    return choices[number]
