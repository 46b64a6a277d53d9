"""A stage: a step of a build, as an object.

    @stage("minhash", key, enabled=takes_part)
    def minhash(dedup_round: Round, trail: Trail) -> Manifest:

The function takes its subject, which is a recipe or a round of a recipe (`tasks.recipe.rounds`), and the results of
earlier stages. It returns a manifest of its artifacts. Its key is a hash of all that can change the manifest. If a
manifest with this key exists, the stage is finished, whichever machine ran it. `Stage.task` is the Prefect task of
the stage, with retries and a cache of receipts by the same key. A direct call runs the stage without Prefect.
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
from zyda_flows.tasks.storage.artifacts import Manifest, Receipt
from zyda_flows.tasks.storage.finished import finish_stage, finished_stage
from zyda_flows.tasks.storage.records import digest_of, pack

# The published columns of every removed document, for all stages.
COLUMNS_OF_REMOVED = ("doc_id", "source", "stage", "reason", "n_tokens")


class OfSource(Protocol):
    """An input that belongs to one source: its plan, or its trail."""

    @property
    def source(self) -> str: ...


# First argument of a call: a source's plan or trail; the plans, or the receipts by stage, of a group of sources;
# or, for a stage about the corpus, its first input for all groups.
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

    name: name of the stage in its manifests, its tasks and the ledger. run: its function, which takes its subject
    and the inputs. key: takes the same arguments, and returns a hash of all that can change the manifest.

    scope: whether the stage runs for each source, or once for the whole corpus. inputs: the names of the function's
    arguments after the subject:

    - `plan` (of a source, from `prepare`) or `trail` (of a source: the receipts of earlier stages);
    - `trails` (of all sources), `sources` (all plans), `references` (the corpora that a round is `against`);
    - any earlier stage of the same round: its receipt, or the receipts of all sources; `a|b` for the stage of two
      that the round has.

    extends_trail: whether later stages see its verdicts. enabled: whether a recipe runs the stage for a source;
    for a stage about the corpus, the source is "". reasons: its reasons to remove documents, each with a sentence
    about such a document. evidence: the columns of its verdicts that are published for removed documents. Reasons
    and evidence may be functions of the subject. published_as: for a stage about the corpus, the folder of its
    published tables. cost: the resources that `zyda plan` expects for its calls.

    Raises ValueError if a column of the evidence is already published for every removed document.
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
        """Run the stage unless it is finished; return its receipt, or the receipts of a group of sources."""
        firsts = self.firsts(subject, first)
        if self.scope == "corpus" or not isinstance(first, list):
            return self.receipt_for(subject, firsts[0], *inputs)
        return over_sources(lambda plan_or_trail: self.receipt_for(subject, plan_or_trail, *inputs), firsts)

    def firsts(self, subject: Subject, first: First) -> list[Any]:
        """Return the first input of each run of a call: of the corpus, or of each source that enables the stage."""
        if self.scope == "corpus":
            return [self.corpus_input(first)]
        if not isinstance(first, list):
            return [first]
        inputs: list[Any] = trails_of([first]) if isinstance(first[0], list) else first
        return [plan_or_trail for plan_or_trail in inputs if self.enabled(subject, plan_or_trail.source)]

    def receipt_for(self, subject: Subject, *inputs: Any) -> Receipt:
        """Return the receipt for a source or for the corpus; run the function if its manifest does not exist."""
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
        # The manifest is written after its artifacts, so an existing manifest means that the stage is finished.
        receipt = finish_stage(subject.folder, manifest, key)
        if TaskRunContext.get():
            get_run_logger().info("%s", receipt.sentence())
        return receipt

    def corpus_input(self, first: Any) -> list[Trail] | list[Receipt] | Receipt:
        """Return the first input of a stage about the corpus from the inputs of all groups of sources."""
        if self.inputs[0] == "trails":
            return trails_of(first)
        return receipts_of(first) if isinstance(first, list) else first

    def key_of(self, subject: Subject, *inputs: Any) -> str:
        """Return the key of the manifest for a source or for the corpus."""
        own, evidence = self.key(subject, *inputs), self.evidence_of(subject)
        return own if evidence is None else digest_of([own, pack(evidence)])

    def cache_key(self, subject: Subject, first: First, *inputs: Any) -> str:
        """Return Prefect's cache key for the arguments of a call: a hash of the keys of its manifests."""
        keys = [self.key_of(subject, first_input, *inputs) for first_input in self.firsts(subject, first)]
        return keys[0] if len(keys) == 1 else digest_of(keys)

    def reasons_of(self, subject: Subject) -> Reasons:
        return self.reasons(subject) if callable(self.reasons) else self.reasons or {}

    def evidence_of(self, subject: Subject) -> pa.Schema | None:
        return self.evidence(subject) if callable(self.evidence) else self.evidence

    @cached_property
    def task(self) -> Task[..., Any]:
        """The Prefect task of the stage, with its retries and its cache."""

        @wraps(self.run)  # the dashboard shows the parameters of `run`
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
        """Return a readable name for a task run: `minhash peps`, `minhash arxiv to wiki (12 sources)`."""
        if TaskRunContext.get() is None:
            return self.name
        subject, first, *_ = task_run.parameters.values()
        name = str(subject.name_of(self.name))
        if self.scope == "corpus":
            return name
        group: Any = first if isinstance(first, list) else [first]
        if isinstance(group[0], State):
            group = group[0].result(raise_on_failure=False)
        named = [str(input_.source) for input_ in group if hasattr(input_, "source")]
        sources = [source for source in named if self.enabled(subject, source)]
        if len(sources) > 1:
            return f"{name} {sources[0]} to {sources[-1]} ({len(sources)} sources)"
        return " ".join([name, *sources])


def stage(name: str, key: Callable[..., str], **options: Any) -> Callable[[Callable[..., Manifest]], Stage]:
    """Return a decorator that makes a function a stage. options: the other fields of `Stage`."""

    def decorate(run: Callable[..., Manifest]) -> Stage:
        return Stage(name, run, key, **options)

    return decorate


def check_evidence(name: str, evidence: pa.Schema) -> None:
    if clashing := [field.name for field in evidence if field.name in COLUMNS_OF_REMOVED]:
        raise ValueError(
            f"stage {name}: evidence cannot be called {clashing[0]}: removed/ has a column of that name already"
        )


def check_manifest(manifest: Any, names: tuple[str, str], source: str | None) -> None:
    """Raise TypeError unless a stage returned its own manifest. names: of the stage, and in its round."""
    if not isinstance(manifest, Manifest):
        raise TypeError(f"stage {names[0]} has to return a Manifest, not {type(manifest).__name__}")
    if manifest.stage not in names or manifest.source != source:
        raise TypeError(
            f"stage {names[0]} of source {source} returned the manifest of stage {manifest.stage} of source "
            f"{manifest.source}"
        )
