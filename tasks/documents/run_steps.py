"""Run the steps of a source on a batch of its documents while their text is in memory.

Each step reads the texts as the steps before it left them; Zyda-1's statistics read the original texts, too. What
several steps measure between two cleanings is measured together, for the documents that remain.
"""

from itertools import groupby

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.errors import BadInput


def run_steps(plan: DocumentPlan, texts: pa.LargeStringArray, own: pa.Table | None = None) -> Documents:
    """Run all the steps of a plan. own: the other columns of the documents, (n,).

    Raises BadInput for what a user's own function did, and for a column that a step cannot read.
    """
    documents = Documents.read(texts, own)
    bounds = [bound for step in plan.steps for bound in step.bounds]
    for step in plan.steps:
        try:
            step.begin(documents)
        except ValueError as error:
            raise BadInput(f"{step.kind}: {error}") from error
    for changes_text, group in groupby(plan.steps, lambda step: step.changes_text):
        together = [*group]
        for part in [part for step in together for part in step.parts(together)]:
            if changes_text or documents.remaining.any():
                part(documents)
                documents.drop_failing(bounds)
    return documents
