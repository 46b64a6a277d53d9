"""Run the steps of a source on a batch of its documents while their text is in memory.

Each step reads the texts that the steps before it have changed; Zyda-1's statistics read the original texts, too.
Steps between two cleanings measure the remaining documents in shared passes.
"""

from itertools import groupby

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.errors import BadInput


def run_steps(
    plan: DocumentPlan, texts: pa.LargeStringArray, source_columns: pa.Table | None = None
) -> Documents:
    """Run all steps of a plan on texts, (n,), and return the documents.

    source_columns: the other columns of the documents, (n,). Raises BadInput if a user's function fails, and for a
    column that a step cannot read.
    """
    documents = Documents.read(texts, source_columns)
    bounds = [bound for step in plan.steps for bound in step.bounds]
    for step in plan.steps:
        try:
            step.begin(documents)
        except ValueError as error:
            raise BadInput(f"{step.kind}: {error}") from error
    for changes_text, group in groupby(plan.steps, lambda step: step.changes_text):
        together = [*group]
        for part in (part for step in together for part in step.parts(together)):
            if changes_text or documents.remaining.any():
                part(documents)
                documents.drop_failing(bounds)
    return documents
