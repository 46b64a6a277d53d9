"""Reviews of documents by people, saved beside the corpus by document ids and without texts."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from zyda_flows.tasks.accounts.intervals import wilson
from zyda_flows.tasks.errors import BadInput, Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.lookup.samples import SampleKind, SampleOptions
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record

LOOKED = "looked"  # the folder of the reviews in the folder of a corpus


class Judgement(Record):
    """A judgement about the decision on a document. at: its time, ISO 8601 in UTC."""

    doc_id: int
    other: int | None = None
    source: str
    stage: str | None = None
    reason: str | None = None
    is_right: bool
    at: str


class Review(Record):
    """The review of a sample by a person: who, when it began, the options of the sample, and the judgements.

    added: a hash of the review if it was added from a saved page, which several people may have; "" otherwise.
    """

    who: str
    began: str
    options: SampleOptions
    judgements: tuple[Judgement, ...] = ()
    added: str = ""

    @property
    def path(self) -> str:
        """The path in the corpus's folder."""
        began, who = re.sub("[^0-9TZ]", "", self.began), re.sub("[^A-Za-z0-9_.-]", "_", self.who)[:40]
        return f"{LOOKED}/{'-'.join(filter(None, (began, who, self.added)))}.json"


def save_review(folder: Folder, review: Review) -> None:
    """Write a review."""
    write_record(folder, review.path, review)


def load_reviews(folder: Folder) -> list[Review]:
    """Read all reviews, in the order in which they began. A damaged review is skipped with a warning."""
    reviews = list[Review]()
    for path in folder.files(LOOKED):
        try:
            if review := read_record(folder, path, Review):
                reviews.append(review)
        except Damaged as error:
            warn(str(error))
    return reviews


def read_judgements(content: bytes) -> Review:
    """Read the review that a page of `zyda look` has saved. Raises BadInput if `content` is no review."""
    with suppress(ValueError):
        review = Review.model_validate_json(content, extra="forbid")
        return review.model_copy(update={"added": digest_of(review.model_dump(mode="json"))[:8]})
    raise BadInput("expected a file that a page of zyda look has saved")


class JudgementRate(NamedTuple):
    """How many judgements found a kind of decision right, with an interval of 95 %."""

    what: SampleKind
    by: str
    source: str
    right: int
    judged: int

    @property
    def share(self) -> float:
        return self.right / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.judged)


def rates_of(reviews: Iterable[Review]) -> list[JudgementRate]:
    """Count the judgements by kind of sample, stage and reason, and by source; then for all sources together.

    If a person judged a document several times, the last judgement counts.
    """
    last = dict[tuple[str, SampleKind, int, int | None], Judgement]()
    for review in reviews:
        for judgement in review.judgements:
            last[review.who, review.options.what, judgement.doc_id, judgement.other] = judgement
    counts = dict[tuple[SampleKind, str, str], list[int]]()
    for (_, kind, _, _), judgement in last.items():
        by = ": ".join(filter(None, (judgement.stage, judgement.reason)))
        for source in (judgement.source, "all"):
            count = counts.setdefault((kind, by, source), [0, 0])
            count[0] += judgement.is_right
            count[1] += 1
    return [JudgementRate(*key, *count) for key, count in sorted(counts.items(), key=order)]


def order(entry: tuple[tuple[SampleKind, str, str], Sequence[int]]) -> tuple[str, str, bool, str]:
    (what, by, source), _ = entry
    return what, by, source == "all", source
