"""The forests of the clusters stage equal a plain union-find, for any distribution of edges over files."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_pages import page_of
from small_corpus import build_here, contents, table_of

from zyda_flows.tasks.dedup import cluster_files, clusters, document_names, exchange, forests
from zyda_flows.tasks.dedup.clusters import ForestOfFiles
from zyda_flows.tasks.dedup.contraction import LabelsOfPart, TreesOfFiles
from zyda_flows.tasks.dedup.forests import Forest, forest_of_edges, join_forests
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.signatures.edges import EDGES
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, write_table
from zyda_flows.textkernels import forest

SOURCE_800 = 800 << 54  # an id that is negative as a signed integer
IDS = st.integers(0, 40) | st.integers(3 << 54, (3 << 54) + 5) | st.integers(SOURCE_800, SOURCE_800 + 3)
EDGE = st.lists(IDS, min_size=2, max_size=2, unique=True).map(sorted)
FILES = st.lists(st.lists(EDGE, max_size=12), min_size=1, max_size=12)


def plain_clusters(edges):
    """Label each document with the smallest document it is connected to, by following edges."""
    neighbours = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    labels = {}
    for start in sorted(neighbours):
        todo = [start] if start not in labels else []
        while todo:
            document = todo.pop()
            if document not in labels:
                labels[document] = start
                todo += neighbours[document]
    return labels


def one_by_one(jobs):
    return [job() for job in jobs]


def write_edges(folder, files):
    artifacts = []
    for i, edges in enumerate(files):
        columns = [
            pa.array(column, pa.uint64()) for column in (zip(*edges, strict=True) if edges else ([], []))
        ]
        artifacts.append(write_table(folder, f"{i}.parquet", str(i), pa.table(columns, schema=EDGES)))
    return artifacts


# Documents of a step, of the last step, rows of a part of a round, and files of a part: all at once, a tree, rounds,
# and rounds in which files are gathered.
WAYS = {
    "whole": (1000, 1000, 1000, 64), "tree": (60, 80, 1000, 64), "rounds": (18, 18, 7, 64),
    "gathered": (18, 18, 7, 2), "small rounds": (4, 2, 2, 3),
}  # fmt: skip


def go(monkeypatch, way):
    monkeypatch.setattr(clusters, "STEP_DOCUMENTS", WAYS[way][0])
    monkeypatch.setattr(clusters, "LAST_DOCUMENTS", WAYS[way][1])
    monkeypatch.setattr(document_names, "PART_ROWS", WAYS[way][2])
    monkeypatch.setattr(exchange, "MOST_FILES", WAYS[way][3])


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(files=FILES, cuts=st.lists(IDS, max_size=3, unique=True).map(sorted))
def test_clusters_equal_the_plain_twin(tmp_path_factory, files, cuts):
    found = dict[str, list[bytes]]()
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            go(patch, way)
            patch.setattr(forests, "GROUP_ROWS", 3)
            folder = Folder(str(tmp_path_factory.mktemp("edges")))
            artifacts = clusters.clusters_of(folder, write_edges(folder, files), tuple(cuts), one_by_one)
            found[way] = [folder.read(artifact.path) for artifact in artifacts]
    assert all(artifacts == found["whole"] for artifacts in found.values())
    tables = [pq.read_table(pa.BufferReader(content)) for content in found["whole"]]
    for table, (low, high) in zip(tables, pairwise([0, *cuts, 1 << 64]), strict=True):
        assert all(low <= doc_id < high for doc_id in table.column("doc_id").to_pylist())
    expected = plain_clusters([edge for edges in files for edge in edges])
    ids, labels, sizes, sources = (column.to_pylist() for column in pa.concat_tables(tables).columns)
    assert ids == sorted(expected)
    assert dict(zip(ids, labels, strict=True)) == expected
    members = {label: [i for i in expected if expected[i] == label] for label in labels}
    assert sizes == [len(members[label]) for label in labels]
    assert sources == [len({i >> 54 for i in members[label]}) for label in labels]


def test_chain_over_several_files_is_a_single_cluster():
    """Only neighbours are joined, in an order in which every join puts a new root above the old root."""
    ids = np.arange(10_000, dtype=np.uint64)
    even = forest_of_edges(ids[:-1:2], ids[1::2])
    odd = forest_of_edges(ids[1:-1:2], ids[2::2])
    whole = join_forests(odd, even)
    assert not whole.roots.any()
    roots = np.arange(10_000)
    forest.join(roots, np.arange(9_998, -1, -1), np.arange(9_999, 0, -1))
    forest.flatten(roots)
    assert not roots.any()


def test_parts_have_similar_sizes_with_large_clusters(tmp_path):
    chance, folder = np.random.default_rng(0), Folder(str(tmp_path))
    cluster = np.repeat(np.arange(50), 4 * np.arange(1, 51))  # the largest has 200 documents of 5,100
    ids = chance.permutation(len(cluster)).astype(np.uint64)
    files = []
    for _ in range(20):  # each sees a part of each cluster
        seen = np.flatnonzero(chance.random(len(ids)) < 0.3)
        firsts = {one: min(ids[seen[cluster[seen] == one]], default=None) for one in range(50)}
        files.append([(firsts[cluster[i]], ids[i]) for i in seen if firsts[cluster[i]] != ids[i]])
    forests_of_files = one_by_one(
        [ForestOfFiles(folder, None, (one,), 0, i) for i, one in enumerate(write_edges(folder, files))]
    )
    naming = document_names.Naming(0, 6)
    trees = [TreesOfFiles(folder, None, naming, i, (one,)) for i, one in enumerate(forests_of_files)]
    exchanged_trees = exchange.exchange_parts(trees, 64, one_by_one)
    labelled = one_by_one(
        [LabelsOfPart(folder, None, naming, i, (), exchanged_trees.files(i)) for i in range(64)]
    )
    sizes = Counter(
        part for one in labelled for part in read_table(folder, one.edges).column("part").to_pylist()
    )
    assert len(sizes) > 60
    assert max(sizes.values()) < 4 * sizes.total() / len(sizes)


def test_positions_beyond_32_bits_are_joined(monkeypatch):
    one, other = (forest_of_edges(*np.array([[a], [b]], np.uint64)) for a, b in ((3, 9), (1, 9)))
    small = join_forests(one, other)
    monkeypatch.setattr(forest, "places_type", lambda _: np.int64)
    large = join_forests(*(Forest(f.ids, f.roots.astype(np.int64)) for f in (one, other)))
    assert (small.roots.dtype, large.roots.dtype) == (np.int32, np.int64)
    assert small.ids.tolist() == large.ids.tolist() == [1, 3, 9]
    assert small.roots.tolist() == large.roots.tolist() == [0, 0, 0]


ROUNDS = [
    {"scope": "across"},
    {"scope": "global"},
    {"scope": "global", "prefer": ["longest"]},
    {"scope": "global", "verify": {"containment": 0.7}},
]


@pytest.mark.slow
@pytest.mark.parametrize("dedup", ROUNDS, ids=lambda dedup: " ".join(map(str, dedup.values())))
def test_published_corpus_does_not_depend_on_the_size_of_tasks(corpus, monkeypatch, dedup):
    whole = corpus.load(dedup=dedup)
    build_here(whole)
    go(monkeypatch, "gathered")
    in_rounds = corpus.load(storage=str(corpus.folder / "in rounds"), dedup=dedup)
    build_here(in_rounds)
    made = " ".join(in_rounds.folder.files("work/clusters"))
    assert "rootsofpart" in made
    assert "gatheredrows" in made
    assert contents(in_rounds) == contents(whole)
    # The same holds for each document if clusters are written to many small files.
    monkeypatch.setattr(forests, "GROUP_ROWS", 1)
    monkeypatch.setattr(cluster_files, "FILE_DOCUMENTS", 3)
    cut = corpus.load(name="cut", dedup=dedup)
    build_here(cut)
    assert len(cut.folder.files("published/clusters")) > 2
    for place in ("clusters", "removed", "best", "middle", "worst"):
        assert table_of(cut, place) == table_of(whole, place)
    for row in table_of(whole, "removed"):
        assert explain(cut, str(row["doc_id"])) == explain(whole, str(row["doc_id"]))
    assert report_of(cut) == report_of(whole)


def report_of(recipe):
    """Return the report without plots, times and the corpus's name."""
    return re.sub(r"[\d: ]+UTC|recipe \w+|cut", "small", page_of(recipe, has_plots=False))
