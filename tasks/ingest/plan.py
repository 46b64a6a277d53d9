"""What `prepare` plans for each source, and ingest does."""

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.source import ComponentOf
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.listing import NumberedSource
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.storage.records import Record


class IngestParameters(Record):
    """All that decides what the shards of a source hold, besides its files.

    is_exact: `tokenizers` alone counts, for EXACT is asked for. publish_set_aside: the content of rows that are set
    aside is stored, too.
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

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what there is none of: what was ingested before has the same key."""
        idle = {
            "documents": not self.documents.steps,
            "selection": self.selection == ALL,
            "component": self.component is None,
            "is_exact": not self.is_exact,
            "publish_set_aside": not self.publish_set_aside,
        }
        return {name: value for name, value in dump(self).items() if not idle.get(name)}


class SourcePlan(NumberedSource):
    """A source as `prepare` found it.

    `model` is for the stages after ingest, which find it among the facts of ingest's manifest. `denied` are the
    SHA-256 of the recipe's deny lists by URL, which are nothing to ingest.
    """

    parameters: IngestParameters
    model: Model | None = None
    denied: dict[str, str] = {}
