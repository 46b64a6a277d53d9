"""What the report shows, counted from what is published and from the record of the builds."""

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.accounts.components import COMPONENTS_FILE, ComponentCounts, accounts_of
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.likeness import AUDIT
from zyda_flows.tasks.dedup.overlap import OVERLAP
from zyda_flows.tasks.errors import Damaged, Denied, ZydaError
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.lookup.cluster_stats import ClusterStats, LargeCluster, cluster_stats
from zyda_flows.tasks.lookup.document_reader import DocumentReader, Place
from zyda_flows.tasks.planning.bandings import TriedBandings, tried_before
from zyda_flows.tasks.planning.build_history import Build, last_builds, time_of_manifest
from zyda_flows.tasks.planning.estimates import Plan
from zyda_flows.tasks.planning.spending import Spending, planned_for, spending_of_published
from zyda_flows.tasks.publish.audits import (
    Histogram,
    Pair,
    Shares,
    by_length,
    by_similarity,
    by_source,
    last_audit,
    lengths_of_removed,
    worst_pairs,
)
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.quality.mixed_labels import MixedLabels
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ROUNDS, MinHashRound
from zyda_flows.tasks.recipe.rounds import Round, rounds_of
from zyda_flows.tasks.storage.artifacts import Manifest

LENGTH_BINS = np.logspace(0, 6, 61)  # tokens
BEGINNING = 400  # characters of a text that are shown
DIFF_LINES = 40


@dataclass(frozen=True)
class AuditFindings:
    """What an audit says of the removed near-duplicates; see `tasks.publish.audits`."""

    headline: AuditCounts
    by_source: list[Shares]
    by_length: list[tuple[int, float]]
    worst: list[Pair]
    similarities: dict[str, Histogram]
    lengths: Histogram


@dataclass(frozen=True)
class RuleFindings:
    """What a rule took: documents by source, and how many of them another rule would have taken, too."""

    rule: str
    documents: dict[str, int]
    also: int


@dataclass(frozen=True)
class ShownCluster:
    """One of the largest clusters, with the beginning of its first document and what is different in its last."""

    cluster: LargeCluster
    first: Place
    last: Place
    beginning: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoundFindings:
    """What a round of deduplication found. clusters, audit, overlap: None where there is none."""

    number: int
    dedup: Dedup
    clusters: ClusterStats | None
    largest: list[ShownCluster]
    audit: AuditFindings | None
    overlap: Overlap | None


@dataclass
class Findings:
    """What the report shows.

    manifest: of the corpus. time: when it was written. build: its record, before: that of the build before, as far
    as there are any. rules: those that let documents go while text was in memory, in their order. mixed: the
    labels of the clusters of round `mixed_round`. lengths: for each source, how many published documents fall
    between two LENGTH_BINS, (60,). not_drawn: documents outside of these bins. labels: for each label of a quality
    model, how many published documents have it, by source. spending: what the builds took, plan: what they were to.
    tried: what several bandings would take. components: of each source that has any, what became of its documents.
    """

    manifest: Published
    time: datetime
    build: Build | None
    before: Build | None
    spending: Spending | None
    plan: Plan | None
    rounds: list[RoundFindings]
    rules: list[RuleFindings]
    mixed: MixedLabels
    mixed_round: int
    lengths: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    not_drawn: int = 0
    places: list[str] = field(default_factory=list)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    tried: TriedBandings | None = None
    components: dict[str, list[ComponentCounts]] = field(default_factory=dict)

    @property
    def ledger(self) -> Ledger:
        return self.manifest.ledger


def findings_of(recipe: Recipe) -> Findings:
    """Count all that the report shows. Raises Denied where nothing is published."""
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    rounds = rounds_of(as_published(recipe, corpus.manifest))
    # Of several rounds, labels are compared in the clusters of the first that looks at more than equal texts.
    number = next((one.number for one in rounds if isinstance(one.dedup, MinHashRound)), 1)
    build, before = last_builds(corpus.root)
    spending = spending_of_published(corpus.root)
    findings = Findings(
        manifest=corpus.manifest,
        time=datetime.fromisoformat(build.time) if build else time_of_manifest(corpus.root),
        build=build,
        before=before,
        spending=spending,
        plan=planned_for(corpus.root, spending),
        rounds=[round_findings(of_round, reader) for of_round in rounds],
        rules=rule_findings(corpus, corpus.manifest.ledger),
        mixed=MixedLabels(),
        mixed_round=number,
        places=corpus.folders(),
        tried=tried_bandings(corpus),
        components=components_of(corpus),
    )
    for source in findings.ledger.sources:
        count_documents(findings, corpus, source, rounds[number - 1])
    return findings


def tried_bandings(corpus: PublishedCorpus) -> TriedBandings | None:
    """Return what several bandings would take, where somebody has tried that."""
    try:
        return tried_before(corpus.root)
    except Damaged as error:
        warn(f"{error}; zyda params --try makes it again")
        return None


def components_of(corpus: PublishedCorpus) -> dict[str, list[ComponentCounts]]:
    """Read the accounts of components, by source."""
    if any(file.path == COMPONENTS_FILE for file in corpus.manifest.accounts):
        return accounts_of(corpus.root)
    return {}


def as_published(recipe: Recipe, manifest: Published) -> Recipe:
    """Return a recipe with the rounds of the corpus that is published: by now it may have others."""
    written = manifest.recipe.get("dedup", {})
    rounds = ROUNDS.validate_python(written if isinstance(written, list) else [written])
    return recipe.model_copy(update={"rounds": rounds})


def round_findings(of_round: Round, reader: DocumentReader) -> RoundFindings:
    """Count what a round found."""
    stats = cluster_stats(reader.corpus, of_round.name_of("clusters"), reader.corpus.manifest.ledger.sources)
    largest = [shown_cluster(reader, cluster) for cluster in stats.largest] if stats else []
    audit, overlap = audit_findings(of_round, reader.corpus), overlap_of(of_round, reader.corpus)
    return RoundFindings(of_round.number, of_round.dedup, stats, largest, audit, overlap)


def overlap_of(of_round: Round, corpus: PublishedCorpus) -> Overlap | None:
    """Read what sources had of each other in a round, if anybody counted it."""
    return Overlap.of_table(whole_table(corpus, of_round.name_of("overlap"), OVERLAP.names))


def shown_cluster(reader: DocumentReader, cluster: LargeCluster) -> ShownCluster:
    """Read the first and the last text of a cluster from their sources, or say why they cannot be had."""
    first, last = reader.place(cluster.cluster_id), reader.place(cluster.last_id)
    try:
        text, other = reader.text(first.doc_id), reader.text(last.doc_id)
    except ZydaError as error:
        return ShownCluster(cluster, first, last, f"({error})")
    lines = diff(text, other, most=DIFF_LINES)[2:] or ("(no difference)",)
    return ShownCluster(cluster, first, last, text[:BEGINNING], lines)


def count_documents(findings: Findings, corpus: PublishedCorpus, source: str, of_round: Round) -> None:
    """Count the lengths and labels of a source's published documents. of_round: whose clusters are looked at."""
    cluster_id, cluster_size = map(of_round.name_of, ("cluster_id", "cluster_size"))
    counts = np.zeros(len(LENGTH_BINS) - 1, np.int64)
    documents = 0
    for table in corpus.tables(source, ["n_tokens", cluster_id, cluster_size, "quality_pred"]):
        counts += np.histogram(table.column("n_tokens").to_numpy(), LENGTH_BINS)[0]
        documents += len(table)
        if "quality_pred" in table.column_names:
            count_labels(findings, source, table)
            table = table.filter(pc.field(cluster_size) > 1)
            findings.mixed.add(table.column(cluster_id), table.column("quality_pred"))
    findings.lengths[source] = counts
    findings.not_drawn += documents - int(counts.sum())


def count_labels(findings: Findings, source: str, table: pa.Table) -> None:
    for entry in pc.value_counts(table.column("quality_pred")).to_pylist():
        of_label = findings.labels.setdefault(str(entry["values"]), {})
        of_label[source] = of_label.get(source, 0) + entry["counts"]


def rule_findings(corpus: PublishedCorpus, ledger: Ledger) -> list[RuleFindings]:
    """Count what each rule took, in the order of the recipe."""
    taken = {source: ledger.removed_by("rules", source) for source in ledger.sources}
    also = dict[str, int]()
    for table in corpus.tables("removed", ["stage", "reason", "also"]) if any(taken.values()) else ():
        if "also" in table.column_names:
            with_others = table.filter(
                (pc.field("stage") == "rules") & (pc.list_value_length(pc.field("also")) > 0)
            )
            for entry in pc.value_counts(with_others.column("reason")).to_pylist():
                also[entry["values"]] = also.get(entry["values"], 0) + entry["counts"]
    rules = [
        rule for rule in corpus.manifest.reasons.get("rules", {}) if any(rule in of for of in taken.values())
    ]
    return [
        RuleFindings(
            rule,
            {source: of[rule].documents for source, of in taken.items() if rule in of},
            also.get(rule, 0),
        )
        for rule in rules
    ]


def audit_findings(of_round: Round, corpus: PublishedCorpus) -> AuditFindings | None:
    """Return what the published audit says, with differences where the work of the build is still there."""
    table = whole_table(corpus, of_round.name_of("audit"), AUDIT.names)
    if not len(table):
        return None
    headline = corpus.manifest.audits[of_round.name_of("audit")]
    try:
        manifest = last_audit(of_round)
        worst = worst_pairs(corpus.root, manifest, table, headline.measure)
    except (Denied, Damaged):
        worst = worst_pairs(corpus.root, Manifest(stage="audit"), table, headline.measure)
    return AuditFindings(
        headline,
        by_source(table, headline),
        by_length(table, headline),
        worst,
        by_similarity(table),
        lengths_of_removed(table),
    )


def whole_table(corpus: PublishedCorpus, place: str, columns: list[str]) -> pa.Table:
    """Read a folder of the corpus that is small, as that of an audit, which is of a sample."""
    parts = list[pa.Table](corpus.tables(place, columns))
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in columns})
