"""What `prepare` plans for each source, and ingest does."""

from tasks.quality.forms import Model
from tasks.sources.listing import NumberedSource
from tasks.storage.records import Record


class IngestParameters(Record):
    """All that decides what the shards of a source hold, besides its files."""

    text: str
    classified: bool
    set_aside: bool
    shard_bytes: int
    tokenizer: str
    sample_rows: float


class SourcePlan(NumberedSource):
    """A source as `prepare` found it.

    `model` is for the stages after ingest, which find it among the facts of ingest's manifest.
    """

    parameters: IngestParameters
    model: Model | None = None
