"""The columns, thresholds and removals of the judges of a published corpus, by its manifest and its files."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.quality.keep import columns_of
from zyda_flows.tasks.quality.keep_alone import alone, comparison_in
from zyda_flows.tasks.recipe.judges import QUALITY
from zyda_flows.tasks.storage.records import Record

FIRSTS = ("pred", "score", "perplexity")  # the first column of a judge, after its name
ENDS_OF_HEAD = (("_pred", "_prob"), ("_score", "_int_score"))  # of the first two columns of a head


class JudgeThreshold(Record):
    """A `keep` of a judge that compares a column with a number: `edu_score >= 2.5`."""

    judge: str
    column: str
    operator: str
    number: str

    @property
    def shown(self) -> str:
        return f"{self.column} {self.operator} {self.number}"

    def distances(self, scores: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the distance of each score from the threshold, and whether `keep` is true for it: (n,) each."""
        number = scores.dtype.type(float(self.number)) if scores.dtype.kind == "f" else float(self.number)
        distances = scores.astype(np.float64) - float(number)
        compare = {">=": np.greater_equal, ">": np.greater, "<=": np.less_equal, "<": np.less}[self.operator]
        return np.abs(distances), compare(distances, 0)


class JudgeColumns(Record):
    """A judge in the files of a source.

    first: its first column, which is null for documents that it did not judge. score: the column by which it orders
    documents; "" if it has several labels. stage, reason: of the documents that its `keep` removed; "" for stage
    without `keep`, and for reason if the stage has only these removals. threshold: of its `keep`, if there is one.
    """

    judge: str
    first: str
    score: str
    stage: str
    reason: str
    threshold: JudgeThreshold | None


def judges_in_manifest(manifest: Published, source: str) -> list[dict[str, Any]]:
    """Return the judges of a source in the published recipe; the judge of `classify` is the last."""
    recipe = manifest.recipe
    matches = (each for each in recipe["sources"] if each["name"] == source)
    written: dict[str, Any] = next(matches, {})
    own = written.get("judges")
    judges = [*(recipe.get("judges") or () if own is None else own)]
    return [*judges, *([{**written["classify"], "name": QUALITY}] if written.get("classify") else [])]


def columns_of_judges(manifest: Published, source: str, names: Sequence[str]) -> Iterator[JudgeColumns]:
    """Yield the judges of a source. names: of the columns of its files, in their order."""
    judges = judges_in_manifest(manifest, source)
    named = [judge["name"] for judge in judges]
    places = {name: place_of_first(name, named, names) for name in named}
    firsts = {names[place] for place in places.values() if place is not None}
    for judge in judges:
        name, place = judge["name"], places[judge["name"]]
        if place is None:
            continue
        own = [names[place], *following_columns(name, names[place + 1 :], firsts)]
        threshold = threshold_of(judge, own) if name != QUALITY else None
        yield JudgeColumns(
            judge=name,
            first=own[0],
            score=threshold.column if threshold else score_among(name, own),
            stage="" if judge.get("keep") is None else "filter" if name == QUALITY else f"keep_{name}",
            reason=QUALITY if name == QUALITY else "",
            threshold=threshold,
        )


def place_of_first(judge: str, judges: Collection[str], names: Sequence[str]) -> int | None:
    """Return the place of the first column of a judge, or of its first head; None if the files do not have it.

    judges: the names of all judges.
    """
    firsts = firsts_of(judge)
    own = next((place for place, name in enumerate(names) if name in firsts), None)
    others = tuple(f"{other}_" for other in judges if other.startswith(f"{judge}_"))
    with_head = (
        place
        for place, (name, following) in enumerate(pairwise(names))
        if name.startswith(f"{judge}_") and not name.startswith(others) and begin_head(name, following)
    )
    return next(with_head, None) if own is None else own


def begin_head(name: str, following: str) -> bool:
    """Return whether two columns are the first of a head. A column of the source can have such a name, too."""
    return any(
        name.endswith(first) and following == name.removesuffix(first) + second
        for first, second in ENDS_OF_HEAD
    )


def firsts_of(judge: str) -> list[str]:
    """Return the names that the first column of a judge with one head can have."""
    return [f"{judge}_{first}" for first in FIRSTS] + (["score"] if judge == QUALITY else [])


def following_columns(judge: str, names: Sequence[str], firsts: Collection[str]) -> Iterator[str]:
    """Yield the first columns of `names` with the name of a judge, up to the first column of another judge."""
    return takewhile(lambda name: name.startswith(f"{judge}_") and name not in firsts, names)


def score_among(judge: str, columns: Sequence[str]) -> str:
    """Return the column by which a judge orders documents: a score, or of two labels the second."""
    if columns[0] not in (f"{judge}_pred", *firsts_of(judge)):
        return ""  # several heads
    if not columns[0].endswith("_pred"):
        return columns[0]
    labels = [column for column in columns if column not in (f"{judge}_pred", f"{judge}_prob")]
    return labels[1] if len(labels) == 2 else ""


def threshold_of(judge: dict[str, Any], own: Sequence[str]) -> JudgeThreshold | None:
    """Return the comparison with a number by which a judge alone decides (see `tasks.quality.keep_alone`).

    own: the columns of the judge. None if its `keep` has another form.
    """
    if not judge.get("keep"):
        return None
    others = columns_of(judge["only_if"]) if judge.get("only_if") else ()
    condition = alone(judge["keep"], others, own)
    compared = comparison_in(condition) if condition else None
    if compared is None or compared[0] not in own:
        return None
    return JudgeThreshold(judge=judge["name"], column=compared[0], operator=compared[1], number=compared[2])
