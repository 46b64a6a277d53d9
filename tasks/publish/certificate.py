"""The certificate of a corpus: which evaluation sets were looked for in it, how, and what was found."""

import pyarrow as pa

from tasks.accounts.published import Published
from tasks.documents.item_search import BEGINNING, LEAST, MOST, WIDTH
from tasks.publish.tables_of_markdown import as_table
from tasks.recipe.evaluation import Decontaminate
from tasks.recipe.fields import Recipe

TEXT = """\
Evaluation sets that were looked for, each question with its answer, in all documents as they were before
duplicates went. Of a question of {width} words or more, up to {most} parts of {width} words are looked for; of a
shorter one all its words; of one of less than {least} also its answer behind it. Capitals, punctuation and line
ends do not count. An item is there where {share:.0%} of the parts are, two at the least, and the first {beginning}
words of the answer within {near} words of them. A part that more than {documents:,} documents have, and more than
{rare:.3%} of all, is no evidence. What is too short or has no answer was not looked for. `contamination/` has the
files and their SHA-256, `removed/` what was found in each document that went.

"""
MARKED = "Documents that hold items are here: the column `contamination` names the sets.\n\n"
CUT = (
    "Documents are here without the passages that held items, of which every part was evidence: the column "
    "`contamination` names the sets, and `cleaned.parquet` says how much was cut.\n\n"
)


def certificate(recipe: Recipe, manifest: Published, sets: pa.Table | None) -> str:
    """Write what was looked for and found; nothing where no set was. sets: as `decontaminate` lists them."""
    asked = [
        step.decontaminate
        for one in recipe.sources
        for step in recipe.steps_of(one.name)
        if step.decontaminate
    ]
    if sets is None or not asked:
        return ""
    went = manifest.ledger.removed_by("decontaminate")
    rows = [
        [
            row["set"],
            *(f"{row[name]:,}" for name in ("items", "too_short", "unanswered", "phrases", "frequent")),
            f"{went[row['set']].documents if row['set'] in went else 0:,}",
        ]
        for row in sets.to_pylist()
    ]
    names = ["set", "items", "too short", "without answer", "parts", "no evidence", "documents that went"]
    actions = {one.action for one in asked}
    notes = (MARKED if "mark" in actions else "") + (CUT if "cut" in actions else "")
    return f"{how(asked[0])}{as_table(names, rows)}\n{notes}"


def how(asked: Decontaminate) -> str:
    return TEXT.format(
        width=WIDTH, most=MOST, least=LEAST, beginning=BEGINNING, share=asked.share, near=asked.answer_within,
        documents=asked.frequent_documents, rare=asked.frequent_share,
    )  # fmt: skip
