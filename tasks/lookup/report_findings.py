"""The records of the contents of the report."""

from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from zyda_flows.tasks.accounts.agreed import ScoreAgreement
from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.accounts.components import CountsBySource
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.lookup.cluster_stats import ClusterStats, ClusterSummary
from zyda_flows.tasks.lookup.document_reader import DocumentPlace
from zyda_flows.tasks.lookup.document_stats import DocumentStats
from zyda_flows.tasks.lookup.judge_findings import JudgeFindings
from zyda_flows.tasks.lookup.pair_findings import PairFindings
from zyda_flows.tasks.lookup.passage_stats import ListedPassage, PassageStats
from zyda_flows.tasks.planning.bandings import TriedBandings
from zyda_flows.tasks.planning.build_history import Build
from zyda_flows.tasks.planning.estimates import Plan
from zyda_flows.tasks.planning.spending import Spending
from zyda_flows.tasks.publish.audits import (
    AuditedPair,
    Histogram,
    SharesBelow,
)
from zyda_flows.tasks.recipe.dedup import Dedup


@dataclass(frozen=True)
class AuditFindings:
    """The result of an audit of removed near-duplicates; see `tasks.publish.audits`."""

    headline: AuditCounts
    by_source: list[SharesBelow]
    by_length: list[tuple[int, float]]
    worst: list[AuditedPair]
    similarities: dict[str, Histogram]
    lengths: Histogram


@dataclass(frozen=True)
class RuleFindings:
    """Documents that a rule removed, by source. also: how many of them another rule would have removed, too."""

    rule: str
    documents: dict[str, int]
    also: int


@dataclass(frozen=True)
class ShownCluster:
    """One of the largest clusters: the beginning of its first text, and the differences of its last text."""

    cluster: ClusterSummary
    first: DocumentPlace
    last: DocumentPlace
    beginning: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownPassage:
    """A repeated passage that is listed: its document, its owner, and the beginning of its text."""

    passage: ListedPassage
    place: DocumentPlace
    owner: DocumentPlace
    beginning: str


@dataclass(frozen=True)
class PassageFindings:
    """The repeated passages. names: what each part of `passages` counts. sentences: about what each part cuts."""

    stats: PassageStats
    names: list[str]
    sentences: list[str]
    longest: list[ShownPassage]
    most_shared: list[ShownPassage]


@dataclass(frozen=True)
class ShownAgreement:
    """The agreement of a score, by size of clusters, AGREEMENT, with the texts of the widest cluster.

    low, high: the documents with the lowest and the highest score. beginning: of the first text. lines: the
    differences of the other.
    """

    agreement: ScoreAgreement
    by_size: pa.Table
    low: DocumentPlace
    high: DocumentPlace
    beginning: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoundFindings:
    """The results of a round of deduplication. clusters, audit, overlap, pairs: None if they are not published."""

    number: int
    dedup: Dedup
    clusters: ClusterStats | None
    largest: list[ShownCluster]
    audit: AuditFindings | None
    overlap: Overlap | None
    agreement: tuple[ShownAgreement, ...] = ()
    pairs: PairFindings | None = None


@dataclass
class Findings:
    """The contents of the report.

    manifest: of the corpus. time: when it was written. build, before: the records of the last build and of the
    build before it, if there are any. spending: the resources that the builds used. plan: the estimate for them.
    rules: the rules that removed documents, in their order. documents: the lengths and labels of the published
    documents, with the labels in the clusters of round `labels_round`. places: the published folders. tried: the
    removals that other bandings would make. components: for each source with components, the counts of its
    documents. passages: the repeated passages; None if there are none. judges: their curves, thresholds and pairs;
    None if no judge judged a document.
    """

    manifest: Published
    time: datetime
    build: Build | None
    before: Build | None
    spending: Spending | None
    plan: Plan | None
    rounds: list[RoundFindings]
    rules: list[RuleFindings]
    documents: DocumentStats
    labels_round: int
    places: list[str] = field(default_factory=list)
    tried: TriedBandings | None = None
    components: CountsBySource = field(default_factory=dict)
    passages: PassageFindings | None = None
    judges: JudgeFindings | None = None

    @property
    def ledger(self) -> Ledger:
        return self.manifest.ledger

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of the sources in doc_ids."""
        return {origin.source: origin.number for origin in self.manifest.made_of}
