"""A stage: one step of a build, as one object.

    @stage("minhash", key, enabled=takes_part)
    def minhash(dedup_round: Round, trail: Trail) -> Manifest:

The function takes its subject, a recipe or, where it runs in each, a round of one (`tasks.recipe.rounds`), and
what earlier stages left, and returns a manifest of what it wrote. Its key is a hash of all that can change the
manifest. Where a manifest of this key is there, the stage is finished, on whichever machine that was. `Stage.task`
is Prefect's task for it, which retries it and caches its receipt by the same key; called directly, a stage runs
here, without Prefect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Literal, Protocol

import pyarrow as pa
from prefect import Task
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.logging import get_run_logger
from prefect.runtime import task_run

from zyda_flows.tasks.errors import without_causes
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.stage.cost import BY_SHARD, Cost
from zyda_flows.tasks.stage.fan_out import over_sources, report_spent
from zyda_flows.tasks.stage.groups import receipts_of, trails_of
from zyda_flows.tasks.stage.prefect_cache import SealedReceipts
from zyda_flows.tasks.stage.prefect_tasks import RETRYING
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Manifest, Receipt, finish_stage, finished_stage
from zyda_flows.tasks.storage.records import digest_of, pack

# What is published of every removed document, whichever stage removed it.
COLUMNS_OF_REMOVED = ("doc_id", "source", "stage", "reason", "n_tokens")


class OfSource(Protocol):
    """What is of one source: its plan, or its trail."""

    @property
    def source(self) -> str: ...


# What a call begins with: a source's plan or trail; the plans, or the receipts by stage, of a group of sources; or,
# for a stage about the corpus, what its first input is of all groups.
First = OfSource | list[Any]

Enabled = Callable[[Any, str], bool]
Reasons = dict[str, str]
ReasonsOf = Callable[[Any], Reasons]
EvidenceOf = Callable[[Any], pa.Schema | None]
StageScope = Literal["source", "corpus"]


def always(_: Subject, __: str) -> bool:
    """Enable a stage for every source of every recipe."""
    return True


@dataclass(frozen=True)
class Stage:
    """One step of a build.

    name: what its manifests, its tasks and the ledger call it. run: its function, which takes its subject and
    the inputs. key: takes the same arguments, and returns a hash of all that can change the manifest.

    scope: whether it runs for each source, or once for the whole corpus. inputs: the names of what the function
    takes after that:

    - `plan` (of a source, from `prepare`) or `trail` (of a source: the receipts of stages before this one);
    - `trails` (of all sources), `sources` (all plans), `references` (the corpora that a round is `against`);
    - any stage before it in the same round: its receipt, or the receipts of all sources.

    extends_trail: whether the stages after it see its verdicts. enabled: whether a recipe has it run for a source;
    of a stage about the corpus, the source is "". reasons: why it removes documents, each with a sentence about
    such a document. evidence: the columns of its verdicts that are published of removed documents. Both may be
    functions of its subject. published_as: of a stage about the corpus, the folder in which its tables stand.
    cost: what `zyda plan` expects its calls to take.

    Raises ValueError where a column of its evidence is published of every removed document already.
    """

    name: str
    run: Callable[..., Manifest]
    key: Callable[..., str]
    scope: StageScope = "source"
    inputs: tuple[str, ...] = ("trail",)
    extends_trail: bool = True
    enabled: Enabled = always
    reasons: Reasons | ReasonsOf | None = None
    evidence: pa.Schema | EvidenceOf | None = None
    published_as: str = ""
    cost: Cost = BY_SHARD

    def __post_init__(self) -> None:
        if isinstance(self.evidence, pa.Schema):
            check_evidence(self.name, self.evidence)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "task"}

    def __call__(self, subject: Subject, first: First, *inputs: Any) -> Receipt | list[Receipt]:
        """Run the stage where it is not finished: return its receipt, or those of a group of sources."""
        firsts = self.firsts(subject, first)
        if self.scope == "corpus" or not isinstance(first, list):
            return self.receipt_for(subject, firsts[0], *inputs)
        return over_sources(lambda one: self.receipt_for(subject, one, *inputs), firsts)

    def firsts(self, subject: Subject, first: First) -> list[Any]:
        """Return the first input of each run of a call: one for the corpus, or for each source that enables it."""
        if self.scope == "corpus":
            return [self.corpus_input(first)]
        if not isinstance(first, list):
            return [first]
        of_sources: list[Any] = trails_of([first]) if isinstance(first[0], list) else first
        return [one for one in of_sources if self.enabled(subject, one.source)]

    def receipt_for(self, subject: Subject, *inputs: Any) -> Receipt:
        """Return the receipt for one source or for the corpus; run the function where there is no manifest."""
        name, key = subject.name_of(self.name), self.key_of(subject, *inputs)
        source = None if self.scope == "corpus" else inputs[0].source
        if receipt := finished_stage(subject.folder, name, source, key):
            return receipt
        manifest = self.run(subject, *inputs)
        check_manifest(manifest, (self.name, name), source)
        manifest = manifest.model_copy(update={"stage": name})
        if (evidence := self.evidence_of(subject)) is not None:
            check_evidence(self.name, evidence)
            manifest = manifest.model_copy(update={"evidence": pack(evidence)})
        # The manifest is written after all that it lists: where it is, the stage is finished.
        receipt = finish_stage(subject.folder, manifest, key)
        if TaskRunContext.get():
            get_run_logger().info("%s", receipt.sentence())
        return receipt

    def corpus_input(self, first: Any) -> list[Trail] | list[Receipt] | Receipt:
        """Return the first input of a stage about the corpus, from that of all groups of sources."""
        if self.inputs[0] == "trails":
            return trails_of(first)
        return receipts_of(first) if isinstance(first, list) else first

    def key_of(self, subject: Subject, *inputs: Any) -> str:
        """Return the key of the manifest for one source or for the corpus."""
        own, evidence = self.key(subject, *inputs), self.evidence_of(subject)
        return own if evidence is None else digest_of([own, pack(evidence)])

    def cache_key(self, subject: Subject, first: First, *inputs: Any) -> str:
        """Return Prefect's cache key for the arguments of a call: a hash of the keys of its manifests."""
        keys = [self.key_of(subject, one, *inputs) for one in self.firsts(subject, first)]
        return keys[0] if len(keys) == 1 else digest_of(keys)

    def reasons_of(self, subject: Subject) -> Reasons:
        return self.reasons(subject) if callable(self.reasons) else self.reasons or {}

    def evidence_of(self, subject: Subject) -> pa.Schema | None:
        return self.evidence(subject) if callable(self.evidence) else self.evidence

    @cached_property
    def task(self) -> Task[..., Any]:
        """Prefect's task, with its retries and its cache."""

        @wraps(self.run)  # whose parameters the dashboard shows
        def call(subject: Subject, first: Any, *inputs: Any) -> Any:
            with without_causes():
                result = self(subject, first, *inputs)
            report_spent(subject.name_of(self.name))
            return result

        return Task(
            call,
            name=self.name,
            task_run_name=self.run_name,
            cache_key_fn=lambda _, parameters: self.cache_key(*parameters.values()),
            persist_result=True,
            result_serializer=SealedReceipts(),
            **RETRYING,
        )

    def run_name(self) -> str:
        """Name a task run as a person reads it: `minhash peps`, `minhash arxiv to wiki (12 sources)`."""
        if TaskRunContext.get() is None:
            return self.name
        subject, first, *_ = task_run.parameters.values()
        name = str(subject.name_of(self.name))
        if self.scope == "corpus":
            return name
        group: Any = first if isinstance(first, list) else [first]
        if isinstance(group[0], State):
            group = group[0].result(raise_on_failure=False)
        named = [str(one.source) for one in group if hasattr(one, "source")]
        sources = [source for source in named if self.enabled(subject, source)]
        if len(sources) > 1:
            return f"{name} {sources[0]} to {sources[-1]} ({len(sources)} sources)"
        return " ".join([name, *sources])


def stage(name: str, key: Callable[..., str], **options: Any) -> Callable[[Callable[..., Manifest]], Stage]:
    """Make a function a stage. options: the other fields of `Stage`."""

    def decorate(run: Callable[..., Manifest]) -> Stage:
        return Stage(name, run, key, **options)

    return decorate


def check_evidence(name: str, evidence: pa.Schema) -> None:
    if clashing := [field.name for field in evidence if field.name in COLUMNS_OF_REMOVED]:
        raise ValueError(
            f"stage {name}: evidence cannot be called {clashing[0]}: removed/ has a column of that name already"
        )


def check_manifest(manifest: Any, names: tuple[str, str], source: str | None) -> None:
    """Raise TypeError where what a stage returned is not its own manifest. names: its own, and of its round."""
    if not isinstance(manifest, Manifest):
        raise TypeError(f"stage {names[0]} has to return a Manifest, not {type(manifest).__name__}")
    if manifest.stage not in names or manifest.source != source:
        raise TypeError(
            f"stage {names[0]} of source {source} returned the manifest of stage {manifest.stage} of source "
            f"{manifest.source}"
        )
