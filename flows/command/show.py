"""Tables and texts for the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tasks.accounts.ledger import Ledger, start_and_end
from tasks.publish.explain import Explanation, Place

MAX_MEMBERS = 20
PIPE_WIDTH = 120
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_ledger(ledger: Ledger) -> None:
    """Print documents and tokens of each source at the start, after deduplication and at the end."""
    table = Table(padding=(0, 1, 0, 0))
    table.add_column("source", overflow="fold")
    for name in ("documents\nstart", "documents\nend", "tokens\nstart", "tokens\nafter dedup", "tokens\nend"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kept", justify="right", no_wrap=True)
    for source, start, middle, end in start_and_end(ledger):
        if source == "total":
            table.add_section()
        numbers = (start.documents, end.documents, start.tokens, middle.tokens, end.tokens)
        kept = f"{end.tokens / start.tokens:.1%}" if start.tokens else ""
        table.add_row(source, *(f"{number:,}" for number in numbers), kept)
    console().print(table)
    aside = sum(line.set_aside.documents for line in ledger.lines)
    if aside:
        console().print(f"{aside:,} rows were no documents and were set aside")


def console() -> Console:
    """Return a console as wide as the terminal, or wide enough where the output is a file."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def print_explanation(found: Explanation) -> None:
    """Print what is known about a document."""
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"document {found.place.doc_id}: {shown(found.place)}", markup=False)
    console.print(decision(found), markup=False)
    if found.cluster_id is not None:
        console.print(f"cluster {found.cluster_id}: {len(found.members):,} documents", markup=False)
        for member in found.members[:MAX_MEMBERS]:
            marks = ["this"] if member == found.place else []
            marks += ["kept for it"] if member == found.kept else []
            mark = f"  <- {', '.join(marks)}" if marks else ""
            console.print(f"  {member.doc_id}  {shown(member)}{mark}", markup=False)
        if len(found.members) > MAX_MEMBERS:
            console.print(f"  and {len(found.members) - MAX_MEMBERS:,} more")
    if found.kept:
        console.print("from this document to the one kept for it:")
        for line in found.diff or ["(no difference)"]:
            console.print(Text(line, style=DIFF_STYLES.get(line[:1], "")))


def shown(place: Place) -> str:
    return f"source {place.source}, file {place.file}, row {place.row}"


def decision(found: Explanation) -> str:
    """Say in a sentence what was decided about a document."""
    if found.is_published:
        return "It is in the corpus."
    from tasks.pipeline import reasons

    why = reasons()
    reason = str(found.reason)
    return f"It was removed by stage {found.stage}, reason {reason}: {why.get(reason, reason)}."
