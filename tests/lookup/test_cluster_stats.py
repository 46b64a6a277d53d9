"""Counts of clusters, compared with counts from all rows by plain Python."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.forests import CLUSTERS
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import SOURCE_SHIFT
from zyda_flows.tasks.lookup import cluster_stats
from zyda_flows.tasks.publish.built_corpus import table_file
from zyda_flows.tasks.storage.tables import write_artifact

NAMES = [f"s{i}" for i in range(11)]


class ClusterTables(PublishedCorpus):
    """A published corpus without a manifest, which has only the files that are added to `listed`."""

    def files(self, prefix=""):
        return [file for file in self.listed if file.path.startswith(prefix)]


def corpus_in(folder, table, row_group_size=7):
    """Write a table of clusters in two files, and return a corpus that has only these files."""
    half = len(table) // 2
    corpus = ClusterTables(str(folder), "small", "")
    files = []
    for name, part in (("0", table.slice(0, half)), ("1", table.slice(half))):
        path = f"clusters/{name}.parquet"
        shard = write_artifact(
            corpus.folder,
            path,
            name,
            lambda scratch, part=part: pq.write_table(part, scratch, row_group_size=row_group_size),
        )
        files.append(table_file("clusters", shard).model_copy(update={"path": path}))
    # The numbers of the sources are in another order than the sources.
    origins = [SimpleNamespace(source=name, number=10 - i) for i, name in enumerate(NAMES)]
    vars(corpus).update(listed=files, manifest=SimpleNamespace(made_of=origins))
    return corpus


def made(seed, count=2000):
    """Make a table of clusters, and its rows: (doc_id, cluster_id)."""
    random = np.random.default_rng(seed)
    ids = np.unique(
        random.integers(0, 11, count).astype(np.uint64) << np.uint64(SOURCE_SHIFT)
        | random.integers(0, 10**6, count).astype(np.uint64)
    )
    groups = random.integers(0, 300, len(ids)) * (
        random.random(len(ids)) > 0.2
    )  # with a single large cluster
    _, first, places = np.unique(groups, return_index=True, return_inverse=True)
    clusters = ids[first][places]
    sizes = Counter(clusters.tolist())
    sources = {cluster: set() for cluster in sizes}
    for doc_id, cluster in zip(ids.tolist(), clusters.tolist(), strict=True):
        sources[cluster].add(doc_id >> SOURCE_SHIFT)
    columns = [
        ids,
        clusters,
        [sizes[c] for c in clusters.tolist()],
        [len(sources[c]) for c in clusters.tolist()],
    ]
    return pa.table(columns, schema=CLUSTERS), list(zip(ids.tolist(), clusters.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("counted_bytes", [512 << 20, 1000, 1])
@pytest.mark.parametrize("seed", range(3))
def test_counts_do_not_depend_on_the_memory_limit(tmp_path, seed, counted_bytes):
    limits = cluster_stats.MemoryLimits(counted_bytes, clusters=13, small_sizes=5)
    table, rows = made(seed, 2000 if counted_bytes > 1 else 300)
    stats = cluster_stats.cluster_stats(corpus_in(tmp_path, table), "clusters", NAMES, limits)
    by_source = {}
    for doc_id, cluster in rows:
        by_source.setdefault(cluster, Counter())[NAMES[10 - (doc_id >> SOURCE_SHIFT)]] += 1
    sizes, shared = {}, Counter()
    for counts in by_source.values():
        for source, documents in counts.items():
            sizes.setdefault(source, Counter())[documents] += 1
            shared.update((source, other) for other in counts)
    assert {s: dict(zip(*map(list, counts), strict=True)) for s, counts in stats.sizes.items()} == sizes
    assert {
        (a, b): n for i, a in enumerate(NAMES) for j, b in enumerate(NAMES) if (n := stats.shared[i, j])
    } == shared
    assert [cluster.sources for cluster in stats.largest] == [by_source[c.cluster_id] for c in stats.largest]
    most = sorted(((-sum(counts.values()), cluster) for cluster, counts in by_source.items()))[:8]
    assert [(-cluster.documents, cluster.cluster_id) for cluster in stats.largest] == most


def test_at_most_one_row_group_is_read_at_once(tmp_path, monkeypatch):
    table, _ = made(0)
    corpus = corpus_in(tmp_path, table, row_group_size=50)
    assert max(len(rows.doc_ids) for rows in cluster_stats.rows_of(corpus, "clusters")) <= 50


def test_unsorted_table_is_an_error(tmp_path):
    table, _ = made(0)
    backwards = table.take(pa.array(range(len(table) - 1, -1, -1)))
    with pytest.raises(Denied, match="not sorted by doc_id"):
        cluster_stats.cluster_stats(corpus_in(tmp_path / "a", backwards), "clusters", NAMES)
