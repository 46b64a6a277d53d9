"""What the report shows, counted from the published tables alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounts.audited import Audited
from tasks.accounts.ledger import Ledger
from tasks.accounts.published import published_ledger
from tasks.dedup.audit import AUDIT
from tasks.errors import Damaged, Denied
from tasks.ids import sources_of
from tasks.publish.audits import Pair, Shares, audited, by_length, by_source, last_audit, worst_pairs
from tasks.publish.explain import Corpus
from tasks.recipe.fields import Recipe
from tasks.storage.artifacts import Manifest

LENGTH_BINS = np.logspace(0, 6, 61)  # tokens
LARGEST = 8  # clusters that are shown with samples of their text
SAMPLE_CHARACTERS = 400


@dataclass(frozen=True)
class AuditFindings:
    """What an audit says of the removed near-duplicates; see `tasks.publish.audits`."""

    headline: Audited
    by_source: list[Shares]
    by_length: list[tuple[int, float]]
    worst: list[Pair]


@dataclass(frozen=True)
class RuleFindings:
    """What a rule took: documents by source, and how many of them another rule would have taken, too."""

    rule: str
    documents: dict[str, int]
    also: int


@dataclass
class Findings:
    """The numbers behind the plots.

    lengths: for each source, how many published documents fall between two LENGTH_BINS, (60,).
    cluster_sizes: for each source, (sizes, how many clusters have so many documents of it). shared:
    (sources, sources), the clusters that hold documents of both. labels: for each label of a quality
    model, how many published documents have it, by source. mixed_labels: of the clusters with two
    labelled documents or more, how many hold one label, two labels and so on. audit: of the near-duplicates that
    were removed, where there were any. rules: those that let documents go while text was in memory, in their order.
    """

    ledger: Ledger
    lengths: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    cluster_sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    shared: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    mixed_labels: dict[int, int] = field(default_factory=dict)
    largest: list[dict[str, Any]] = field(default_factory=list)
    audit: AuditFindings | None = None
    rules: list[RuleFindings] = field(default_factory=list)


def find(recipe: Recipe) -> Findings:
    """Count all that the report shows. Raises Denied where nothing is published."""
    corpus = Corpus(recipe)
    findings = Findings(published_ledger(recipe))
    # Of several rounds, the first that looks at more than equal texts.
    shown = next((of_round for of_round in recipe.each_round() if not of_round.dedup.exact), recipe)
    clusters = whole_table(corpus, shown.called("clusters"), ["doc_id", "cluster_id"])
    beside = shown.called("cluster_id")
    names = {number: name for name, number in corpus.register.sources.items()}
    if len(clusters):
        count_clusters(findings, clusters, names)
        findings.largest = largest_clusters(corpus, clusters)
    labelled = list[pa.Table]()
    for source in findings.ledger.sources:
        counts = np.zeros(len(LENGTH_BINS) - 1, np.int64)
        for table in tables(corpus, source, ["n_tokens", beside, "quality_pred"]):
            counts += np.histogram(table.column("n_tokens").to_numpy(), LENGTH_BINS)[0]
            if "quality_pred" in table.column_names:
                count_labels(findings, source, table)
                labelled.append(
                    table.select([beside, "quality_pred"]).rename_columns(["cluster_id", "quality_pred"])
                )
        findings.lengths[source] = counts
    findings.audit = audit_findings(shown, corpus)
    findings.rules = rule_findings(corpus, findings.ledger)
    if labelled:
        count_mixed_labels(findings, pa.concat_tables(labelled))
    return findings


def rule_findings(corpus: Corpus, ledger: Ledger) -> list[RuleFindings]:
    """Count what each rule took, in the order of the recipe."""
    taken = {source: ledger.removed_by("rules", source) for source in ledger.sources}
    also = dict[str, int]()
    for table in tables(corpus, "removed", ["stage", "reason", "also"]):
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


def audit_findings(recipe: Recipe, corpus: Corpus) -> AuditFindings | None:
    """Return what the published audit says, with differences where the work of the build is still there."""
    table = whole_table(corpus, recipe.called("audit"), AUDIT.names)
    if not len(table):
        return None
    headline = audited(table, recipe.dedup)
    try:
        manifest = last_audit(recipe)
        worst = worst_pairs(corpus.folder, manifest, table, headline.measure)
    except (Denied, Damaged):
        worst = worst_pairs(corpus.folder, Manifest(stage="audit"), table, headline.measure)
    return AuditFindings(headline, by_source(table, headline), by_length(table, headline), worst)


def tables(corpus: Corpus, place: str, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the files of a folder of the corpus, with those of the columns that they have."""
    for path in corpus.files:
        if path.startswith(f"{place}/"):
            with corpus.opened(path) as parquet:
                yield parquet.read([name for name in columns if name in parquet.schema_arrow.names])


def whole_table(corpus: Corpus, place: str, columns: list[str]) -> pa.Table:
    parts = list(tables(corpus, place, columns))
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in columns})


def count_clusters(findings: Findings, clusters: pa.Table, names: dict[int, str]) -> None:
    """Count the sizes of clusters by source, and the clusters that pairs of sources share."""
    sources = sources_of(clusters.column("doc_id").to_numpy())
    _, cluster_places = np.unique(clusters.column("cluster_id").to_numpy(), return_inverse=True)
    order = findings.ledger.sources
    has_source = np.zeros((cluster_places.max() + 1, len(order)), np.bool_)
    for i, source in enumerate(order):
        number = next(n for n, name in names.items() if name == source)
        documents = np.bincount(cluster_places[sources == number], minlength=cluster_places.max() + 1)
        has_source[:, i] = documents > 0
        findings.cluster_sizes[source] = np.unique(documents[documents > 0], return_counts=True)
    # Over clusters, the product of two columns of 0 and 1 counts the clusters that have both sources.
    findings.shared = has_source.T.astype(np.int64) @ has_source.astype(np.int64)


def count_labels(findings: Findings, source: str, table: pa.Table) -> None:
    for entry in pc.value_counts(table.column("quality_pred")).to_pylist():
        of_label = findings.labels.setdefault(str(entry["values"]), {})
        of_label[source] = of_label.get(source, 0) + entry["counts"]


def count_mixed_labels(findings: Findings, labelled: pa.Table) -> None:
    """Count how many different labels a cluster's published documents have."""
    grouped = labelled.filter(pc.is_valid(labelled.column("cluster_id"))).group_by("cluster_id")
    counts = grouped.aggregate([("quality_pred", "count_distinct"), ("quality_pred", "count")])
    several = counts.filter(pc.field("quality_pred_count") > 1).column("quality_pred_count_distinct")
    findings.mixed_labels = {e["values"]: e["counts"] for e in pc.value_counts(several).to_pylist()}


def largest_clusters(corpus: Corpus, clusters: pa.Table) -> list[dict[str, Any]]:
    """Return the largest clusters, with their documents by source and the beginning of two texts."""
    sizes = clusters.group_by("cluster_id").aggregate([("doc_id", "count")])
    largest = sizes.sort_by([("doc_id_count", "descending"), ("cluster_id", "ascending")]).slice(0, LARGEST)
    shown = list[dict[str, Any]]()
    for row in largest.to_pylist():
        members = clusters.filter(pc.field("cluster_id") == pa.scalar(row["cluster_id"], pa.uint64()))
        ids = members.column("doc_id").to_pylist()
        places = [corpus.place(doc_id) for doc_id in (ids[0], ids[-1])]
        texts = [(place, corpus.text(place.doc_id)[:SAMPLE_CHARACTERS]) for place in places]
        of_source = dict[str, int]()
        for doc_id in ids:
            name = corpus.file_of(doc_id)[0]
            of_source[name] = of_source.get(name, 0) + 1
        shown.append(
            {"cluster_id": row["cluster_id"], "size": len(ids), "sources": of_source, "texts": texts}
        )
    return shown
