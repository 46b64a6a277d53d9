"""The time and storage of the builds of a corpus, for the report and for later plans."""

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
    """The cost of the flow runs that made the published corpus, as far as they ended.

    manifest: the SHA-256 of the published manifest, or "" if nothing is published yet. seconds: of all runs, from
    start to end. threads: of the last run. flow: processor seconds of the process of the flow.
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
    """Return the cost of the builds of the published corpus, or of builds that have not published yet."""
    with suppress(Damaged):  # nothing is made from it
        return read_record(folder, SPENDING, Spending)
    return None


def spending_of_published(folder: Folder) -> Spending | None:
    """Return the cost of the builds of the published corpus, or None if it is not recorded."""
    spending = last_spending(folder)
    return spending if spending and spending.manifest == digest_of_manifest(folder) else None


def planned_for(folder: Folder, spending: Spending | None) -> Plan | None:
    """Return the last plan for the recipe of the builds with this cost."""
    with suppress(Damaged):  # nothing is made from it
        plan = read_record(folder, PLAN, Plan)
        if plan and spending and plan.recipe == spending.recipe:
            return plan
    return None


def keep_spending(folder: Folder, run: Spending, *, is_over: bool) -> None:
    """Add the cost of a run to that of earlier runs for the same corpus. is_over: whether it has published."""
    before, published = last_spending(folder), ""
    if is_over and published_manifest(folder) is not None:
        published = digest_of_manifest(folder)
    if before and before.manifest:  # that cost belongs to an earlier published corpus
        if before.manifest == published:
            return
        before = None
    run = run.model_copy(update={"manifest": published})
    write_record(folder, SPENDING, before + run if before else run)
