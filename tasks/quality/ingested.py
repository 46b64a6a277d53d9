"""Read the facts about a source that ingest stores for later stages."""

import pyarrow as pa

from zyda_flows.tasks.accounts.joined import JoinFacts
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, load_manifest
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import unpack


class IngestFacts(Facts):
    """The facts of ingest's manifest.

    packed: the schema of the shards. set_aside: the tables of rows that are not documents. models: the models of
    the source's judges, in order. differing: the number of documents for which `fastokens` returned other tokens
    than `tokenizers`, which then counted their pieces.
    """

    packed: str
    set_aside: tuple[Artifact, ...] = ()
    models: tuple[Model, ...] = ()
    differing: int = 0

    @property
    def columns(self) -> pa.Schema:
        return unpack(self.packed)


def read_columns(folder: Folder, trail: Trail) -> pa.Schema:
    """Return the columns of a source's documents that exist before its judges: of ingest, and of its joins."""
    joined = [load_manifest(folder, receipt) for receipt in trail.receipts if receipt.stage == "join"]
    fields = [field for manifest in joined for field in manifest.facts_as(JoinFacts).columns]
    return pa.schema([*read_ingest_facts(folder, trail).columns, *fields])


def read_ingest_facts(folder: Folder, trail: Trail) -> IngestFacts:
    """Read the facts that ingest stored about a source."""
    return load_manifest(folder, trail.receipts[0]).facts_as(IngestFacts)
