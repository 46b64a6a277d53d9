"""What people said of documents that they looked at: kept beside the corpus, by ids and without texts."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import sqrt
from typing import NamedTuple

from zyda_flows.tasks.errors import BadInput, Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.lookup.samples import SampleOptions, What
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record

LOOKED = "looked"  # the folder of a corpus that they are in
Z = 1.959964  # of a normal distribution, 95 % lie within so many standard deviations


class Judgement(Record):
    """Whether somebody found right what became of a document. at: when, ISO 8601 in UTC."""

    doc_id: int
    other: int | None = None
    source: str
    stage: str | None = None
    reason: str | None = None
    is_right: bool
    at: str


class Looking(Record):
    """A sample that somebody has looked at: who, since when, what it was of, and what they said."""

    who: str
    began: str
    options: SampleOptions
    judgements: tuple[Judgement, ...] = ()
    added: str = ""  # of what came from a page in a file, which several people may have had: a hash of it

    @property
    def path(self) -> str:
        """Where it lies in the corpus's folder."""
        began, who = re.sub("[^0-9TZ]", "", self.began), re.sub("[^A-Za-z0-9_.-]", "_", self.who)[:40]
        return f"{LOOKED}/{'-'.join(filter(None, (began, who, self.added)))}.json"


def keep_looking(folder: Folder, looking: Looking) -> None:
    """Write what somebody has said so far."""
    write_record(folder, looking.path, looking)


def all_lookings(folder: Folder) -> list[Looking]:
    """Read what everybody said, in the order in which they began; what is damaged is said and passed over."""
    found = list[Looking]()
    for path in folder.files(LOOKED):
        try:
            if looking := read_record(folder, path, Looking):
                found.append(looking)
        except Damaged as error:
            warn(str(error))
    return found


def read_judgements(content: bytes) -> Looking:
    """Read what a page that was written to a file has saved. Raises BadInput."""
    with suppress(ValueError):
        looking = Looking.model_validate_json(content, extra="forbid")
        return looking.model_copy(update={"added": digest_of(looking.model_dump(mode="json"))[:8]})
    raise BadInput("that is not what a page of zyda look saves")


class Rate(NamedTuple):
    """How often something was found right: of so many, with an interval of 95 %."""

    what: What
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


def wilson(right: int, judged: int) -> tuple[float, float]:
    """Return Wilson's interval of a share (JASA 22, 1927), which is within 0 and 1 whatever the counts are."""
    share, size = right / judged, Z * Z / judged
    middle = (share + size / 2) / (1 + size)
    half = Z * sqrt(share * (1 - share) / judged + size / (4 * judged)) / (1 + size)
    return max(0.0, middle - half), min(1.0, middle + half)


def rates_of(lookings: Iterable[Looking]) -> list[Rate]:
    """Count by what was looked at, by stage and reason, and by source; then over all sources.

    Of one document that somebody judged several times, the last counts.
    """
    last = dict[tuple[str, What, int, int | None], Judgement]()
    for looking in lookings:
        for one in looking.judgements:
            last[looking.who, looking.options.what, one.doc_id, one.other] = one
    counts = dict[tuple[What, str, str], list[int]]()
    for (_, what, _, _), one in last.items():
        by = ": ".join(filter(None, (one.stage, one.reason)))
        for source in (one.source, "all"):
            count = counts.setdefault((what, by, source), [0, 0])
            count[0] += one.is_right
            count[1] += 1
    return [Rate(*key, *count) for key, count in sorted(counts.items(), key=order)]


def order(entry: tuple[tuple[What, str, str], Sequence[int]]) -> tuple[str, str, bool, str]:
    (what, by, source), _ = entry
    return what, by, source == "all", source
