"""The page of a build, in Markdown: its progress by stage and by source."""

from collections.abc import Iterable

from zyda_flows.flows.dashboard.rows import Row, documents_read_by
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.flows.reporting.markdown import LOST, MOST_LOSSES, bar, duration, in_cell, table
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.words import in_words

STARTING = "at the start: workers start, and import what the stages need"
COMPILING = "this machine compiles its kernels first, once: that takes about a minute"
MOST_SOURCES = 60  # with a line each; further sources share a line
LONG_BAR, SHORT_BAR = 30, 6
ALWAYS = ("source", "documents", "tokens", "kept")  # columns of the table of the sources
LEAST_SECONDS, LEAST_SPEED = 1.0, 0.05  # below them, no speed is shown; seconds, MB/s


def page_of(state: BuildState, links: Iterable[str] = ()) -> str:
    """Return the page, in Markdown."""
    with state.lock:
        state.note_time()
        parts = [
            headline(state),
            *links,
            "## Sources",
            sources(state),
            *large_losses(state),
            "## Stages",
            *stages(state),
        ]
    return "\n\n".join(parts) + "\n"


def headline(state: BuildState) -> str:
    """Return the title, and a line with the progress, the elapsed time and the remaining time."""
    name, seconds = in_cell(state.recipe.corpus), duration(state.seconds)
    if state.outcome:
        why = f"\n\n{state.why}" if state.why else ""
        fraction = 1.0 if state.outcome == "complete" else state.fraction
        return f"# {name}: {state.outcome}\n\n{bar(fraction, LONG_BAR)} **{percent(fraction)}** in {seconds}{why}"
    if state.waits_for:
        return f"# {name}: waiting\n\nfor {seconds} · {state.waits_for}"
    fraction = min(
        state.fraction, 0.99
    )  # after the last stage, the corpus is still to be published and shown
    phrases = [f"{bar(fraction, LONG_BAR)} **{percent(fraction)}**", f"running for {seconds}"]
    if (left := state.seconds_left()) is not None:
        phrases.append(f"about **{duration(left)}** left")
    phrases.append(f"at {', '.join(state.now_at())}" if state.has_begun else STARTING)
    phrases += [
        f"{in_cell(host)} limits requests: waiting for {duration(rest)}"
        for host, rest in state.hosts_waited_for().items()
    ]
    if not state.rows["ingest"].is_over:
        phrases += [] if state.is_compiled else [COMPILING]
        phrases += [f"tokens are {state.token_counter}"] if state.token_counter else []
    return f"# {name}: running\n\n{' · '.join(phrases)}"


def percent(fraction: float) -> str:
    """Return a fraction as a percentage, in which only a complete build has 100 %."""
    return f"{min(99, round(100 * fraction)) if fraction < 1 else 100} %"


def stages(state: BuildState) -> list[str]:
    """Return the table of the running stages, or of all stages after a build, and lists of the other stages."""
    rows = [*state.rows.values()]
    over = [row for row in rows if row.is_over]
    on = [row for row in rows if row.began is not None and not row.is_over]
    parts = list[str]()
    if state.outcome == "complete":
        on = rows
    elif over:
        parts.append(f"{len(over)} of {len(rows)} are done: {', '.join(row.step.name for row in over)}")
    if on:
        names = ("stage", "done", "documents", "tokens", "removed", "kept", "MB/s", "time")
        at_start = started_with(state)
        parts.append(table(names, [stage_cells(state, row, at_start) for row in on], left=2))
    if to_come := [row.step.name for row in rows if row.began is None]:
        parts.append(f"To come: {', '.join(to_come)}")
    return parts


def large_losses(state: BuildState) -> list[str]:
    """Return a list with a line for each stage that removed or cut more than half of the tokens of a source."""
    losses = [
        f"- {LOST} {in_words(name)} removed{' or cut' if receipt.cut.tokens else ''} "
        f"{share(lost, receipt.entering.tokens)} of the tokens of `{source}`"
        for source in state.rows["ingest"].step.sources
        for name, receipt in state.lines_of(source)
        if (lost := receipt.removed.tokens + receipt.cut.tokens) > receipt.out.tokens
    ]
    more = [f"- and {len(losses) - MOST_LOSSES:,} more"] if len(losses) > MOST_LOSSES else []
    return ["\n".join([*losses[:MOST_LOSSES], *more])] if losses else []


def stage_cells(state: BuildState, row: Row, at_start: Counts | None) -> list[str]:
    fraction, seconds = state.fraction_of(row), row.seconds(state.clock())
    cells = [row.step.name, done_of(row, fraction)]
    if row.step.sources:
        remaining = remaining_after(state, row) if row.is_over else None
        counts, now = remaining or row.documents_read, row.documents_read_now
        removed = total(receipt.removed for receipt in row.receipts).documents
        cells += [number(counts.documents), number(counts.tokens), number(removed)]
        cells.append(kept_share(remaining.tokens, at_start.tokens) if remaining and at_start else "")
        speed = now.bytes / 1e6 / seconds if seconds >= LEAST_SECONDS else 0.0
        cells.append(f"{speed:,.1f}" if speed >= LEAST_SPEED else "")
    else:
        cells += [""] * 5
    is_on = row.began is not None and not (row.is_over or state.outcome)
    rest = state.seconds_left_of(row) if is_on else None
    left = "" if rest is None else f", {duration(rest)} left"
    return [*cells, f"{duration(seconds)}{left}" if row.began is not None else ""]


def done_of(row: Row, fraction: float) -> str:
    if row.began is None:
        return ""
    return "**failed**" if row.has_failed else f"{bar(fraction, SHORT_BAR)} {percent(fraction)}"


def started_with(state: BuildState) -> Counts | None:
    """Return the counts of all ingested sources, or None if ingest is not over."""
    row = state.rows["ingest"]
    return total(receipt.out for receipt in row.receipts) if row.is_over else None


def remaining_after(state: BuildState, row: Row) -> Counts | None:
    """Return the counts of all sources after a stage, including sources that the stage skipped.

    The result is None if a source has no receipt yet.
    """
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
    """Return the table of the sources: their progress, remaining documents, and removals by stage."""
    every = state.rows["ingest"].step.sources
    shown = every if len(every) <= MOST_SOURCES else every[: MOST_SOURCES - 1]
    lines = [line_of(state, (source,), source) for source in shown]
    if len(shown) < len(every):
        rest = every[len(shown) :]
        lines.append(line_of(state, rest, f"{len(rest):,} others"))
    lines.append(line_of(state, every, "**total**"))
    names = tuple(dict.fromkeys(name for line in lines for name in line))
    # A column without values is left out.
    columns = [name for name in names if name in ALWAYS or any(line.get(name) for line in lines)]
    texts = sum(name in ("source", "done", "at") for name in columns)
    return table(columns, [[line.get(name, "") for name in columns] for line in lines], left=texts)


def line_of(state: BuildState, some: tuple[str, ...], name: str) -> dict[str, str]:
    """Return the cells of a source, or of several sources together, by the names of the columns."""
    trails = [state.lines_of(source) for source in some]
    first = total(trail[0][1].out for trail in trails if trail)
    left = total(trail[-1][1].out if trail else documents_read_by(state.rows["ingest"].cells[source])
                 for source, trail in zip(some, trails, strict=True))  # fmt: skip
    line = {"source": name, **({} if state.outcome == "complete" else progress_of(state, some))}
    line |= {"documents": number(left.documents), "tokens": number(left.tokens)}
    line["kept"] = kept_share(left.tokens, first.tokens) if all(trails) else ""
    for stage, row in state.rows.items():
        if row.step.sources:
            removed = total(receipt.removed for trail in trails for name, receipt in trail if name == stage)
            line[f"removed by {stage}"] = number(removed.documents)
    line["tokens cut"] = number(total(receipt.cut for trail in trails for _, receipt in trail).tokens)
    line["set aside"] = number(total(r.set_aside for trail in trails for _, r in trail).documents)
    return line


def progress_of(state: BuildState, some: tuple[str, ...]) -> dict[str, str]:
    """Return the cells with the finished part of the sources' stages and the names of the running stages."""
    cells = [
        (name, row.cells[source])
        for name, row in state.rows.items()
        if row.step.sources
        for source in some
        if source in row.cells
    ]
    done = sum(cell.fraction() for _, cell in cells) / len(cells)
    at = dict.fromkeys(name for name, cell in cells if cell.total and not cell.receipt)
    return {"done": f"{bar(done, SHORT_BAR)} {percent(done)}", "at": ", ".join(at)}


def number(count: int) -> str:
    return f"{count:,}" if count else ""


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def kept_share(part: int, whole: int) -> str:
    """Return the share of a whole that is kept, with a mark if it is less than half."""
    return f"{LOST} {share(part, whole)}" if 2 * part < whole else share(part, whole)
