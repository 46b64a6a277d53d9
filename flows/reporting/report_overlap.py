"""The sections of the report about duplicates within sources and between sources."""

from collections.abc import Iterator

from zyda_flows.flows.reporting import cluster_plots
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.storage.counts import Counts, total

KINDS = {
    "global": "would be removed with scope global",
    "removed": "were removed",
}


def overlap_sections(overlap: Overlap, dedup: Dedup, round_suffix: str) -> Iterator[Section]:
    """Yield sections about the duplicates of each source, and the sources of the kept documents."""
    notes = [
        "Own: removals if each source were deduplicated separately. Global: removals if all sources were "
        "deduplicated as one, with scope global. Removed: removals of this round."
    ]
    if getattr(dedup, "verify", None):
        notes.append("This round compared texts. Own and global are upper limits: they count whole clusters.")
    yield Section(f"Own duplicates{round_suffix}", notes, "", [own_duplicates(overlap)])
    kinds = ["global"] if overlap_is_the_same(overlap) else ["global", "removed"]
    for kind in kinds:
        rows, columns, documents = overlap.matrix(kind, "documents")
        if not rows:
            continue
        note = (
            f"Documents of each row that {KINDS[kind]}: the share by source of the kept document. "
            "A row adds up to 100 %."
        )
        tables = [
            matrix_table(
                overlap,
                kind,
                field,
                f"{field.capitalize()} that {KINDS[kind]}, by source of the kept document",
            )
            for field in ("documents", "tokens")
        ]
        plot = cluster_plots.origins(rows, columns, documents)
        yield Section(
            f"Sources of duplicates: documents that {KINDS[kind]}{round_suffix}", [note], plot, tables
        )


def overlap_is_the_same(overlap: Overlap) -> bool:
    """Return whether the round removed the same documents as scope `global` would."""
    as_global, removed = (
        {
            (source, other): counts
            for (kind, source, other), counts in overlap.counts.items()
            if kind == shown_kind
        }
        for shown_kind in KINDS
    )
    return as_global == removed


def own_duplicates(overlap: Overlap) -> Table:
    names = ["", "documents", "tokens"]
    for kind in ("own", "global", "removed"):
        names += [f"{kind}, documents", f"{kind}, tokens"]
    sources = overlap.own_duplicates()
    rows = [row_of(each.source, each.entering, [each.own, each.as_global, each.removed]) for each in sources]
    columns = list(zip(*(each[1:] for each in sources), strict=True))
    entering, *removals = (total(column) for column in columns)
    rows.append(row_of("total", entering, removals))
    return Table("Duplicates by source, in documents and in tokens", names, rows, has_total=True)


def row_of(name: str, entering: Counts, removals: list[Counts]) -> list[str]:
    cells = [name, count(entering.documents), count(entering.tokens)]
    for removed in removals:
        cells += [share(removed.documents, entering.documents), share(removed.tokens, entering.tokens)]
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
