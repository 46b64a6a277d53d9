"""A trial of a recipe's `passages`: a build of a sample of documents in a temporary folder.

Near-duplicates are removed first, because their passages would be cut otherwise. Rounds that compare columns or
other corpora, preferences, models and conditions are left out: only texts are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.report_data import passage_findings
from zyda_flows.tasks.lookup.report_findings import PassageFindings
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ExactColumn, ExactRound
from zyda_flows.tasks.recipe.passages import BY_SOURCE
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.stage.results import HERE


@dataclass(frozen=True)
class PassageTrial:
    """The result of a trial. findings: None if no passage is repeated."""

    ledger: Ledger
    findings: PassageFindings | None


def try_passages(recipe: Recipe, texts: Mapping[str, Sequence[pa.LargeStringArray]]) -> PassageTrial | None:
    """Search the repeated passages of some documents of each source; None if there are no documents.

    texts: of each source, as the steps of the recipe left them.
    """
    with TemporaryDirectory(prefix="zyda-try-") as folder:
        sources = list[Source]()
        for source in recipe.sources:
            table = pa.table([pa.chunked_array(texts.get(source.name, ()), pa.large_string())], ["text"])
            if len(table):
                path = Path(folder, f"{len(sources)}.parquet")
                pq.write_table(table, path)
                rights = {"exempt": source.exempt, "protect": source.protect}
                sources.append(Source(name=source.name, files=(str(path),), documents=(), **rights))
        if not sources:
            return None
        changes = {
            "storage": folder, "sources": tuple(sources), "inputs": None, "documents": (), "deny": (),
            "rounds": tuple(map(alone, filter(compares_texts, recipe.rounds))) or (ExactRound(exact="text"),),
            "passages": tuple(part.model_copy(update={"prefer": BY_SOURCE}) for part in recipe.passages),
            "max_loss": None, "sample": 1.0, "on_bad_rows": "set_aside", "judges": (),
        }  # fmt: skip
        small = recipe.model_copy(update=changes)
        ledger = run_pipeline(small, HERE)
        return PassageTrial(ledger, passage_findings(DocumentReader.of(small)))


def compares_texts(dedup: Dedup) -> bool:
    return not (isinstance(dedup, ExactRound) and isinstance(dedup.exact, ExactColumn))


def alone(dedup: Dedup) -> Dedup:
    """Return a round that needs neither columns nor other corpora."""
    return dedup.model_copy(update={"against": (), "prefer": ("source",)})
