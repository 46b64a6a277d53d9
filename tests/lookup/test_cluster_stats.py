"""Counts of clusters, compared with counts from all rows by plain Python."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.dedup.forests import CLUSTERS
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import SOURCE_SHIFT
from zyda_flows.tasks.lookup import cluster_counting, cluster_stats
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.publish.built_corpus import table_file
from zyda_flows.tasks.stage import trees
from zyda_flows.tasks.storage.tables import write_artifact

NAMES = [f"s{i}" for i in range(11)]


class ClusterTables(PublishedCorpus):
    """A published corpus without a manifest, which has only the files that are added to `listed`."""

    def files(self, prefix=""):
        return [file for file in self.listed if file.path.startswith(prefix)]


def corpus_in(folder, table, row_group_size=7, files=2):
    """Write a table of clusters in some files, and return a corpus that has only these files."""
    corpus = ClusterTables(str(folder), "small", "")
    parts, files, size = [], [], -(-len(table) // files)
    for start in range(0, len(table), size):
        parts.append((str(start // size), table.slice(start, size)))
    for name, part in parts:
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


LIMITS = {
    "one task": {},
    "many tasks": {
        (trees, "FAN_IN"): 2, (document_names, "PART_ROWS"): 300, (exchange, "MOST_FILES"): 4,
        (cluster_counting, "MOST_CELLS"): 70,
    },
}  # fmt: skip


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_counts_do_not_depend_on_the_size_of_tasks(tmp_path, monkeypatch, seed, limits):
    for (module, name), value in limits.items():
        monkeypatch.setattr(module, name, value)
    table, rows = made(seed)
    stats = cluster_stats.cluster_stats(
        corpus_in(tmp_path, table, files=6 if limits else 2), "clusters", NAMES
    )
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


def test_at_most_one_row_group_is_read_at_once(tmp_path):
    table, _ = made(0)
    corpus = corpus_in(tmp_path, table, row_group_size=50)
    files = [ClusterFile(corpus, file) for file in corpus.artifacts("clusters/")]
    assert max(len(rows) for file in files for rows in file.tables(["doc_id"])) == 50


def test_clusters_are_counted_once(tmp_path):
    table, _ = made(0)
    corpus = corpus_in(tmp_path, table)
    first = cluster_stats.cluster_stats(corpus, "clusters", NAMES)
    again = cluster_stats.cluster_stats(corpus, "clusters", NAMES, run_jobs=None)
    assert (again.clusters, again.documents, again.largest) == (
        first.clusters,
        first.documents,
        first.largest,
    )
    other = corpus_in(tmp_path, table.slice(0, len(table) // 2))
    with pytest.raises(TypeError):  # it runs jobs
        cluster_stats.cluster_stats(other, "clusters", NAMES, run_jobs=None)


@pytest.mark.parametrize("kind", ["clusters-", "sum-"])
def test_damaged_counts_are_made_again(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(trees, "FAN_IN", 2)
    table, _ = made(0)
    corpus = corpus_in(tmp_path, table, files=6)
    first = cluster_stats.cluster_stats(corpus, "clusters", NAMES)
    paths = [path for path in corpus.root.files("work/cluster_stats") if path.endswith(".parquet")]
    whole = {path: corpus.root.read(path) for path in paths}
    for path, content in whole.items():
        if "/clusters-" in path:
            corpus.root.delete(path)
        if f"/{kind}" in path:
            corpus.root.write(path, content[:40] + bytes([content[40] ^ 1]) + content[41:])
    again = cluster_stats.cluster_stats(corpus, "clusters", NAMES)
    assert (again.clusters, again.documents, again.largest) == (
        first.clusters,
        first.documents,
        first.largest,
    )
    final = next(path for path in paths if "/clusters-" in path)
    assert corpus.root.read(final) == whole[final]


def test_unsorted_table_is_an_error(tmp_path):
    table, _ = made(0)
    backwards = table.take(pa.array(range(len(table) - 1, -1, -1)))
    with pytest.raises(Denied, match="not sorted by doc_id"):
        cluster_stats.cluster_stats(corpus_in(tmp_path / "a", backwards), "clusters", NAMES)
