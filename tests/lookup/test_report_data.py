"""The numbers of the report, compared with numbers that plain Python computes from the published tables."""

from collections import Counter

import pytest
from report_pages import cells_of, page_of, plain_counts
from small_corpus import (
    build_here,
    table_of,
)

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.lookup.cluster_counting import LARGEST
from zyda_flows.tasks.lookup.cluster_stats import cluster_stats
from zyda_flows.tasks.lookup.report_data import findings_of


@pytest.mark.slow
@pytest.mark.parametrize("part_rows", [6 << 20, 10])
def test_counts_of_clusters_match_the_table_with_any_number_of_parts(labelled, monkeypatch, part_rows):
    monkeypatch.setattr("zyda_flows.tasks.dedup.document_names.PART_ROWS", part_rows)
    recipe = labelled.load(dedup={"scope": "global"})
    build_here(recipe)
    names = [source.name for source in recipe.sources]
    stats = cluster_stats(PublishedCorpus.of(recipe), "clusters", names)
    assert [dedup_round.clusters.documents for dedup_round in findings_of(recipe).rounds] == [stats.documents]
    members, by_source, sizes, shared = plain_counts(recipe)
    assert (stats.clusters, stats.documents) == (len(members), sum(map(len, members.values())))
    assert {s: dict(zip(*map(list, counts), strict=True)) for s, counts in stats.sizes.items()} == sizes
    assert {
        (a, b): n for i, a in enumerate(names) for j, b in enumerate(names) if (n := stats.shared[i, j])
    } == shared
    largest = sorted(members, key=lambda cluster_id: (-len(members[cluster_id]), cluster_id))[:LARGEST]
    assert [cluster.cluster_id for cluster in stats.largest] == largest
    assert [cluster.sources for cluster in stats.largest] == [by_source[cluster_id] for cluster_id in largest]
    assert [cluster.last_id for cluster in stats.largest] == [
        max(members[cluster_id]) for cluster_id in largest
    ]


def labels_of_clusters(recipe):
    labels = {}
    for source in recipe.sources[1:]:
        for row in table_of(recipe, source.name):
            if row["cluster_size"] > 1:
                labels.setdefault(row["cluster_id"], []).append(row["quality_pred"])
    return {cluster: of for cluster, of in labels.items() if len(of) > 1}


@pytest.mark.slow
def test_labels_and_lengths_match_the_published_documents(labelled):
    recipe = labelled.load()
    build_here(recipe)
    findings = findings_of(recipe).documents
    labels = labels_of_clusters(recipe)
    assert findings.different_labels == Counter(len(set(of)) for of in labels.values())
    assert len(labels) > 3
    mixed = sum(len(set(of)) > 1 for of in labels.values())
    assert (
        f"Of {len(labels)} clusters with several labelled documents, {mixed} have different labels."
        in page_of(recipe)
    )
    every = {source.name: table_of(recipe, source.name) for source in recipe.sources}
    drawn = {
        name: sum(1 <= row["n_tokens"] <= 10**6 for row in documents) for name, documents in every.items()
    }
    assert {name: int(counts.sum()) for name, counts in findings.lengths.items()} == drawn
    assert findings.not_drawn == sum(map(len, every.values())) - sum(drawn.values())
    label_counts = Counter((r["quality_pred"], name) for name in ("middle", "worst") for r in every[name])
    assert {(label, s): n for label, of in findings.labels.items() for s, n in of.items()} == label_counts


def test_table_of_tokens_matches_the_published_documents(labelled):
    recipe = labelled.load()
    ledger = build_here(recipe)
    table_cells = cells_of(page_of(recipe, has_plots=False), "By source")
    for source in recipe.sources:
        stayed = table_of(recipe, source.name)
        went = [row for row in table_of(recipe, "removed") if row["source"] == source.name]
        tokens = sum(row["n_tokens"] for row in stayed)
        start = tokens + sum(row["n_tokens"] for row in went)
        cells = table_cells[source.name]
        assert cells[:3] == [f"{len(stayed) + len(went):,}", f"{len(stayed):,}", f"{start:,}"]
        assert cells[-2:] == [f"{tokens:,}", f"{tokens / start:.1%}"]
    assert table_cells["total"][-2] == f"{ledger.of(ledger.stages[-1]).tokens:,}"
