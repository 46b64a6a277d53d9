"""Tables and texts for the terminal."""

from rich.table import Table
from rich.text import Text

from flows.command.terminal import console
from tasks.accounts.ledger import Ledger, large_losses, ways
from tasks.lookup.explain import Explanation, Place
from tasks.storage.artifacts import Counts

MAX_MEMBERS = 20
MAX_COLUMNS = 6
MAX_LINES = 20
MAX_WIDTH = 1000
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_ledger(ledger: Ledger) -> None:
    """Print documents and tokens of each source at the start, on the way and at the end."""
    table = Table(padding=(0, 1, 0, 0))
    table.add_column("source", overflow="fold")
    between = [f"after {stage}" for stage in ledger.on_the_way]
    for name in (
        "documents\nstart",
        "documents\nend",
        *(f"tokens\n{when}" for when in ("start", *between, "end")),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kept", justify="right", no_wrap=True)
    for source, start, counts_between, end in ways(ledger):
        if source == "total":
            table.add_section()
        tokens = (counts.tokens for counts in (start, *counts_between, end))
        kept = f"{end.tokens / start.tokens:.1%}" if start.tokens else ""
        style = "bold red" if start.documents and not end.documents else None
        table.add_row(
            source, *(f"{n:,}" for n in (start.documents, end.documents, *tokens)), kept, style=style
        )
    console().print(table)
    for sentence in large_losses(ledger):
        console().print(sentence, style="bold red", soft_wrap=True)
    print_reasons(ledger)
    set_aside = sum(line.set_aside.documents for line in ledger.lines)
    if set_aside:
        console().print(
            f"set aside: {set_aside:,} rows that are no documents, or rests of damaged files; "
            "published/set_aside has the reason of each", soft_wrap=True
        )  # fmt: skip


def print_reasons(ledger: Ledger) -> None:
    """Print what went by each rule, where a recipe has some."""
    by_rule = ledger.removed_by("rules")
    if not by_rule:
        return
    table = Table(title="What the rules let go", title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("rule", overflow="fold")
    few = ledger.sources if len(ledger.sources) <= MAX_COLUMNS else ()
    for name in ("documents", "tokens", *few):
        table.add_column(name, justify="right", overflow="fold")
    for rule, counts in by_rule.items():
        of_sources = (ledger.removed_by("rules", source).get(rule, Counts()).documents for source in few)
        table.add_row(rule, f"{counts.documents:,}", f"{counts.tokens:,}", *(f"{n:,}" for n in of_sources))
    console().print(table)
    for row in (row for row in ledger.cleaned().to_pylist() if row["documents"]):
        console().print(
            f"{row['cleaning']} changed {row['documents']:,} documents of {row['source']}: "
            f"{row['characters_before']:,} characters became {row['characters_after']:,}",
            soft_wrap=True,
        )


def print_explanation(explanation: Explanation) -> None:
    """Print what is known about a document."""
    out = console(soft_wrap=True)
    out.print(f"document {explanation.place.doc_id}: {shown(explanation.place)}", markup=False)
    out.print(decision(explanation), markup=False)
    if explanation.cluster_id is not None:
        out.print(f"cluster {explanation.cluster_id}: {explanation.cluster_size:,} documents", markup=False)
        for member in explanation.members[:MAX_MEMBERS]:
            marks = ["this"] if member == explanation.place else []
            marks += ["kept for it"] if member == explanation.kept else []
            mark = f"  <- {', '.join(marks)}" if marks else ""
            out.print(f"  {member.doc_id}  {shown(member)}{mark}", markup=False)
        if explanation.cluster_size > MAX_MEMBERS:
            out.print(f"  and {explanation.cluster_size - MAX_MEMBERS:,} more")
    if explanation.kept_went_by:
        out.print(f"(which went itself, by stage {explanation.kept_went_by})")
    if explanation.kept or explanation.diff:
        there = "the one kept for it" if explanation.kept else "that of the other corpus"
        out.print(f"from this document to {there}:")
        for line in explanation.diff or ["(no difference)"]:
            out.print(Text(line, style=DIFF_STYLES.get(line[:1], "")))
    if explanation.text:
        out.print("its text, as its source has it:")
        lines = explanation.text.splitlines()
        for line in lines[:MAX_LINES]:
            out.print(Text(f"  {line}"[:MAX_WIDTH]))
        if len(lines) > MAX_LINES:
            out.print(f"  and {len(lines) - MAX_LINES:,} lines more")


def shown(place: Place) -> str:
    return f"source {place.source}, file {place.file}, row {place.row}"


def decision(explanation: Explanation) -> str:
    """Say in a sentence what was decided about a document."""
    if explanation.is_published:
        return "It is in the corpus."
    why = f"It was removed by stage {explanation.stage}, reason {explanation.reason}: {explanation.sentence}."
    found = ", ".join(f"{name} {in_short(value)}" for name, value in explanation.evidence.items())
    return f"{why} ({found})" if found else why


def in_short(value: object) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "nothing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
