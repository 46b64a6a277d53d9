"""What builds of a corpus have taken, until it was published: for the report, and for those who plan another."""

from contextlib import suppress

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.planning.build_history import digest_of_manifest
from zyda_flows.tasks.planning.estimates import PLAN, Plan
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, read_record, write_record

SPENDING = "history/spent.json"


class Spending(Record):
    """What the flow runs took that made what is published, as far as they came to an end.

    manifest: the SHA-256 of what is published, or nothing where that has not been reached. seconds: from start to
    end, of all runs. threads: of the last run. flow: processor seconds of the process that ran the flow.
    """

    manifest: str = ""
    recipe: str = ""
    runs: int = 0
    seconds: float = 0.0
    threads: int = 0
    flow: float = 0.0
    stages: dict[str, Spent] = {}

    def __add__(self, run: "Spending") -> "Spending":
        names = dict.fromkeys([*self.stages, *run.stages])
        return run.model_copy(
            update={
                "runs": self.runs + run.runs,
                "seconds": self.seconds + run.seconds,
                "flow": self.flow + run.flow,
                "stages": {
                    name: self.stages.get(name, Spent()) + run.stages.get(name, Spent()) for name in names
                },
            }
        )

    @property
    def total(self) -> Spent:
        return sum(self.stages.values(), Spent())


def last_spending(folder: Folder) -> Spending | None:
    """Return what the builds took that made what is published, or that have not come so far."""
    with suppress(Damaged):  # nothing is made from it
        return read_record(folder, SPENDING, Spending)
    return None


def spending_of_published(folder: Folder) -> Spending | None:
    """Return what the builds took that made what is published, where somebody noted it."""
    spending = last_spending(folder)
    return spending if spending and spending.manifest == digest_of_manifest(folder) else None


def planned_for(folder: Folder, spending: Spending | None) -> Plan | None:
    """Return the plan of the builds that took so much: the last one for their recipe."""
    with suppress(Damaged):  # nothing is made from it
        plan = read_record(folder, PLAN, Plan)
        if plan and spending and plan.recipe == spending.recipe:
            return plan
    return None


def keep_spending(folder: Folder, run: Spending, *, is_over: bool) -> None:
    """Add what a run took to what runs before it took for the same corpus. is_over: whether it was published."""
    before, published = last_spending(folder), ""
    if is_over and published_manifest(folder) is not None:
        published = digest_of_manifest(folder)
    if before and before.manifest:  # what was published then took that; this run is of another
        if before.manifest == published:
            return
        before = None
    run = run.model_copy(update={"manifest": published})
    write_record(folder, SPENDING, before + run if before else run)
