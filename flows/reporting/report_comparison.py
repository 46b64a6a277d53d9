"""What is not as in the build before: the recipe and the software, the sources' files, documents and tokens."""

from collections.abc import Iterator

from zyda_flows.flows.reporting.report_head import as_yaml
from zyda_flows.flows.reporting.report_parts import Section, Table, Text, count, with_sign
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.planning.build_history import Build, Examples
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.storage.artifacts import Counts

NAMES = [
    "",
    *(f"{unit} {which}" for unit in ("documents", "tokens") for which in ("before", "now", "change")),
]
RECIPE_LINES = 200


def comparison(findings: Findings) -> Iterator[Section]:
    """Yield the comparison of a build with the build before, if that is recorded."""
    before, build = findings.before, findings.build
    if before is None:
        return
    notes = [f"The build before is that of {before.time.replace('T', ' ').replace('+00:00', '')} UTC."]
    section = Section("Since the build before", notes)
    left = Remaining(before.ledger), Remaining(findings.ledger)
    section.tables = [totals(*left), by_source(*left)]
    if build is not None and build.number == before.number + 1:
        section.tables += [table for table in [files(build)] if table.rows]
        notes += changed_software(before, build)
    elif build is not None:
        missing = build.number - before.number - 1
        notes.append(
            f"Of {count(missing)} builds between the two the record cannot be read, so that it is not known which "
            "files changed."
        )
    if lines := changed_recipe(before, findings):
        section.texts.append(Text("What changed in the recipe", (("", "\n".join(lines)),), is_open=True))
    yield section


def changed_recipe(before: Build, findings: Findings) -> tuple[str, ...]:
    texts = as_yaml(before.recipe), as_yaml(findings.manifest.recipe)
    return diff(*texts, most=RECIPE_LINES)[2:]


def changed_software(before: Build, build: Build) -> list[str]:
    """Say which software has another version."""
    changes = [
        f"{name} {before.software.get(name, '(none)')} became {version}"
        for name, version in build.software.items()
        if before.software.get(name) != version
    ]
    return [f"Software: {', '.join(changes)}."] if changes else []


class Remaining:
    """What was left after each stage of a ledger, of each source and of all, found at once."""

    def __init__(self, ledger: Ledger) -> None:
        self.stages, self.sources = ledger.stages, ledger.sources
        self.removing = {line.stage for line in ledger.lines if line.removed.documents}
        self.counts = {(line.stage, line.source): line.out for line in ledger.lines}
        self.of_all = {stage: ledger.of(stage) for stage in ledger.stages}

    def after(self, stage: str, source: str | None) -> Counts | None:
        """Return what a stage left, or None where the build had no such stage or source."""
        return self.of_all.get(stage) if source is None else self.counts.get((stage, source))

    def ends(self, source: str | None) -> tuple[Counts | None, Counts | None]:
        return self.after(self.stages[0], source), self.after(self.stages[-1], source)


def totals(before: Remaining, now: Remaining) -> Table:
    """Compare what was left of all sources."""
    return Table("All sources", NAMES, compared_rows(before, now, None))


def by_source(before: Remaining, now: Remaining) -> Table:
    """Compare what was left of each source."""
    sources = dict.fromkeys([*now.sources, *before.sources])
    rows = [
        [f"{source}, {row[0]}", *row[1:]] for source in sources for row in compared_rows(before, now, source)
    ]
    return Table("By source", NAMES, rows)


def compared_rows(before: Remaining, now: Remaining, source: str | None) -> list[list[str]]:
    """Compare what was left at the start, after each stage that let documents go then or now, and at the end."""
    (old_start, old_end), (start, end) = before.ends(source), now.ends(source)
    stages = dict.fromkeys([*now.stages, *before.stages])
    between = [
        comparison_row(f"after {stage}", before.after(stage, source), now.after(stage, source))
        for stage in stages
        if stage in before.removing | now.removing
    ]
    ends = comparison_row("start", old_start, start, absent=0), comparison_row("end", old_end, end, absent=0)
    return [ends[0], *between, ends[1]]


def comparison_row(
    place: str, before: Counts | None, now: Counts | None, absent: int | None = None
) -> list[str]:
    """Compare what was left at a place. absent: what a build without the place is taken to have, if anything."""
    cells = [place]
    for unit in ("documents", "tokens"):
        old, new = (None if counts is None else getattr(counts, unit) for counts in (before, now))
        cells += ["" if old is None else count(old), "" if new is None else count(new)]
        old, new = (absent if value is None else value for value in (old, new))
        cells.append("" if old is None or new is None else with_sign(new - old))
    return cells


def files(build: Build) -> Table:
    """List how many files of each source came, changed and went, and the first of them."""
    rows = [
        [change.source, *(examples_of(some) for some in (change.added, change.changed, change.removed))]
        for change in build.files
    ]
    return Table("Files of the sources", ["", "came", "changed", "went"], rows, is_of_text=True)


def examples_of(some: Examples) -> str:
    if not some.count:
        return "0"
    rest = [f"and {some.count - len(some.examples):,} more"] if some.count > len(some.examples) else []
    return f"{some.count:,}: {', '.join([*some.examples, *rest])}"
