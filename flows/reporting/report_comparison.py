"""The section of the report that compares a build with the previous build: recipe, software, files, documents."""

from collections.abc import Iterator

from zyda_flows.flows.reporting.report_head import as_yaml
from zyda_flows.flows.reporting.report_parts import Section, Table, Text, count, with_sign
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.planning.build_history import Build, Examples
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.storage.counts import Counts

COLUMN_NAMES = [
    "",
    *(f"{unit} {which}" for unit in ("documents", "tokens") for which in ("before", "now", "change")),
]
RECIPE_LINES = 200


def comparison(findings: Findings) -> Iterator[Section]:
    """Yield the comparison of a build with the previous build, if that is recorded."""
    before, build = findings.before, findings.build
    if before is None:
        return
    notes = [f"The previous build is that of {before.time.replace('T', ' ').replace('+00:00', '')} UTC."]
    section = Section("Changes since the previous build", notes)
    remaining = RemainingDocuments(before.ledger), RemainingDocuments(findings.ledger)
    section.tables = [totals(*remaining), by_source(*remaining)]
    if build is not None and build.number == before.number + 1:
        section.tables += [table for table in [files(build)] if table.rows]
        notes += changed_software(before, build)
    elif build is not None:
        missing = build.number - before.number - 1
        notes.append(
            f"The records of {count(missing)} builds between the two cannot be read: it is unknown which files "
            "changed."
        )
    if lines := changed_recipe(before, findings):
        section.texts.append(Text("Changes of the recipe", (("", "\n".join(lines)),), is_open=True))
    yield section


def changed_recipe(before: Build, findings: Findings) -> tuple[str, ...]:
    texts = as_yaml(before.recipe), as_yaml(findings.manifest.recipe)
    return diff(*texts, most=RECIPE_LINES)[2:]


def changed_software(before: Build, build: Build) -> list[str]:
    """Return a sentence about software with another version, if there is any."""
    changes = [
        f"{name} {before.software.get(name, '(none)')}, now {version}"
        for name, version in build.software.items()
        if before.software.get(name) != version
    ]
    return [f"Software: {', '.join(changes)}."] if changes else []


class RemainingDocuments:
    """Documents and tokens after each stage of a ledger, by source and in all."""

    def __init__(self, ledger: Ledger) -> None:
        self.stages, self.sources = ledger.stages, ledger.sources
        self.removing = {line.stage for line in ledger.lines if line.removed.documents}
        self.counts = {(line.stage, line.source): line.out for line in ledger.lines}
        self.totals = {stage: ledger.of(stage) for stage in ledger.stages}

    def after(self, stage: str, source: str | None) -> Counts | None:
        """Return the counts after a stage, or None if the build has no such stage or source."""
        return self.totals.get(stage) if source is None else self.counts.get((stage, source))

    def ends(self, source: str | None) -> tuple[Counts | None, Counts | None]:
        return self.after(self.stages[0], source), self.after(self.stages[-1], source)


def totals(before: RemainingDocuments, now: RemainingDocuments) -> Table:
    """Compare the counts of all sources."""
    return Table("All sources", COLUMN_NAMES, compared_rows(before, now, source=None))


def by_source(before: RemainingDocuments, now: RemainingDocuments) -> Table:
    """Compare the counts of each source."""
    sources = dict.fromkeys([*now.sources, *before.sources])
    rows = [
        [f"{source}, {row[0]}", *row[1:]] for source in sources for row in compared_rows(before, now, source)
    ]
    return Table("By source", COLUMN_NAMES, rows)


def compared_rows(before: RemainingDocuments, now: RemainingDocuments, source: str | None) -> list[list[str]]:
    """Compare the counts at the start, after each stage that removed documents in either build, and at the end."""
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
    """Compare the counts at a place. absent: count of a build without the place; None: no comparison."""
    cells = [place]
    for unit in ("documents", "tokens"):
        old, new = (None if counts is None else getattr(counts, unit) for counts in (before, now))
        cells += ["" if old is None else count(old), "" if new is None else count(new)]
        old, new = (absent if value is None else value for value in (old, new))
        cells.append("" if old is None or new is None else with_sign(new - old))
    return cells


def files(build: Build) -> Table:
    """List the added, changed and removed files of each source, with examples."""
    rows = [
        [change.source, *(map(listed, (change.added, change.changed, change.removed)))]
        for change in build.files
    ]
    return Table("Files of the sources", ["", "added", "changed", "removed"], rows, is_of_text=True)


def listed(files: Examples) -> str:
    """Return the number of files, and the first of them."""
    if not files.count:
        return "0"
    rest = [f"and {files.count - len(files.examples):,} more"] if files.count > len(files.examples) else []
    return f"{files.count:,}: {', '.join([*files.examples, *rest])}"
