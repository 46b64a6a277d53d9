"""The page of a build, in Markdown: how far it is, stage by stage and source by source."""

from collections.abc import Iterable

from flows.dashboard.markdown import bar, duration, in_cell, table
from flows.dashboard.state import UNKNOWN, BuildState, Row, entered
from tasks.storage.artifacts import Counts, total

MOST_SOURCES = 60  # that have a line; the others are counted together
LONG_BAR = 30
LEAST_SECONDS = 1.0  # of which a speed is said


def page_of(state: BuildState, links: Iterable[str] = ()) -> str:
    """Write the page."""
    with state.lock:
        parts = [headline(state), *links, "## Stages", stages(state), "## Sources", sources(state)]
    return "\n\n".join(parts) + "\n"


def headline(state: BuildState) -> str:
    """Say in a line how far the build is, how fast, and when it will be done."""
    name, seconds = in_cell(state.recipe.corpus), duration(state.seconds)
    if state.outcome:
        fraction = 1.0 if state.outcome == "complete" else state.fraction
        return f"# {name}: {state.outcome}\n\n{bar(fraction, LONG_BAR)} **{percent(fraction)}** in {seconds}"
    said = [f"{bar(state.fraction, LONG_BAR)} **{percent(state.fraction)}**", f"running for {seconds}"]
    if (left := state.seconds_left()) is not None:
        models = ", and the time of the models" if any(stage in state.rows for stage in UNKNOWN) else ""
        said.append(f"about **{duration(left)}** left{models}")
    if at := state.now_at():
        said.append(f"at {', '.join(at)}")
    return f"# {name}: running\n\n{' · '.join(said)}"


def percent(fraction: float) -> str:
    """Write a fraction so that 100 % means all."""
    return f"{min(99, round(100 * fraction)) if fraction < 1 else 100} %"


def stages(state: BuildState) -> str:
    """Write the table of the stages: how far each is, how fast, what came out of it and what it let go."""
    names = ("stage", "", "done", "documents", "tokens", "let go", "kept", "MB/s", "time", "left")
    at_start = started_with(state)
    return table(names, [stage_cells(state, row, at_start) for row in state.rows.values()], left=2)


def stage_cells(state: BuildState, row: Row, at_start: Counts | None) -> list[str]:
    fraction, seconds = row.fraction(state.weights), row.seconds(state.clock())
    cells = [row.step.name, bar(fraction), percent(fraction) if row.began is not None else ""]
    if row.step.sources:
        of_all = left_after(state, row) if row.is_over else None
        counts = of_all or row.seen
        gone = total(receipt.removed for receipt in row.receipts).documents
        cells += [number(counts.documents), number(counts.tokens), number(gone)]
        cells.append(share(of_all.tokens, at_start.tokens) if of_all and at_start else "")
        is_measured = seconds >= LEAST_SECONDS and counts.bytes
        cells.append(f"{row.seen.bytes / 1e6 / seconds:,.1f}" if is_measured else "")
    else:
        cells += [""] * 5
    is_on = row.began is not None and not row.is_over and fraction > 0
    cells.append(duration(seconds) if row.began is not None else "")
    cells.append(duration(seconds * (1 - fraction) / fraction) if is_on else "")
    return cells


def started_with(state: BuildState) -> Counts | None:
    """Return what ingest let out of all sources, when it is over."""
    row = state.rows["ingest"]
    return total(receipt.out for receipt in row.receipts) if row.is_over else None


def left_after(state: BuildState, row: Row) -> Counts | None:
    """Return what is left of all sources after a stage, also of those that it did not look at."""
    names = list(state.rows)
    before = set(names[: names.index(row.step.name) + 1])
    counts = Counts()
    for source in state.rows["ingest"].step.sources:
        receipts = [receipt for name, receipt in state.lines_of(source) if name in before]
        if not receipts:
            return None
        counts += receipts[-1].out
    return counts


def sources(state: BuildState) -> str:
    """Write the table of the sources: where each is, what is left of it, and what each stage let go."""
    every = state.rows["ingest"].step.sources
    stages_that_took = [
        name for name, row in state.rows.items() if any(receipt.removed.documents for receipt in row.receipts)
    ]
    names = ("source", "", "at", "documents", "tokens", *(f"{name} let go" for name in stages_that_took))
    shown = every if len(every) <= MOST_SOURCES else every[: MOST_SOURCES - 1]
    lines = [source_cells(state, (source,), stages_that_took, source) for source in shown]
    if len(shown) < len(every):
        rest = every[len(shown) :]
        lines.append(source_cells(state, rest, stages_that_took, f"{len(rest):,} others"))
    lines.append(source_cells(state, every, stages_that_took, "**total**"))
    return table((*names, "set aside", "kept"), lines, left=3)


def source_cells(state: BuildState, some: tuple[str, ...], took: list[str], name: str) -> list[str]:
    """Write the line of a source, or of some together."""
    trails = [state.lines_of(source) for source in some]
    rows = [row for row in state.rows.values() if row.step.sources]
    fractions = [row.cells[s].fraction for s in some for row in rows if s in row.cells]
    at = dict.fromkeys(
        row.step.name
        for row in rows
        if any((cell := row.cells.get(s)) and cell.total and not cell.receipt for s in some)
    )
    left = total(trail[-1][1].out if trail else entered(state.rows["ingest"].cells[s])
                 for s, trail in zip(some, trails, strict=True))  # fmt: skip
    first = total(trail[0][1].out for trail in trails if trail)
    removed = [total(r.removed for trail in trails for n, r in trail if n == stage) for stage in took]
    aside = total(receipt.set_aside for trail in trails for _, receipt in trail)
    is_whole = all(trails)
    return [
        name, bar(sum(fractions) / len(fractions)) if fractions else "", ", ".join(at), number(left.documents),
        number(left.tokens), *(number(counts.documents) for counts in removed), number(aside.documents),
        share(left.tokens, first.tokens) if is_whole else "",
    ]  # fmt: skip


def number(count: int) -> str:
    return f"{count:,}" if count else ""


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""
