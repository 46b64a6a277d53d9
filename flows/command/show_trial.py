"""`zyda try`: what each rule of a recipe takes of some documents, with examples."""

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.command.show import in_short
from flows.command.terminal import console
from tasks.planning.try_rules import Example, Taken, Trial, rules_that_take, tried
from tasks.recipe.fields import Recipe

MOST_SOURCES = 6
WIDTH = 200


def print_trial(plan: Recipe, documents: int, examples: int) -> None:
    """Do the steps on documents to a sample, and print what each rule takes."""
    out = console()
    with console(stderr=True).status("trying; the first time on a machine, rules are compiled for a minute"):
        trial = tried(plan, documents, examples)
    total = sum(trial.documents.values())
    out.print(
        f"{total:,} documents of {len(trial.documents):,} sources, {trial.bytes / 1e6:,.1f} MB; "
        f"{trial.remaining:,} stay ({trial.remaining / max(1, total):.1%})",
        soft_wrap=True,
    )
    for name, cleaned in trial.cleaned.items():
        out.print(
            f"{escape(name)} changes {cleaned.documents:,} documents: {cleaned.characters_before:,} characters "
            f"become {cleaned.characters_after:,}",
            soft_wrap=True,
        )
    if rules_that_take(trial):
        out.print(table_of(trial, total))
    if idle := [name for name, taken in trial.rules.items() if not taken.total]:
        out.print(f"{len(idle)} rules take none: {escape(', '.join(idle))}", soft_wrap=True)
    for taken in rules_that_take(trial):
        if taken.examples:
            out.print(Text(f"\n{taken.bound.rule}: {limits(taken)}", style="bold"), soft_wrap=True)
        for one in taken.examples:
            out.print(Text(f"  {headline(one)}"), soft_wrap=True)
            out.print(Text(f"    {beginning(one.text)}"), soft_wrap=True, style="dim")


def table_of(trial: Trial, total: int) -> Table:
    """Make the table of the rules: what each takes, alone and of each source."""
    table = Table(padding=(0, 1, 0, 0))
    table.add_column("rule", overflow="fold")
    few = list(trial.documents) if len(trial.documents) <= MOST_SOURCES else []
    for name in ("takes", "share", "is the first", "others do, too", *few):
        table.add_column(name, justify="right", overflow="fold")
    for taken in rules_that_take(trial):
        numbers = (taken.first, taken.also, *(taken.documents.get(source, 0) for source in few))
        share = f"{taken.total / max(1, total):.1%}"
        table.add_row(escape(taken.bound.rule), f"{taken.total:,}", share, *(f"{n:,}" for n in numbers))
    return table


def limits(taken: Taken) -> str:
    """Say which values let a document stay."""
    bound = taken.bound
    if bound.is_own:
        return "a function of your own"
    ends = [f"at least {bound.low:g}"] if bound.low is not None else []
    ends += [f"at most {bound.high:g}"] if bound.high is not None else []
    return f"{' and '.join(ends)} stays"


def headline(one: Example) -> str:
    return f"{in_short(one.value)}  {one.source}  {one.file}  row {one.row}"


def beginning(text: str) -> str:
    """Return the beginning of a text on one line, with what no terminal shows escaped."""
    line = " ".join(text[: 4 * WIDTH].split())[:WIDTH]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
