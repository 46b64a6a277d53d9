"""The fields of a judge: a model that classifies documents, and the documents that it judges and keeps."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from zyda_flows.tasks.recipe.values import Expression, Flag, Number, Strict

Place = Literal["ingest", "after_dedup"]
MOST_JUDGES, MOST_CONTROLLED = 16, 1_000_000
NAME = r"^[a-z][a-z0-9_]*$"
QUALITY = "quality"  # the name of the judge that `classify` describes


def check_name(name: str) -> str:
    if not re.fullmatch(NAME, name):
        raise ValueError("expected lower-case letters, digits and _, of which the first is a letter")
    return name


class ModelSettings(Strict):
    """A model and the length of the texts that it reads."""

    model: str = Field(
        min_length=1,
        description="A hub name or a local folder, of an encoder or of a model of token ids; or a file of fastText "
        "(.bin, .ftz) or KenLM (.arpa, .bin, .binary, .klm), here or on the hub as `owner/repository/file`.",
    )
    revision: str | None = Field(None, description="For a hub name: a branch, tag or commit.")
    max_tokens: Annotated[int, Number] = Field(
        1024,
        ge=8,
        le=8192,
        description="Longer texts are cut, also for a model with fewer positions. fastText, KenLM and models of "
        "token ids read whole texts.",
    )
    probabilities: Flag = Field(
        False,
        description="Add a column for the probability of each label, such as `edu_High`. fastText always adds "
        "them.",
    )


class Judge(ModelSettings):
    """A model of the list `judges`, the documents that it judges, and the documents to keep."""

    name: Annotated[str, AfterValidator(check_name)] = Field(
        max_length=40,
        json_schema_extra={"pattern": NAME},
        description="The name of the judge, with which the names of its columns begin: `edu` adds `edu_score`, or "
        "`edu_pred` and `edu_prob`, or `edu_perplexity`.",
    )
    at: Place = Field(
        "after_dedup",
        description="`after_dedup`: the documents that remain after deduplication. `ingest`: all documents that "
        "the steps on documents keep, before deduplication.",
    )
    only_if: Expression | None = Field(
        None,
        description="An SQL condition, as for a source's `keep`: only documents for which it is true are judged; "
        "the columns of the judge are null for other documents. It can use the columns of earlier judges.",
    )
    keep: Expression | None = Field(
        None,
        description="An SQL condition for the documents to keep. It can use the columns of the judge and of "
        "earlier judges. It is not true for null, so name the documents that `only_if` leaves out.",
    )

    control: Annotated[int, Number] = Field(
        2000,
        ge=0,
        le=MOST_CONTROLLED,
        description="With `only_if` and `keep`: the smallest number of documents of each source, drawn by a hash "
        "of their ids, on which decisions are compared with the decisions of the judge alone. 0: none.",
    )

    @property
    def is_controlled(self) -> bool:
        """Whether the judge is compared with its `only_if` on a sample."""
        return bool(self.control and self.only_if and self.keep)

    @property
    def is_classify(self) -> bool:
        """Whether `classify` describes the judge."""
        return self.name == QUALITY

    @property
    def field(self) -> str:
        """The field of the recipe that describes the judge, for messages."""
        return "classify" if self.is_classify else f"judge {self.name}"


def check_names_differ(judges: tuple[Judge, ...] | None) -> tuple[Judge, ...] | None:
    """Raise ValueError if two judges have the same name, or if a judge has the name of `classify`."""
    names = [judge.name for judge in judges or ()]
    for name in names:
        if name == QUALITY:
            raise ValueError(f"{QUALITY} is the name of the judge of `classify`; use another name")
        if names.count(name) > 1:
            raise ValueError(f"two judges have the name {name}; rename one of them")
    return judges


Judges = Annotated[tuple[Judge, ...], AfterValidator(check_names_differ), Field(max_length=MOST_JUDGES)]


def merged_judges(lists: Iterable[Sequence[Judge]]) -> list[Judge]:
    """Return the judges of several sources, each name once, in an order that agrees with each list.

    Raises ValueError if there is no such order, or if a judge runs at two places.
    """
    waiting = [[*judges] for judges in lists if judges]
    places, ordered = dict[str, Place](), list[Judge]()
    for judge in (judge for judges in waiting for judge in judges):
        if places.setdefault(judge.name, judge.at) != judge.at:
            raise ValueError(
                f"judges: {judge.name} has two values of `at`; use the same value, or other names"
            )
    while waiting:
        later = {judge.name for judges in waiting for judge in judges[1:]}
        first = next((judges[0] for judges in waiting if judges[0].name not in later), None)
        if first is None:
            raise ValueError(
                f"judges: {waiting[0][0].name} runs before another judge in a source, and after it in another "
                "source; use the same order, or other names"
            )
        ordered.append(first)
        waiting = [judges[1:] if judges[0].name == first.name else judges for judges in waiting]
        waiting = [judges for judges in waiting if judges]
    return ordered
