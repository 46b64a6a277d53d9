"""Write the certificate of decontamination: the evaluation sets, the method and the removed documents."""

from collections.abc import Sequence

import pyarrow as pa

from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.documents.contamination import distinct_steps
from zyda_flows.tasks.documents.sought_items import BEGINNING, LEAST, MOST, WIDTH
from zyda_flows.tasks.publish.tables_of_markdown import as_table
from zyda_flows.tasks.recipe.evaluation import Decontaminate
from zyda_flows.tasks.recipe.fields import Recipe

TEXT = """\
The items of evaluation sets, questions with their answers, were searched in all documents before duplicates
were removed. The search uses up to {most} parts of {width} words of a question; all words of a shorter
question; and also the answer if the question has less than {least} words. Capitals, punctuation, line ends,
tags, entities and escapes are ignored. A document contains an item if it has {share:.0%} of its parts, at least
two, and the first {beginning} words of the answer within {near} words of them. A part is no evidence if it
occurs in more surroundings than {documents:,}, and than {rare:.3%} of the documents; copies of a page count
once. Items are not searched if they are too short, have no answer, or have too few parts that are evidence
("too frequent"). `contamination/` has the files and their SHA-256, `removed/` the evidence for each removed
document.

"""
COLUMNS = {
    "items": "items", "too_short": "too short", "unanswered": "without answer", "too_frequent": "too frequent",
    "phrases": "parts", "frequent": "no evidence",
}  # fmt: skip
MARKED = "Documents that contain items are published: the column `contamination` names the sets.\n\n"
CUT = (
    "The passages that contain items were cut from the documents: the column `contamination` names the sets, and "
    "`cleaned.parquet` counts the removed characters.\n\n"
)
NOTES = {"mark": MARKED, "cut": CUT}


def certificate(recipe: Recipe, manifest: Published, sets: pa.Table | None) -> str:
    """Return the certificate as Markdown; "" without evaluation sets. sets: the table of `contamination`."""
    if sets is None:
        return ""
    alike = distinct_steps(recipe)
    return "".join(account(step, names, manifest, sets, is_only=len(alike) == 1) for step, names in alike)


def account(
    step: Decontaminate, sources: Sequence[str], manifest: Published, sets: pa.Table, *, is_only: bool
) -> str:
    """Return the certificate of the sources with the same step. is_only: whether all sources have this step."""
    rows = [
        [
            row["set"],
            *(f"{row[name]:,}" for name in COLUMNS),
            f"{documents_removed(manifest, sources, row['set']):,}",
        ]
        for row in sets.to_pylist()
        if row["sources"] == sources
    ]
    names = ["set", *COLUMNS.values(), "documents removed"]
    where = "" if is_only else f"Sources {', '.join(sources)}:\n\n"
    return f"{where}{how(step)}{as_table(names, rows)}\n{NOTES.get(step.action, '')}"


def documents_removed(manifest: Published, sources: Sequence[str], reason: str) -> int:
    removals = (manifest.ledger.removed_by("decontaminate", source) for source in sources)
    return sum(by_reason[reason].documents for by_reason in removals if reason in by_reason)


def how(step: Decontaminate) -> str:
    return TEXT.format(
        width=WIDTH, most=MOST, least=LEAST, beginning=BEGINNING, share=step.share, near=step.answer_within,
        documents=step.frequent_documents, rare=step.frequent_share,
    )  # fmt: skip
