"""The plan of a source, which `prepare` makes and ingest executes."""

from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.source import ComponentOf
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.storage.records import Record


class IngestParameters(Record):
    """The parameters that determine, with the files, the content of the shards of a source.

    is_exact: whether only `tokenizers` counts tokens. publish_set_aside: whether the content of set-aside rows is
    stored.
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


class PlannedLabels(Record):
    """The labels of a join. listing: of their files.

    is_hashed: whether the key is the hash of the texts of a published corpus.
    """

    listing: str
    is_hashed: bool


class SourcePlan(NumberedSource):
    """A source with its parameters.

    models: of the judges, for the stages after ingest, which read them from ingest's manifest. denied: the SHA-256
    of the recipe's deny lists by URL. labels: of each join. Ingest uses neither.
    """

    parameters: IngestParameters
    models: tuple[Model, ...] = ()
    denied: dict[str, str] = {}
    labels: tuple[PlannedLabels, ...] = ()
