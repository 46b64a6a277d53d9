"""What ingest found of a source, for the stages after it."""

import pyarrow as pa

from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, load_manifest
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import unpack


class Ingested(Facts):
    """The facts of ingest's manifest.

    packed: the columns of its shards. set_aside: the tables of rows that are no documents. model: where one judges.
    differing: documents of which the library that counts tokens was found to give others than `tokenizers`, which
    then counted.
    """

    packed: str
    set_aside: tuple[Artifact, ...] = ()
    model: Model | None = None
    differing: int = 0

    @property
    def columns(self) -> pa.Schema:
        return unpack(self.packed)


def ingested(folder: Folder, trail: Trail) -> Ingested:
    """Read what ingest found of a source."""
    return load_manifest(folder, trail.receipts[0]).facts_as(Ingested)
