"""Compute the contents of the report from a published corpus and the records of its builds."""

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.agreed import AGREEMENT, agreement_of
from zyda_flows.tasks.accounts.components import COMPONENTS_FILE, CountsBySource, accounts_of
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.likeness import AUDIT
from zyda_flows.tasks.dedup.overlap import OVERLAP
from zyda_flows.tasks.errors import Damaged, Denied, ZydaError
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.lookup.cluster_stats import ClusterSummary, cluster_stats
from zyda_flows.tasks.lookup.document_passages import text_before_cut
from zyda_flows.tasks.lookup.document_reader import DocumentPlace, DocumentReader
from zyda_flows.tasks.lookup.document_stats import document_stats
from zyda_flows.tasks.lookup.judge_findings import judge_findings
from zyda_flows.tasks.lookup.pair_findings import pair_findings
from zyda_flows.tasks.lookup.passage_stats import ListedPassage, passage_stats
from zyda_flows.tasks.lookup.report_findings import (
    AuditFindings,
    Findings,
    PassageFindings,
    RoundFindings,
    RuleFindings,
    ShownAgreement,
    ShownCluster,
    ShownPassage,
)
from zyda_flows.tasks.passages.shards import ALL_PARTS
from zyda_flows.tasks.planning.bandings import TriedBandings, tried_before
from zyda_flows.tasks.planning.build_history import last_builds, time_of_manifest
from zyda_flows.tasks.planning.spending import planned_for, spending_of_published
from zyda_flows.tasks.publish.audits import (
    by_length,
    by_similarity,
    by_source,
    last_audit,
    lengths_of_removed,
    worst_pairs,
)
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ROUNDS, MinHashRound
from zyda_flows.tasks.recipe.rounds import Round, rounds_of
from zyda_flows.tasks.storage.artifacts import Manifest

BEGINNING = 400  # characters of a text in the report
NOT_READ = "(the text before the cut is missing)"
DIFF_LINES = 40


def findings_of(recipe: Recipe) -> Findings:
    """Compute the contents of the report. Raises Denied if nothing is published."""
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    rounds = rounds_of(as_published(recipe, corpus.manifest))
    # Labels are compared in the clusters of the first round of near-duplicates.
    number = next((each.number for each in rounds if isinstance(each.dedup, MinHashRound)), 1)
    build, before = last_builds(corpus.root)
    spending, documents = spending_of_published(corpus.root), document_stats(corpus, rounds[number - 1])
    return Findings(
        manifest=corpus.manifest,
        time=datetime.fromisoformat(build.time) if build else time_of_manifest(corpus.root),
        build=build,
        before=before,
        spending=spending,
        plan=planned_for(corpus.root, spending),
        rounds=[round_findings(each, reader) for each in rounds],
        rules=rule_findings(corpus.manifest, documents.matched_by_others),
        documents=documents,
        labels_round=number,
        places=corpus.folders(),
        tried=tried_bandings(corpus),
        components=components_of(corpus),
        passages=passage_findings(reader),
        judges=judge_findings(reader),
    )


def tried_bandings(corpus: PublishedCorpus) -> TriedBandings | None:
    """Return the removals of several bandings, None if they have not been computed."""
    try:
        return tried_before(corpus.root)
    except Damaged as error:
        warn(f"{error}; zyda params --try makes it again")
        return None


def components_of(corpus: PublishedCorpus) -> CountsBySource:
    """Read the counts of components, by source."""
    if any(file.path == COMPONENTS_FILE for file in corpus.manifest.accounts):
        return accounts_of(corpus.root)
    return {}


def as_published(recipe: Recipe, manifest: Published) -> Recipe:
    """Return the recipe with the rounds of the published corpus, which may differ from the present rounds."""
    written = manifest.recipe.get("dedup", {})
    rounds = ROUNDS.validate_python(written if isinstance(written, list) else [written])
    return recipe.model_copy(update={"rounds": rounds})


def round_findings(dedup_round: Round, reader: DocumentReader) -> RoundFindings:
    """Compute the results of a round."""
    stats = cluster_stats(
        reader.corpus, dedup_round.name_of("clusters"), reader.corpus.manifest.ledger.sources
    )
    largest = [shown_cluster(reader, cluster) for cluster in stats.largest] if stats else []
    audit, overlap = audit_findings(dedup_round, reader.corpus), overlap_of(dedup_round, reader.corpus)
    agreement = tuple(shown_agreements(dedup_round, reader))
    pairs = pair_findings(dedup_round, reader)
    return RoundFindings(
        dedup_round.number, dedup_round.dedup, stats, largest, audit, overlap, agreement, pairs
    )


def shown_agreements(dedup_round: Round, reader: DocumentReader) -> Iterator[ShownAgreement]:
    """Yield the agreement of each score, with the texts of the cluster in which it differs most."""
    table = whole_table(reader.corpus, dedup_round.name_of("agreement"), AGREEMENT.names)
    for agreement in agreement_of(table):
        low, high = (
            reader.place(doc_id) for doc_id in (agreement.widest.low_doc_id, agreement.widest.high_doc_id)
        )
        by_size = table.filter(pc.field("column") == agreement.column)
        yield ShownAgreement(agreement, by_size, low, high, *compared_texts(reader, low, high))


def passage_findings(reader: DocumentReader) -> PassageFindings | None:
    """Return the repeated passages, with the beginnings of the listed ones; None if there are none."""
    stats = passage_stats(reader.corpus)
    if stats is None:
        return None
    parts = ALL_PARTS.validate_python(reader.corpus.manifest.recipe["passages"])

    def shown(listed: ListedPassage) -> ShownPassage:
        text = text_before_cut(reader, listed.doc_id)[listed.start : listed.end] or NOT_READ
        owner = reader.place(listed.owner_id)
        return ShownPassage(listed, reader.place(listed.doc_id), owner, text[:BEGINNING])

    return PassageFindings(
        stats,
        [part.units for part in parts],
        [part.sentence for part in parts],
        [*map(shown, stats.longest)],
        [*map(shown, stats.most_shared)],
    )


def overlap_of(dedup_round: Round, corpus: PublishedCorpus) -> Overlap | None:
    """Read the published overlap of the sources in a round; None if there is none."""
    return Overlap.of_table(whole_table(corpus, dedup_round.name_of("overlap"), OVERLAP.names))


def shown_cluster(reader: DocumentReader, cluster: ClusterSummary) -> ShownCluster:
    """Read the first and the last text of a cluster from their sources; the error instead if one is missing."""
    first, last = reader.place(cluster.cluster_id), reader.place(cluster.last_id)
    return ShownCluster(cluster, first, last, *compared_texts(reader, first, last))


def compared_texts(
    reader: DocumentReader, first: DocumentPlace, last: DocumentPlace
) -> tuple[str, tuple[str, ...]]:
    """Return the beginning of the first text and the differences of the last; or the error."""
    try:
        text, other = reader.text(first.doc_id), reader.text(last.doc_id)
    except ZydaError as error:
        return f"({error})", ()
    return text[:BEGINNING], diff(text, other, most=DIFF_LINES)[2:] or ("(no difference)",)


def rule_findings(manifest: Published, matched_by_others: dict[str, int]) -> list[RuleFindings]:
    """Return the documents that each rule removed, in the order of the recipe.

    Rules without removals are left out. matched_by_others: how many of them another rule matches, too, by rule.
    """
    removed = {source: manifest.ledger.removed_by("rules", source) for source in manifest.ledger.sources}
    findings = list[RuleFindings]()
    for rule in manifest.reasons.get("rules", {}):
        if documents := {
            source: counts[rule].documents for source, counts in removed.items() if rule in counts
        }:
            findings.append(RuleFindings(rule, documents, matched_by_others.get(rule, 0)))
    return findings


def audit_findings(dedup_round: Round, corpus: PublishedCorpus) -> AuditFindings | None:
    """Return the published audit, with the differences of texts if the work folder still has them."""
    table = whole_table(corpus, dedup_round.name_of("audit"), AUDIT.names)
    if not len(table):
        return None
    headline = corpus.manifest.audits[dedup_round.name_of("audit")]
    try:
        manifest = last_audit(dedup_round)
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
    """Read a small folder of the corpus, such as an audit, into one table."""
    parts = list[pa.Table](corpus.tables(place, columns))
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in columns})
