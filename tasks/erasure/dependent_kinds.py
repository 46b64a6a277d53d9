"""The kinds of dependents: places with documents to be removed, each with the next step for the user."""

from dataclasses import dataclass

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.storage.records import Record

MOST_POSITIONS = 1000  # of a mixture that are listed
MIX_AGAIN = "after its corpora have removed them: zyda mix MIXTURE --forget"
TODO = {  # the next step for the user, by kind
    "copy": "delete it, or remove the same documents with its own recipe: zyda forget",
    "same sources": "remove the same documents with its own recipe: zyda forget",
    "against": "remove the same documents there: otherwise it publishes the documents that it removed for them",
    "made from": "remove the same documents with its own recipe, then build it again: zyda forget",
    "mixture": MIX_AGAIN,
    "token ids": MIX_AGAIN,
    "unfinished mix": f"zyda clean MIXTURE, or {MIX_AGAIN}",
    "export": "export again to the same folder, which removes the old files (zyda export), or delete it",
    "experiment": "delete the folder of the experiment, then run it again: zyda ablate",
    "copied sources": "delete these copies, or remove the rows from the source, then zyda fetch",
}


class MixturePosition(Record):
    """A piece of a document in a file of a mixture: its first token and its number of tokens; see `zyda trace`."""

    output: str
    start: int
    tokens: int
    doc_id: int


class Dependent(Record):
    """A place with documents to be removed, or a corpus that removed other documents for them.

    kind: a key of TODO. of: the label of the corpus with these documents. documents: their number. pieces,
    positions: for a mixture the number of pieces, and the first MOST_POSITIONS of them. note: further facts. todo:
    the next step for the user.
    """

    kind: str
    url: str
    of: str
    documents: int
    pieces: int = 0
    positions: tuple[MixturePosition, ...] = ()
    note: str = ""
    todo: str = ""


@dataclass(frozen=True)
class Subject:
    """A corpus with the ids of documents to be removed, ascending, (n,)."""

    corpus: PublishedCorpus
    ids: Ids
