"""`zyda try`: count the documents of a sample that each rule of a recipe removes, with examples."""

from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, load
from zyda_flows.flows.command.terminal import console, in_short, say, say_if_compiling, table_of
from zyda_flows.tasks.words import and_replaced, counted

if TYPE_CHECKING:
    from rich.table import Table

    from zyda_flows.tasks.forecast.try_passages import PassageTrial
    from zyda_flows.tasks.planning.try_rules import Example, RuleCount, RuleTrial
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda try recipe.yaml --documents 5000",)
MOST_SOURCES = 6
WIDTH = 200
SAMPLE_NOTE = (
    "passages of the sample, after deduplication; most repeats of a passage are outside a sample, "
    "so a build cuts more:"
)
MOST_LANGUAGES = 3  # languages with limits in a line


def try_recipe(
    recipe_path: RecipePath,
    documents: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Number of documents in the sample, from all sources together."
        ),
    ] = 1000,
    examples: Annotated[
        int,
        typer.Option(
            min=0, max=100, metavar="N", help="Number of examples of removed documents to show for each rule."
        ),
    ] = 3,
    agreement: Annotated[
        float | None,
        typer.Option(
            min=0.5,
            max=0.9999,
            metavar="SHARE",
            help="Propose `only_if` and `keep` of the last judge, so that it reads as few documents as possible "
            "and at least this share of decisions is equal to its own.",
        ),
    ] = None,
) -> None:
    """Run the `documents:` steps and `passages:` of the recipe on a sample, and show what they remove.

    Writes nothing. A sample has fewer repeated passages than the corpus.

    With --agreement, all judges of the recipe run on the sample instead.

    To tune the limits of rules, change the recipe, and start the command again. It takes seconds.
    """
    recipe = load(recipe_path, storage=None, sample=None)
    if agreement is not None:
        print_cascades(recipe, documents, agreement)
        return
    from rich.markup import escape  # late
    from rich.text import Text  # late

    from zyda_flows.tasks.planning.try_rules import effective_rules, try_steps  # late

    out, err = console(), console(stderr=True)
    say_if_compiling(err)
    with err.status("running the steps"):
        trial = try_steps(recipe, documents, examples)
    total = sum(trial.documents.values())
    out.print(
        f"{counted(total, 'document')} of {counted(len(trial.documents), 'source')}, {trial.bytes / 1e6:,.1f} MB; "
        f"{trial.remaining:,} kept ({trial.remaining / max(1, total):.1%})",
        soft_wrap=True,
    )
    for name, cleaned in trial.cleaned.items():
        out.print(
            f"{escape(name)} changes {counted(cleaned.documents, 'document')}: "
            f"{cleaned.characters_before:,} characters become {cleaned.characters_after:,}"
            f"{and_replaced(cleaned.replaced)}",
            soft_wrap=True,
        )
    if effective_rules(trial):
        out.print(shares_by_rule(trial, total))
    if idle := [name for name, taken in trial.rules.items() if not taken.total]:
        removes = "removes" if len(idle) == 1 else "remove"
        out.print(
            f"{counted(len(idle), 'rule')} {removes} nothing: {escape(', '.join(idle))}", soft_wrap=True
        )
    for taken in effective_rules(trial):
        if taken.examples:
            out.print(Text(f"\n{taken.bound.rule}: {limits(taken)}", style="bold"), soft_wrap=True)
        for example in taken.examples:
            out.print(Text(f"  {headline(example)}"), soft_wrap=True)
            out.print(Text(f"    {beginning(example.text)}"), soft_wrap=True, style="dim")
    if recipe.passages:
        from zyda_flows.tasks.forecast.try_passages import try_passages  # late

        with err.status("searching passages"):
            found = try_passages(recipe, trial.texts)
        if found is not None:
            print_passages(found, examples)


def print_cascades(recipe: "Recipe", documents: int, agreement: float) -> None:
    """Print the cheapest `only_if` and `keep` of the last judge for an agreement with the judge alone."""
    import yaml  # late

    from zyda_flows.tasks.forecast.try_cascade import try_cascades  # late

    with console(stderr=True).status("running the judges"):
        cascades = [*try_cascades(recipe, documents, agreement)]
    for cascade in cascades:
        low, high = cascade.interval
        say(f"judge {cascade.judge} of {', '.join(cascade.sources)}, which alone keeps `{cascade.alone}`:")
        lines = {"only_if": cascade.only_if, "keep": cascade.keep}
        if not cascade.only_if:
            say("an earlier judge can replace it, with this condition:")
            del lines["only_if"]
        say(yaml.safe_dump(lines, sort_keys=False, width=10**6, allow_unicode=True).rstrip())
        say(
            f"of {counted(cascade.documents, 'other document')}, it reads "
            f"{cascade.judged / cascade.documents:.1%}; {cascade.equal / cascade.documents:.2%} of the decisions "
            f"are equal, with a 95 % interval from {low:.2%} to {high:.2%}"
        )


def print_passages(trial: "PassageTrial", examples: int) -> None:
    """Print what the passages cut and removed of a sample, and the passages that the most documents share."""
    from rich.markup import escape  # late
    from rich.text import Text  # late

    out, ledger = console(), trial.ledger
    out.print(SAMPLE_NOTE, soft_wrap=True)
    table = table_of("source", "documents", "removed whole", "tokens", "cut", "share", words=["source"])
    for source in ledger.sources:
        left, removed, cut = (of("cuts", source) for of in (ledger.of, ledger.removed, ledger.cut))
        before = left + removed + cut
        numbers = (before.documents, removed.documents, before.tokens, cut.tokens)
        share = f"{cut.tokens / max(1, before.tokens):.1%}"
        table.add_row(escape(source), *(f"{n:,}" for n in numbers), share)
    out.print(table)
    if trial.findings is None:
        out.print("no passage is repeated")
        return
    by_part = groupby(trial.findings.most_shared, lambda one: one.passage.part)
    for shown in (one for _, listed in by_part for one in islice(listed, examples)):
        name = trial.findings.names[shown.passage.part - 1]
        characters = counted(shown.passage.end - shown.passage.start, "character")
        documents = counted(shown.passage.documents, "document")
        out.print(Text(f"  {name}: {characters}, in {documents}"), soft_wrap=True)
        out.print(Text(f"    {beginning(shown.beginning)}"), soft_wrap=True, style="dim")


def shares_by_rule(trial: "RuleTrial", total: int) -> "Table":
    """Return a table of the rules: removals in all, exclusive removals, and removals by source."""
    from rich.markup import escape  # late

    from zyda_flows.tasks.planning.try_rules import effective_rules  # late

    shown_sources = list(trial.documents) if len(trial.documents) <= MOST_SOURCES else []
    table = table_of(
        "rule", "removes", "share", "first to remove", "also by others", *shown_sources, words=["rule"]
    )
    for taken in effective_rules(trial):
        numbers = (taken.first, taken.also, *(taken.documents.get(source, 0) for source in shown_sources))
        share = f"{taken.total / max(1, total):.1%}"
        table.add_row(escape(taken.bound.rule), f"{taken.total:,}", share, *(f"{n:,}" for n in numbers))
    return table


def limits(taken: "RuleCount") -> str:
    """Return the values with which a document is kept."""
    bound = taken.bound
    if bound.is_noted:
        return taken.sentence
    if bound.languages:
        by_language = [f"{name} {in_words(*ends)}" for name, ends in bound.by_language.items()]
        more = ["..."] if len(by_language) > MOST_LANGUAGES else []
        return f"{', '.join([*by_language[:MOST_LANGUAGES], *more])} is kept"
    return f"{in_words(bound.low, bound.high)} is kept"


def in_words(low: float | None, high: float | None) -> str:
    ends = [f"at least {low:g}"] if low is not None else []
    ends += [f"at most {high:g}"] if high is not None else []
    return " and ".join(ends) or "any value"


def headline(example: "Example") -> str:
    return f"{in_short(example.value)}  {example.source}  {example.file}  row {example.row}"


def beginning(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = " ".join(text[: 4 * WIDTH].split())[:WIDTH]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
