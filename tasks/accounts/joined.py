"""The account of a join: the documents of a source with labels, and the labels without documents."""

import pyarrow as pa

from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record, unpack
from zyda_flows.tasks.words import counted


class JoinAccount(Record):
    """The counts of a join.

    number: of the join in the list of its source, from 0. columns: the types of the columns that were taken, by
    name. documents: that entered. matched: of them, the documents with labels. matched_often: of them, with several
    labels. rows: of the labels. unused: of them, the rows without a document.
    """

    source: str
    number: int
    on: str
    columns: dict[str, str]
    documents: int
    matched: int
    matched_often: int
    rows: int
    unused: int

    @property
    def unmatched(self) -> int:
        return self.documents - self.matched

    @property
    def sentence(self) -> str:
        return (
            f"{self.matched:,} of {counted(self.documents, 'document')} of {self.source} have labels by {self.on}; "
            f"{self.unused:,} of {counted(self.rows, 'label')} have no document"
        )


class JoinFacts(Facts):
    """The facts of a source's joins. packed: the schema of the columns that were taken."""

    packed: str
    accounts: tuple[JoinAccount, ...]

    @property
    def columns(self) -> pa.Schema:
        return unpack(self.packed)
