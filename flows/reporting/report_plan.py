"""The section of the report about the costs of a build, compared with its plan."""

from collections.abc import Iterator

from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.planning.estimates import Plan
from zyda_flows.tasks.planning.spending import Spending
from zyda_flows.tasks.spent import Spent

COLUMN_NAMES = [
    "",
    "jobs",
    "core seconds",
    "peak memory, MiB",
    "read, MiB",
    "written, MiB",
    "files",
    "requests",
]
MIB = 1 << 20


def taken(findings: Findings) -> Iterator[Section]:
    """Yield the time, memory and storage of the build of the published corpus, if they are recorded."""
    spending, plan = findings.spending, findings.plan
    if spending is None:
        return
    notes = [how_long(spending, plan)]
    names = list(spending.stages)
    if plan:
        notes.append("In brackets: the estimates of zyda plan before the build.")
        names += [stage.stage for stage in plan.stages if stage.stage not in spending.stages]
    planned = {stage.stage: stage.spent for stage in plan.stages} if plan else {}
    rows = [row(name, spending.stages.get(name, Spent()), planned.get(name), plan) for name in names]
    total = row("all", spending.total, plan.total if plan else None, plan)
    yield Section(
        "Costs of the build", notes, tables=[Table("By stage", COLUMN_NAMES, [*rows, total], has_total=True)]
    )


def how_long(spending: Spending, plan: Plan | None) -> str:
    """Return the time of the build, the number of its runs, and the planned time."""
    runs = "one run" if spending.runs == 1 else f"{count(spending.runs)} runs"
    sentence = (
        f"{count(round(spending.seconds))} seconds in {runs} on {count(spending.threads)} cores, and "
        f"{count(round(spending.flow))} core seconds of the flow itself."
    )
    if plan is None:
        return sentence
    low, high = (count(round(seconds)) for seconds in (plan.seconds.low, plan.seconds.high))
    where = "on as many" if plan.workers == spending.threads else f"on {count(plan.workers)} workers"
    return f"{sentence} The plan was {low} to {high} seconds {where}."


def row(name: str, spent: Spent, planned: Spent | None, plan: Plan | None) -> list[str]:
    """Return the costs of a stage, each with the planned costs in brackets."""
    cells = values(spent)
    if plan is None:
        return [name, *cells]
    return [
        name,
        *(f"{cell} ({expected})" for cell, expected in zip(cells, values(planned or Spent()), strict=True)),
    ]


def values(spent: Spent) -> list[str]:
    mib = [f"{size / MIB:,.1f}" for size in (spent.peak, spent.inputs + spent.read, spent.written)]
    requests = spent.input_requests + spent.requests
    return [count(spent.calls), f"{spent.cpu:,.1f}", *mib, count(spent.files), count(requests)]
