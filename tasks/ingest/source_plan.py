"""What `prepare` plans for each source, and ingest does."""

from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.source import ComponentOf
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.storage.records import Record


class IngestParameters(Record):
    """All that decides what the shards of a source hold, besides its files.

    is_exact: `tokenizers` alone counts, for EXACT is asked for. publish_set_aside: the content of rows that are
    set aside is stored, too.
    """

    text: str
    classified: bool
    set_aside: bool
    shard_bytes: int
    tokenizer: str
    special_tokens: SpecialAs
    sample_rows: float
    selection: Selection = ALL
    documents: DocumentPlan = DocumentPlan()
    component: ComponentOf | None = None
    is_exact: bool = False
    publish_set_aside: bool = False


class SourcePlan(NumberedSource):
    """A source as `prepare` found it.

    `model` is for the stages after ingest, which find it among the facts of ingest's manifest. `denied` are the
    SHA-256 of the recipe's deny lists by URL, which are nothing to ingest.
    """

    parameters: IngestParameters
    model: Model | None = None
    denied: dict[str, str] = {}
