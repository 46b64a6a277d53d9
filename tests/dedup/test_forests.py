"""The forests of the clusters stage against a plain union-find, however the edges lie in files."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import build_here, kept_names, table_of

from tasks.dedup import clusters
from tasks.dedup.clusters import Forest, forest_of_edges, join_forests
from tasks.signatures.edges import EDGES
from tasks.storage.folder import Folder
from tasks.storage.tables import read_table, write_table
from textkernels import forest

SOURCE_800 = 800 << 54  # an id that is negative where someone takes it for signed
IDS = st.integers(0, 40) | st.integers(3 << 54, (3 << 54) + 5) | st.integers(SOURCE_800, SOURCE_800 + 3)
EDGE = st.lists(IDS, min_size=2, max_size=2, unique=True).map(sorted)
FILES = st.lists(st.lists(EDGE, max_size=12), min_size=1, max_size=12)


def plain_clusters(edges):
    """Label each document with the smallest one it is connected to, by walking along the edges."""
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


def clusters_of(folder, files):
    """Reduce files of edges as the stage does, level after level."""
    shards = []
    for i, edges in enumerate(files):
        columns = [
            pa.array(column, pa.uint64()) for column in (zip(*edges, strict=True) if edges else ([], []))
        ]
        shards.append(write_table(folder, f"{i}.parquet", str(i), pa.table(columns, schema=EDGES)))
    level = 0
    while True:
        jobs = clusters.jobs_of_level(folder, shards, level)
        shards = [job() for job in jobs]
        if jobs[0].is_last:
            return read_table(folder, shards[0])
        level += 1


@settings(max_examples=60, deadline=None)
@given(files=FILES, most=st.sampled_from([1, 10, 1000]))
def test_clusters_are_those_of_the_plain_twin(tmp_path_factory, files, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "MAX_ROWS", most)
        patch.setattr(clusters, "GROUP_ROWS", 3)
        found = clusters_of(Folder(str(tmp_path_factory.mktemp("edges"))), files)
    expected = plain_clusters([edge for edges in files for edge in edges])
    ids, labels, sizes, sources = (column.to_pylist() for column in found.columns)
    assert ids == sorted(expected)
    assert dict(zip(ids, labels, strict=True)) == expected
    members = {label: [i for i in expected if expected[i] == label] for label in labels}
    assert sizes == [len(members[label]) for label in labels]
    assert sources == [len({i >> 54 for i in members[label]}) for label in labels]


def test_chain_that_no_file_holds_whole_is_one_cluster():
    """Neighbours alone are joined, in an order in which every join puts a new root above the old one."""
    ids = np.arange(10_000, dtype=np.uint64)
    even = forest_of_edges(ids[:-1:2], ids[1::2])
    odd = forest_of_edges(ids[1:-1:2], ids[2::2])
    whole = join_forests(odd, even)
    assert not whole.roots.any()
    roots = np.arange(10_000)
    forest.join(roots, np.arange(9_998, -1, -1), np.arange(9_999, 0, -1))
    forest.flatten(roots)
    assert not roots.any()


def test_places_beyond_32_bits_are_joined_alike(monkeypatch):
    one, other = (forest_of_edges(*np.array([[a], [b]], np.uint64)) for a, b in ((3, 9), (1, 9)))
    small = join_forests(one, other)
    monkeypatch.setattr(forest, "places_type", lambda _: np.int64)
    large = join_forests(*(Forest(f.ids, f.roots.astype(np.int64)) for f in (one, other)))
    assert (small.roots.dtype, large.roots.dtype) == (np.int32, np.int64)
    assert small.ids.tolist() == large.ids.tolist() == [1, 3, 9]
    assert small.roots.tolist() == large.roots.tolist() == [0, 0, 0]


@pytest.mark.parametrize("scope", ["across", "global"])
def test_row_groups_of_one_document_decide_alike(corpus, monkeypatch, scope):
    whole = corpus.load(dedup={"scope": scope})
    build_here(whole)
    monkeypatch.setattr(clusters, "GROUP_ROWS", 1)
    monkeypatch.setattr(clusters, "MAX_ROWS", 1)
    cut = corpus.load(name="cut", dedup={"scope": scope})
    build_here(cut)
    assert kept_names(cut) == kept_names(whole)
    assert table_of(cut, "removed") == table_of(whole, "removed")
    assert table_of(cut, "clusters") == table_of(whole, "clusters")
