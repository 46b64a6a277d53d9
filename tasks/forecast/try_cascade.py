"""A trial of judges: propose which documents an expensive judge need not read, for an agreement with it.

All judges of a source judge a sample of its documents. A score of an earlier judge divides the documents:
below `low` they are removed, from `high` on they are kept, and the last judge decides about the others. If low
scores are kept, such as perplexities, the thresholds are of the negative score. The two thresholds are chosen on a
half of the sample, so that the last judge reads as few documents as possible. The agreement is measured with the
proposed conditions on the other half.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.intervals import Z_95, wilson
from zyda_flows.tasks.documents.planning import plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning.try_rules import read_sample
from zyda_flows.tasks.quality.forms import Model, judged_model, load_model
from zyda_flows.tasks.quality.keep import columns_of, keep_mask
from zyda_flows.tasks.quality.keep_alone import alone
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.source import Source

MOST_DIGITS = 9  # which distinguish all numbers of 32 bits
SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Cut(NamedTuple):
    """Thresholds of a score as texts, None where no document is decided. judged: documents between them.

    is_reversed: whether low scores are kept, such as perplexities: the thresholds are of the negative scores.
    """

    low: str | None
    high: str | None
    judged: int
    is_reversed: bool = False


@dataclass(frozen=True)
class Cascade:
    """A proposed `only_if` and `keep` of a judge. only_if: "" if `keep` decides without the judge.

    alone: the condition by which the judge alone decides. documents: on which the conditions were measured. judged:
    of these, read by the judge. equal: of these, with the decision of the judge alone.
    """

    judge: str
    sources: tuple[str, ...]
    alone: str
    only_if: str
    keep: str
    documents: int
    judged: int
    equal: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the agreement."""
        return wilson(self.equal, self.documents)


def try_cascades(recipe: Recipe, documents: int, agreement: float) -> Iterator[Cascade]:
    """Yield the cheapest cascade for each list of judges in the recipe.

    documents: of the sample. agreement: the lowest value of the lower end of the interval. Raises BadRecipe if no
    source has a judge with `keep` that runs after another judge, or if no cascade reaches the agreement.
    """
    groups = dict[tuple[Judge, ...], list[Source]]()
    for source in recipe.sources:
        judges = tuple(recipe.judges_of(source.name))
        if last := max((i for i, judge in enumerate(judges) if judge.keep), default=0):
            groups.setdefault(judges[: last + 1], []).append(source)
    if not groups:
        raise BadRecipe("no source has a judge with `keep` after another judge; give the recipe `judges`")
    each = ceil(documents / len(recipe.sources))
    for judges, sources in groups.items():
        models = [judged_model(judge, sources[0].name) for judge in judges]
        tables = [judged_sample(recipe, source, judges, models, each) for source in sources]
        table = pa.concat_tables(tables, promote_options="permissive")
        yield proposed(judges, sources, models, table, agreement)


def judged_sample(
    recipe: Recipe, source: Source, judges: Sequence[Judge], models: Sequence[Model], count: int
) -> pa.Table:
    """Return documents of a source with the answers of its judges, without documents that earlier judges remove."""
    plan = plan_documents(recipe, source.name)
    wanted = {name for judge in judges if judge.keep for name in columns_of(judge.keep)} - {source.text}
    parts = [pa.table({"text": pa.array([], pa.large_string())})]
    for sample in read_sample(recipe, source, count, wanted):
        done = run_steps(plan, sample.texts, sample.source_columns)
        names = [name for name in sample.source_columns.column_names if name in wanted]
        columns = sample.source_columns.select(names).append_column("text", done.text)
        parts.append(columns.filter(pa.array(done.remaining)))
    table = pa.concat_tables(parts, promote_options="permissive")
    for judge, model in zip(judges, models, strict=True):
        answers = load_model(model, judge.max_tokens)(table.column("text"))
        for field, column in zip(model.added_columns, answers, strict=True):
            table = table.append_column(field, column)
        if judge.keep and judge is not judges[-1]:
            table = table.filter(pa.array(mask_of(judge.keep, table)))
    return table


def mask_of(condition: str, table: pa.Table) -> NDArray[np.bool_]:
    """Return the rows for which a condition is true: bool, (n,). Raises BadRecipe if it cannot be evaluated."""
    if missing := {*columns_of(condition)} - {*table.column_names}:
        raise BadRecipe(f"{condition}: a sample has no column {min(missing)}")
    try:
        return keep_mask(condition, table)
    except BadKeep as error:
        raise BadRecipe(f"{condition}: {error}") from error


def proposed(
    judges: Sequence[Judge],
    sources: Sequence[Source],
    models: Sequence[Model],
    table: pa.Table,
    agreement: float,
) -> Cascade:
    """Return the cheapest cascade before the last judge. table: with the answers of all judges."""
    judge, own = judges[-1], names_of(models[-1:])
    assert judge.keep is not None
    others = {*names_of(models[:-1]), *(columns_of(judge.only_if) if judge.only_if else ())}
    condition = alone(judge.keep, others - own, own)
    if condition is None:
        raise BadRecipe(f"judge {judge.name}.keep does not read the answers of the judge")
    chosen, held = halves(len(table))
    expect_enough(len(held), len(table), agreement)
    decided = mask_of(condition, table)
    scores = {
        name: table.column(name).to_numpy()
        for model in models[:-1]
        for name in (field.name for field in model.added_columns if pa.types.is_floating(field.type))
    }
    for wrong in range(most_wrong(len(chosen), agreement), -1, -1):
        cuts = {name: best_cut(values[chosen], decided[chosen], wrong) for name, values in scores.items()}
        name = min(cuts, key=lambda name: (cuts[name].judged, cuts[name].is_reversed))
        if cuts[name].judged == len(chosen):
            break
        only_if, keep = conditions_of(name, cuts[name], condition)
        part = table.take(held)
        is_judged = mask_of(only_if, part) if only_if else np.zeros(len(part), np.bool_)
        is_equal = mask_of(keep, without_answers(part, own, is_judged)) == decided[held]
        counts = (len(held), int(is_judged.sum()), int(is_equal.sum()))
        cascade = Cascade(judge.name, tuple(s.name for s in sources), condition, only_if, keep, *counts)
        if cascade.interval[0] >= agreement:
            return cascade
    raise BadRecipe(
        f"no score of an earlier judge replaces judge {judge.name} at an agreement of {agreement:g}: try a lower "
        "agreement, or more --documents"
    )


def names_of(models: Sequence[Model]) -> set[str]:
    return {field.name for model in models for field in model.added_columns}


def halves(documents: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows by which thresholds are chosen, and the rows on which the agreement is measured."""
    order = np.random.default_rng(0).permutation(documents)
    return np.sort(order[: documents // 2]), np.sort(order[documents // 2 :])


def expect_enough(measured: int, documents: int, agreement: float) -> None:
    """Raise BadRecipe if even equal decisions about all measured documents do not show an agreement."""
    if not measured or wilson(measured, measured)[0] < agreement:
        needed = ceil(3 * agreement * Z_95**2 / (1 - agreement))
        raise BadRecipe(
            f"a sample of {documents:,} documents, of which a half is measured, cannot show an agreement of "
            f"{agreement:g}; use --documents {needed}"
        )


def most_wrong(documents: int, agreement: float) -> int:
    """Return how many decisions may differ, so that the interval does not begin below an agreement."""
    wrong = floor((1 - agreement) * documents)
    return next((n for n in range(wrong, 0, -1) if wilson(documents - n, documents)[0] >= agreement), 0)


def best_cut(scores: NDArray[np.float32], decided: NDArray[np.bool_], wrong: int) -> Cut:
    """Return the cheapest cut if high scores are kept, or if low scores are kept (see `cheapest_cut`)."""
    upward, downward = (cheapest_cut(signed, decided, wrong) for signed in (scores, -scores))
    return upward if upward.judged <= downward.judged else downward._replace(is_reversed=True)


def cheapest_cut(scores: NDArray[np.float32], decided: NDArray[np.bool_], wrong: int) -> Cut:
    """Return the thresholds with the fewest documents between them, and at most `wrong` wrong decisions outside.

    scores, decided: of each document, (n,); documents below `low` are decided as False, from `high` on as True.
    """
    order = np.argsort(scores, kind="stable")
    scores, decided, number = scores[order], decided[order], len(scores)
    wrong_below = np.concatenate([[0], np.cumsum(decided)])
    wrong_above = np.concatenate([np.cumsum(~decided[::-1])[::-1], [0]])
    ends = np.flatnonzero(
        np.concatenate([[True], scores[1:] != scores[:-1], [True]])
    )  # equal scores together
    below, above = wrong_below[ends], wrong_above[ends]
    # `above` descends, so the first end with few enough wrong decisions is found by bisection.
    highs = np.maximum(np.searchsorted(-above, below - wrong), np.arange(len(ends)))
    widths = np.where(below <= wrong, ends[np.minimum(highs, len(ends) - 1)] - ends, number)
    widest = int(widths.argmin())
    low, high = (int(ends[widest]), int(ends[highs[widest]])) if below[widest] <= wrong else (0, number)
    return Cut(
        None if low == 0 else threshold(scores, low),
        None if high == number else threshold(scores, high),
        high - low,
    )


def threshold(scores: NDArray[np.float32], place: int) -> str:
    """Return a short number above `scores[place - 1]` and at most `scores[place]`; scores ascend."""
    at = scores[place] if place < len(scores) else np.nextafter(scores[-1], np.float32(np.inf))
    before = scores[place - 1] if place else np.float32(-np.inf)
    middle = float(before) / 2 + float(at) / 2 if place else float(at)
    texts = (f"{number:.{digits}g}" for digits in range(1, MOST_DIGITS + 1) for number in (middle, float(at)))
    return next(text for text in texts if before < np.float32(text) <= at)


def conditions_of(column: str, cut: Cut, by_judge: str) -> tuple[str, str]:
    """Return `only_if` and `keep` for thresholds of a column. by_judge: the condition of the judge alone.

    If no document is between the thresholds, `only_if` is "", and `keep` does not read the judge.
    """
    name = column if SIMPLE_NAME.fullmatch(column) else f'"{column}"'
    at_least, below = ("<=", ">") if cut.is_reversed else (">=", "<")
    low, high = (negated(text) if text and cut.is_reversed else text for text in (cut.low, cut.high))
    if not cut.judged:
        return "", f"{name} {at_least} {high or low}"
    ends = [f"{name} {at_least} {low}"] if low else []
    ends += [f"{name} {below} {high}"] if high else []
    by_judge = f"({by_judge})" if re.search(r"\bxor\b", by_judge, re.IGNORECASE) else by_judge
    return " AND ".join(ends), f"{name} {at_least} {high} OR {by_judge}" if high else by_judge


def negated(number: str) -> str:
    return number.removeprefix("-") if number.startswith("-") else f"-{number}"


def without_answers(table: pa.Table, own: Collection[str], is_judged: NDArray[np.bool_]) -> pa.Table:
    """Return a table in which the answers of a judge are null for documents that it does not judge."""
    for name in own:
        column = pc.if_else(pa.array(is_judged), table.column(name), None)
        table = table.set_column(table.column_names.index(name), name, column)
    return table
