"""`zyda explain`: print the origin of a document, whether it was kept or removed, and the reason."""

from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import DIFF_STYLES, console, in_short
from zyda_flows.tasks.words import counted, in_words

if TYPE_CHECKING:
    from rich.console import Console

    from zyda_flows.tasks.lookup.document_reader import DocumentPlace
    from zyda_flows.tasks.lookup.explain import Explanation

EXAMPLES = ("zyda explain recipe.yaml 72057594037927936",)
MAX_MEMBERS = 20
MAX_LINES = 20
MAX_WIDTH = 1000
MAX_FACTS, MAX_FACT = 20, 60


def explain(
    recipe_path: RecipePath,
    doc_id: Annotated[str, typer.Argument(metavar="DOC_ID", help="Id of the document, decimal or as 0x...")],
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Show where a document came from, why it was kept or removed, and how it differs from a kept duplicate."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.lookup.explain import explain as explain_document  # late

    print_explanation(explain_document(recipe, doc_id))


def print_explanation(explanation: "Explanation") -> None:
    """Print the origin, the decision, the cluster, a diff and the text of a document."""
    from rich.text import Text  # late

    out = console(soft_wrap=True)
    out.print(f"document {explanation.place.doc_id}: {shown(explanation.place)}", markup=False)
    out.print(decision(explanation), markup=False)
    if explanation.cluster_id is not None:
        out.print(
            f"cluster {explanation.cluster_id}: {counted(explanation.cluster_size, 'document')}", markup=False
        )
        for member in explanation.members[:MAX_MEMBERS]:
            marks = ["this"] if member == explanation.place else []
            marks += ["kept instead of it"] if member == explanation.kept else []
            stage = explanation.members_removed_by.get(member.doc_id)
            marks += [f"removed by {in_words(stage)}"] if stage else []
            mark = f"  <- {', '.join(marks)}" if marks else ""
            out.print(f"  {member.doc_id}  {shown(member)}{mark}", markup=False)
        if explanation.cluster_size > MAX_MEMBERS:
            out.print(f"  and {explanation.cluster_size - MAX_MEMBERS:,} more")
    if explanation.kept_removed_by:
        out.print(f"(the kept document was later removed by {in_words(explanation.kept_removed_by)})")
    if explanation.kept or explanation.diff:
        compared_with = "the kept document" if explanation.kept else "the document of the other corpus"
        out.print(f"from this document to {compared_with}:")
        for line in explanation.diff or ["(no difference)"]:
            out.print(Text(line, style=DIFF_STYLES.get(line[:1], "")))
        print_facts(explanation, out)
    print_similar(explanation, out)
    print_passages(explanation, out)
    if explanation.text:
        how = (
            f"extracted by {explanation.extractor}" if explanation.extractor else "unchanged from its source"
        )
        out.print(f"text, {how}:", markup=False)
        lines = explanation.text.splitlines()
        for line in lines[:MAX_LINES]:
            rest = f" ... {len(line) - MAX_WIDTH:,} more characters" if len(line) > MAX_WIDTH else ""
            out.print(Text(f"  {line[:MAX_WIDTH]}{rest}"))
        if len(lines) > MAX_LINES:
            out.print(f"  and {len(lines) - MAX_LINES:,} more lines")


def print_facts(explanation: "Explanation", out: "Console") -> None:
    """Print the facts that the other document lacks."""
    if explanation.is_too_long:
        out.print("facts: not compared, because the texts are too long")
    if explanation.lacks:
        out.print("facts of this document that the other lacks (+: a negation that only the other has):")
    for kind, facts in explanation.lacks.items():
        more = f" and {len(facts) - MAX_FACTS:,} more" if len(facts) > MAX_FACTS else ""
        listed = ", ".join(fact[:MAX_FACT] for fact in facts[:MAX_FACTS])
        out.print(f"  {kind}: {listed}{more}", markup=False)


def print_similar(explanation: "Explanation", out: "Console") -> None:
    """Print the pairs of a kept document in semantic rounds."""
    if explanation.similar:
        out.print(
            f"similar documents, {counted(explanation.similar_count, 'pair')} (+: a negation that is added):"
        )
    for other in explanation.similar:
        out.print(
            f"  {other.place.doc_id}  {shown(other.place)}: cosine {other.cosine:.3f}, {other.relation}",
            markup=False,
        )
        for owner, facts in (("the other document", other.lacks), ("this document", other.has)):
            if facts:
                out.print(f"    {owner} lacks {facts}", markup=False)
    if more := explanation.similar_count - len(explanation.similar):
        out.print(f"  and {more:,} more")


def print_passages(explanation: "Explanation", out: "Console") -> None:
    """Print the text of a document with what is cut of it, and its repeated passages."""
    from rich.text import Text  # late

    if explanation.cut_text:
        out.print(
            f"{counted(explanation.cut_characters or 0, 'character')} of repeated passages are cut, here in [- -]:",
            markup=False,
        )
        out.print(
            Text.assemble(*(s.text if s.is_same else (f"[-{s.text}-]", "red") for s in explanation.cut_text))
        )
    for passage in explanation.passages:
        owner = "this document" if passage.owner == explanation.place else shown(passage.owner)
        copies = {"best": f"the kept copy is in {owner}", "none": "all copies are cut", "all": "none is cut"}
        out.print(
            f"characters {passage.start:,} to {passage.end:,} are in {counted(passage.documents, 'document')} "
            f"(part {passage.part} of `passages`); {copies[passage.keep]}:",
            markup=False,
        )
        out.print(Text(f"  {passage.text!r}" if passage.text else "  (the text before the cut is missing)"))
    if more := explanation.passage_count - len(explanation.passages):
        out.print(f"and {counted(more, 'passage')} more in published/passages/")


def shown(place: "DocumentPlace") -> str:
    return f"source {place.source}, file {place.file}, row {place.row}"


def decision(explanation: "Explanation") -> str:
    """Return a sentence: whether a document is in the corpus, or why it was removed."""
    if explanation.is_published:
        return "It is in the corpus."
    why = f"It was removed by stage {explanation.stage}, reason {explanation.reason}: {explanation.sentence}"
    why += f": {explanation.condition}" if explanation.condition else "."
    shown_values = dict(explanation.evidence)
    if {"cosine", "proposed_cosine", "novel"} <= shown_values.keys():
        cosine, proposed, novel = (shown_values.pop(name) for name in ("cosine", "proposed_cosine", "novel"))
        why += (
            f" The cosine with the kept document is {cosine:.3f} by the confirming model and {proposed:.3f} by the "
            f"proposing model. The kept document lacks {novel:.1%} of its 3-grams of words."
        )
    evidence = ", ".join(f"{name} {in_short(value)}" for name, value in shown_values.items())
    return f"{why} ({evidence})" if evidence else why
