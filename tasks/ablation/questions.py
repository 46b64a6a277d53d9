"""Questions of evaluation sets with their options, as contexts and continuations whose likelihoods are compared.

A layout is recognised by its columns. All options of a question have the same context, except for WinoGrande: there
the option is in the context, and the rest of the sentence is the continuation. Answers are spelled out: the model
does not see letters of options.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from zyda_flows.tasks.documents.evaluation_sets import plan_set, rows_of
from zyda_flows.tasks.errors import BadInput, bad_input
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.sources.small_files import read_planned_file

# A row for each option. n_bytes: of the option, without the space before it.
OPTIONS = pa.schema(
    [
        ("question", pa.int32()),
        ("context", pa.list_(pa.uint32())),
        ("continuation", pa.list_(pa.uint32())),
        ("n_bytes", pa.uint32()),
        ("is_gold", pa.bool_()),
    ]
)
ANSWER = "Question: {}\nAnswer:"
BRACKETS = re.compile(r"\[.*?\]")


class Question(NamedTuple):
    """A question: its options as pairs of a context and a continuation, and the place of the correct option."""

    options: list[tuple[str, str]]
    gold: int


def same_context(context: str, options: Sequence[str], gold: int) -> Question:
    return Question([(context, f" {option}") for option in options], gold)


def by_letter(row: dict[str, Any], question: str) -> Question:
    choices = row["choices"]
    return same_context(question, choices["text"], list(choices["label"]).index(row["answerKey"]))


def without_brackets(text: str) -> str:
    """Return a text of HellaSwag without the marks of WikiHow."""
    return BRACKETS.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ").strip()


def hellaswag(row: dict[str, Any]) -> Question:
    context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    endings = [without_brackets(ending) for ending in row["endings"]]
    return same_context(without_brackets(context), endings, int(row["label"]))


def winogrande(row: dict[str, Any]) -> Question:
    before, _, after = row["sentence"].partition("_")
    options = [(f"{before}{row[name]}", f" {after.strip()}") for name in ("option1", "option2")]
    return Question(options, int(row["answer"]) - 1)


def boolq(row: dict[str, Any]) -> Question:
    context = f"{row['passage']}\nQuestion: {row['question']}?\nAnswer:"
    return same_context(context, ["no", "yes"], int(row["answer"]))


def sciq(row: dict[str, Any]) -> Question:
    options = [row[name] for name in ("distractor1", "distractor2", "distractor3", "correct_answer")]
    return same_context(f"{row['support']}\n{ANSWER.format(row['question'])}".lstrip(), options, 3)


# In order: ARC, OpenBookQA, MMLU, HellaSwag, WinoGrande, PIQA, BoolQ, SciQ.
LAYOUTS: dict[tuple[str, ...], Callable[[dict[str, Any]], Question]] = {
    ("question", "choices", "answerKey"): lambda row: by_letter(row, ANSWER.format(row["question"])),
    ("question_stem", "choices", "answerKey"): lambda row: by_letter(row, row["question_stem"]),
    ("question", "choices", "answer"): lambda row: same_context(
        ANSWER.format(row["question"].strip()), row["choices"], int(row["answer"])
    ),
    ("activity_label", "ctx_a", "ctx_b", "endings", "label"): hellaswag,
    ("sentence", "option1", "option2", "answer"): winogrande,
    ("goal", "sol1", "sol2", "label"): lambda row: same_context(
        ANSWER.format(row["goal"]), [row["sol1"], row["sol2"]], int(row["label"])
    ),
    ("question", "passage", "answer"): boolq,
    ("question", "distractor1", "distractor2", "distractor3", "correct_answer", "support"): sciq,
}


@dataclass(frozen=True)
class QuestionEncoder:
    """Encodes contexts, which begin with the token `separator`, and continuations."""

    tokenizer: Tokenizer
    separator: int

    def pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Return the ids of both, of which the continuation has the ids that the whole text adds to the context."""
        before = self.tokenizer.encode(context, add_special_tokens=False).ids
        whole = self.tokenizer.encode(context + continuation, add_special_tokens=False).ids
        return [self.separator, *whole[: len(before)]], whole[len(before) :]


def read_questions(name: str, url: str, count: int, encoder: QuestionEncoder) -> pa.Table:
    """Return OPTIONS of at most `count` questions of an evaluation file: the rows with the smallest hashes.

    Raises BadInput for a file that lacks a column of the nearest layout, and for a row without a valid answer.
    """
    where, smallest = f"evaluation {name}", dict[bytes, tuple[str, int, dict[str, Any]]]()
    for file in plan_set(name, EvaluationSet(files=(url,))).files:
        content = read_planned_file(where, file)
        for number, row in enumerate(rows_of(content, f"{where}, file {file.listed.url}")):
            key = hashlib.blake2b(orjson.dumps(row, default=str), digest_size=16).digest()
            smallest[key] = (file.listed.url, number, row)
            if len(smallest) > 2 * count:
                smallest = dict(sorted(smallest.items())[:count])
    chosen = [row for _, row in sorted(smallest.items())[:count]]
    if not chosen:
        raise bad_input(where, "it has no questions", file=url)
    layout = layout_of(where, url, set(chosen[0][2]))
    rows = [
        option
        for place, (file, number, row) in enumerate(chosen)
        for option in options_of(place, question_of(layout, row, where, file, number), encoder)
    ]
    return pa.Table.from_pylist(rows, OPTIONS)


def layout_of(where: str, url: str, names: set[str]) -> tuple[str, ...]:
    """Return the layout whose columns a file has. Raises BadInput with the missing columns of the nearest one."""
    nearest = min(LAYOUTS, key=lambda layout: (len({*layout} - names), -len(layout)))
    if missing := [name for name in nearest if name not in names]:
        raise bad_input(
            where,
            f"the column {missing[0]} is missing; a set with {', '.join(nearest)} is expected",
            file=url,
        )
    return nearest


def question_of(layout: tuple[str, ...], row: dict[str, Any], where: str, file: str, number: int) -> Question:
    """Return the question of a row. Raises BadInput if it has no valid answer."""
    try:
        question = LAYOUTS[layout](row)
        if not 0 <= question.gold < len(question.options):
            raise ValueError(f"the answer is option {question.gold}, of {len(question.options)}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise bad_input(
            where, f"the row is no question with options and an answer: {error}", file=file, row=number
        ) from error
    return question


def options_of(place: int, question: Question, encoder: QuestionEncoder) -> Iterator[dict[str, Any]]:
    """Yield the rows of a question in OPTIONS."""
    for number, (context, continuation) in enumerate(question.options):
        before, after = encoder.pair(context, continuation)
        if not after:
            raise BadInput(f"the option {continuation!r} has no tokens")
        n_bytes = len(continuation.strip().encode())
        yield {
            "question": place, "context": before, "continuation": after, "n_bytes": n_bytes,
            "is_gold": number == question.gold,
        }  # fmt: skip


def scores(options: pa.Table, nats: NDArray[np.float64]) -> dict[str, float]:
    """Return the measures of an evaluation set by the nats of each option, (n,).

    gold: the bits per byte of the correct options. accuracy: the share of questions whose correct option has the
    largest likelihood per byte. accuracy_sum: likewise by the likelihood itself. A tie counts as a wrong answer,
    unless the correct option is the first of the equal ones.
    """
    question = options.column("question").to_numpy()
    is_gold = options.column("is_gold").to_numpy()
    n_bytes = np.maximum(1, options.column("n_bytes").to_numpy())
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    golds = np.flatnonzero(is_gold) - starts
    found = {
        name: np.array([np.argmin(values) for values in np.split(per, starts[1:])])
        for name, per in (("accuracy", nats / n_bytes), ("accuracy_sum", nats))
    }
    gold = float(nats[is_gold].sum() / np.log(2) / n_bytes[is_gold].sum())
    return {"gold": gold, **{name: float(np.mean(best == golds)) for name, best in found.items()}}
