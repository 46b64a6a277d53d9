"""Kinds of dependents: places that hold documents to be removed, each with the next step of the user."""

from dataclasses import dataclass

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.storage.records import Record

MOST_POSITIONS = 1000  # of a mixture that are listed
MIX_AGAIN = "when its corpora have forgotten them: zyda mix MIXTURE --forget"
TODO = {  # the next step of the user, by kind
    "copy": "delete it, or ask it to forget the same with its own recipe: zyda forget",
    "same sources": "ask it to forget the same with its own recipe: zyda forget",
    "against": "ask it to forget the same: it would publish the documents that it has dropped for these",
    "made from": "ask it to forget the same, then build it again: zyda forget with its own recipe",
    "mixture": MIX_AGAIN,
    "token ids": MIX_AGAIN,
    "unfinished mix": f"zyda clean MIXTURE, or {MIX_AGAIN}",
    "export": "write it again to the same folder, which removes its old files: zyda export; or delete it",
    "copied sources": "delete these copies, or remove the rows from the source, then zyda fetch",
}


class Position(Record):
    """Where a piece of a document is in a file of a mixture: its first token and how many; see `zyda trace`."""

    output: str
    start: int
    tokens: int
    doc_id: int


class Dependent(Record):
    """Something that has documents that are to be removed, or that dropped others for them.

    kind: of TODO. of: the corpus whose documents they are. documents: how many. positions: of a mixture, the first
    MOST_POSITIONS of `pieces`. note: further facts. todo: the next step of the user.
    """

    kind: str
    url: str
    of: str
    documents: int
    pieces: int = 0
    positions: tuple[Position, ...] = ()
    note: str = ""
    todo: str = ""


@dataclass(frozen=True)
class Subject:
    """A corpus with documents that are to be removed: ids, ascending, (n,)."""

    corpus: PublishedCorpus
    ids: Ids
