"""The items of evaluation sets: questions with their answers, read from files as they are published.

What is question and answer of a row is said by templates, a recipe's or those of a form that its columns have.
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
class Form:
    """What is question and answer in a set that has some columns. answer: None where the question says all."""

    columns: frozenset[str]
    question: str
    answer: str | None


def form(columns: str, question: str, answer: str | None) -> Form:
    return Form(frozenset(columns.split()), question, answer)


COMPLETED = "{{ sentence | replace('_', [none, option1, option2] | chosen(answer)) }}"
BY_LETTER = (
    "{{ choices.text | chosen(choices.label.index(answerKey) if answerKey in choices.label else none) }}"
)
# As their sets are published, the first that fits: ARC, OpenBookQA, MMLU, HellaSwag, WinoGrande, PIQA, BoolQ, SciQ,
# SQuAD, TriviaQA, HumanEval, MBPP, MATH; then what many others call them.
FORMS = (
    form("question choices answerKey", "{{ question }}", BY_LETTER),
    form("question_stem choices answerKey", "{{ question_stem }}", BY_LETTER),
    form("question choices answer", "{{ question }}", "{{ choices | chosen(answer) }}"),
    form("ctx endings label", "{{ ctx }}", "{{ endings | chosen(label) }}"),
    form("sentence option1 option2 answer", COMPLETED, None),
    form("goal sol1 sol2 label", "{{ goal }}", "{{ [sol1, sol2] | chosen(label) }}"),
    form("question passage answer", "{{ question }}", "{{ ['no', 'yes'] | chosen(answer) }}"),
    form("question correct_answer", "{{ question }}", "{{ correct_answer }}"),
    form("question answers", "{{ question }}", "{{ (answers.text + [''])[0] }}"),
    form("prompt canonical_solution", "{{ prompt }}", "{{ canonical_solution }}"),
    form("text code", "{{ text }}", "{{ code }}"),
    form("problem solution", "{{ problem }}", "{{ solution }}"),
    *(
        form(f"{question} {answer}", f"{{{{ {question} }}}}", f"{{{{ {value} }}}}")
        for question in ("question", "prompt", "problem", "input", "query", "instruction")
        for answer, value in (
            ("answer", "answer.value if answer is mapping else answer"), ("target", "target"),
            ("solution", "solution"), ("output", "output"), ("response", "response"),
        )
    ),
)  # fmt: skip


class PlannedSet(Record):
    """A set as a build found it: its files, and the templates that a recipe gives."""

    name: str
    files: tuple[PlannedFile, ...]
    question: str | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Item:
    """A question and its answer. row: its place in the set, over all files. answer: None where there is none."""

    row: int
    question: str
    answer: str | None


def planned_set(name: str, said: EvaluationSet) -> PlannedSet:
    """Find a set's files. Raises BadInput where there are none, Denied, Unavailable."""
    files = planned_files(f"set {name}", said.files, said.revision)
    return PlannedSet(name=name, files=files, question=said.question, answer=said.answer)


def items_of(planned: PlannedSet) -> Iterator[Item]:
    """Read the items of a set.

    Raises BadInput where a file has changed or cannot be read, a row fits no template, or no row has an answer that
    is to have one.
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
            f"set {planned.name}: none of its {number:,} items has an answer; say what it is: answer:"
        )


def rows_of(content: bytes, where: str) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet file or of JSON Lines. Raises BadInput."""
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
        raise BadInput(
            f"{where}: neither Parquet nor JSON Lines can be read there: {first_line(error)}"
        ) from error


def object_of(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{where}: it is no JSON: {error.msg}") from error
    if not isinstance(row, dict):
        raise BadInput(f"{where}: it is no JSON object")
    return row


def item_of(planned: PlannedSet, number: int, row: Mapping[str, Any], where: str) -> Item:
    question, answer = templates_of(planned, frozenset(row), where)
    try:
        asked = template(question).render(row)
        answered = None if answer is None else template(answer).render(row)
    except (TemplateError, LookupError, ValueError, TypeError) as error:
        raise BadInput(f"{where}: its question and answer cannot be told: {first_line(error)}") from error
    return Item(number, asked, answered)


def templates_of(planned: PlannedSet, columns: frozenset[str], where: str) -> tuple[str, str | None]:
    """Return the templates of question and answer for rows with some columns. Raises BadInput."""
    if planned.question is not None:
        return planned.question, planned.answer
    fitting = form_of(columns)
    if fitting is None:
        names = ", ".join(sorted(columns))
        raise BadInput(f"{where}: which of its columns are question and answer is not known; say so: {names}")
    return fitting.question, fitting.answer


@cache
def form_of(columns: frozenset[str]) -> Form | None:
    return next((one for one in FORMS if one.columns <= columns), None)


@cache
def template(text: str) -> Template:
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, finalize=lambda value: "" if value is None else value
    )
    environment.filters["chosen"] = chosen
    return environment.from_string(text)


def chosen(choices: Sequence[Any], which: Any) -> Any:
    """Return one of some choices: by its place from 0 on, its letter or its truth; None where nothing is said.

    Sets whose answers are secret say nothing, or -1. Raises LookupError and ValueError for what is no choice.
    """
    said = str(int(which) if isinstance(which, float) and which.is_integer() else which).strip()
    if which is None or said in {"", "-1"}:
        return None
    if len(said) == 1 and "A" <= said <= "Z":
        return choices[ord(said) - ord("A")]
    number = ["false", "true"].index(said.lower()) if said.lower() in {"false", "true"} else int(said)
    if number < 0:
        raise LookupError(f"{number} is no place of a choice")
    return choices[number]
