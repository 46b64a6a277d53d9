"""The report's chapter on what sources have of each other and of themselves."""

from collections.abc import Iterator

from zyda_flows.flows.reporting import cluster_plots
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.storage.artifacts import Counts, total

KINDS = {
    "global": "would go with scope global",
    "removed": "were removed",
}


def overlap_sections(overlap: Overlap, dedup: Dedup, which: str) -> Iterator[Section]:
    """Yield how much of each source is a duplicate, and of which other source's."""
    notes = [
        "Of each source, what would go if it were deduplicated by itself; if all sources were one, with scope "
        "global; and what this round let go."
    ]
    if getattr(dedup, "verify", None):
        notes.append(
            "The round compared texts. The first two are of clusters, which nobody compared: at most so much."
        )
    yield Section(f"Own duplicates{which}", notes, "", [own_duplicates(overlap)])
    kinds = ["global"] if overlap_is_the_same(overlap) else ["global", "removed"]
    for kind in kinds:
        rows, columns, documents = overlap.matrix(kind, "documents")
        if not rows:
            continue
        note = (
            f"Of each row's documents that {KINDS[kind]}, the share by the source of the one that is kept. "
            "A row adds up to 100 %."
        )
        tables = [
            matrix_table(
                overlap,
                kind,
                field,
                f"{field.capitalize()} that {KINDS[kind]}, by the source of what is kept",
            )
            for field in ("documents", "tokens")
        ]
        plot = cluster_plots.origins(rows, columns, documents)
        yield Section(f"Where duplicates come from: what {KINDS[kind]}{which}", [note], plot, tables)


def overlap_is_the_same(overlap: Overlap) -> bool:
    """Say whether the round let go what scope `global` would."""
    as_global, went = (
        {(source, other): counts for (kind, source, other), counts in overlap.counts.items() if kind == which}
        for which in KINDS
    )
    return as_global == went


def own_duplicates(overlap: Overlap) -> Table:
    names = ["", "documents", "tokens"]
    for what in ("own", "global", "removed"):
        names += [f"{what}, documents", f"{what}, tokens"]
    sources = overlap.own_duplicates()
    rows = [row_of(one.source, one.entering, [one.own, one.as_global, one.removed]) for one in sources]
    columns = list(zip(*(one[1:] for one in sources), strict=True))
    entering, *going = (total(column) for column in columns)
    rows.append(row_of("total", entering, going))
    return Table("Duplicates by source, in documents and in tokens", names, rows, has_total=True)


def row_of(name: str, entering: Counts, going: list[Counts]) -> list[str]:
    cells = [name, count(entering.documents), count(entering.tokens)]
    for one in going:
        cells += [share(one.documents, entering.documents), share(one.tokens, entering.tokens)]
    return cells


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def matrix_table(overlap: Overlap, kind: str, field: str, title: str) -> Table:
    rows, columns, matrix = overlap.matrix(kind, field)
    cells = [
        [
            name,
            *(f"{count(number)} ({share(number, sum(numbers))})" if number else "0" for number in numbers),
            count(sum(numbers)),
        ]
        for name, numbers in zip(rows, matrix, strict=True)
    ]
    return Table(title, ["", *columns, "all"], cells)
