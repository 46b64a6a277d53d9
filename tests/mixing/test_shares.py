"""Test that the copies of clusters equal a plain computation, for any distribution of documents over files."""

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.mixing import shares
from zyda_flows.tasks.mixing.shares import CorpusFile, shares_for_file, shares_of_files
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import footer_of, read_table, write_table

LAST_ID = (1 << 64) - 2
MEMBERSHIP = st.tuples(st.integers(0, 4) | st.just(LAST_ID), st.sampled_from([1, 2, 2, 3, 7, 60]))
ROW = st.lists(MEMBERSHIP, min_size=3, max_size=3)
ROWS = st.lists(ROW, max_size=40)
REPEATS = st.sampled_from([(), ((1, 1),), ((1, 1), (3, 3)), ((1, 2), (5, 0)), ((1, 1), (8, 255))])
# Rows in a part, and files and parts before they are gathered.
WAYS = {
    "whole": (1000, 64, 64), "parts": (5, 64, 64), "gathered": (5, 2, 64), "gathered whole": (1000, 3, 64),
    "many parts": (1000, 64, 2), "many parts of several": (5, 64, 2),
}  # fmt: skip


def plain_shares(rows_by_file, repeat):
    """Return the share of each document in a cluster with several documents."""
    members = defaultdict(list)
    for rows in rows_by_file:
        for corpus, doc_id, memberships in rows:
            represented = 1 + sum(size - 1 for _, size in memberships)
            for number, (cluster, size) in enumerate(memberships):
                if size > 1:
                    members[corpus, number, cluster].append((doc_id, represented))
    smallest = {}
    for (corpus, *_), documents in members.items():
        largest = max(represented for _, represented in documents)
        copies = [copies for size, copies in repeat if size <= largest]
        for rank, (doc_id, _) in enumerate(sorted(documents)):
            each, rest = divmod(copies[-1], len(documents)) if repeat else (1, 0)
            share = each + (rank < rest)
            if len(documents) > 1:
                key = corpus, doc_id
                smallest[key] = min(share, smallest.get(key, share))
    return smallest


def write_file(folder, number, rows, rounds):
    """Write the documents of a file with their clusters in some rounds, as a build publishes them."""
    columns = {"doc_id": pa.array([doc_id for _, doc_id, _ in rows], pa.uint64())}
    for place, end in zip(range(rounds), ("", "2", "3"), strict=False):
        columns[f"cluster_id{end}"] = pa.array([clusters[place][0] for *_, clusters in rows], pa.uint64())
        columns[f"cluster_size{end}"] = pa.array([clusters[place][1] for *_, clusters in rows], pa.uint32())
    return write_table(folder, f"{number}.parquet", str(number), pa.table(columns))


def shares_in(folder, artifacts, rows_by_file, repeat, run=lambda jobs: [job() for job in jobs]):
    """Return the share of each document by the exchange, with the number of rows that each job wrote."""
    corpus, salts = PublishedCorpus(folder.url, "corpus", ""), {"a": 3, "b": LAST_ID}
    files = [
        CorpusFile(corpus, artifact, salts[rows[0][0] if rows else "a"])
        for artifact, rows in zip(artifacts, rows_by_file, strict=True)
    ]
    clustered = sum(size > 1 for rows in rows_by_file for *_, clusters in rows for _, size in clusters)
    result = shares_of_files(folder, files, clustered, repeat, run)
    found = {}
    for number, (file, rows) in enumerate(zip(files, rows_by_file, strict=True)):
        share, has_share = shares_for_file(result.files(number), number).of(
            read_table(folder, file.artifact), file.salt
        )
        for (label, doc_id, _), copies, is_shared in zip(rows, share.tolist(), has_share, strict=True):
            if is_shared:
                found[label, doc_id] = copies
    return found


@settings(max_examples=30, deadline=None)
@given(
    all_rows=ROWS, places=st.lists(st.integers(0, 5), min_size=40, max_size=40), order=st.randoms(),
    repeat=REPEATS, rounds=st.integers(1, 3), way=st.sampled_from(sorted(WAYS)),
)  # fmt: skip
def test_shares_equal_the_plain_computation(tmp_path_factory, all_rows, places, order, repeat, rounds, way):
    """Files have documents of one of two corpora, in which clusters have the same ids."""
    rows_by_file = [[] for _ in range(6)]
    ids = sorted(order.sample(range(100), len(all_rows)))
    for doc_id, clusters, place in zip(ids, all_rows, places, strict=False):
        rows_by_file[place].append(("ab"[place % 2], doc_id, clusters[:rounds]))
    folder = Folder(str(tmp_path_factory.mktemp("files")))
    artifacts = [write_file(folder, number, rows, rounds) for number, rows in enumerate(rows_by_file)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_names, "PART_ROWS", WAYS[way][0])
        patch.setattr(exchange, "MOST_FILES", WAYS[way][1])
        patch.setattr(exchange, "MOST_PARTS", WAYS[way][2])
        patch.setattr(shares, "MOST_COPIES", max((copies for _, copies in repeat), default=0))
        found = shares_in(folder, artifacts, rows_by_file, repeat)
    assert found == plain_shares(rows_by_file, repeat)


def largest_tasks(folder, monkeypatch, files):
    """Distribute the copies of one cluster with 50 documents in each file; return the rows read by the largest task."""
    monkeypatch.setattr(exchange, "MOST_FILES", 4)
    monkeypatch.setattr(shares, "MOST_COPIES", 5)
    rows_by_file = [[("a", 1000 * f + row, [(7, 50 * files)]) for row in range(50)] for f in range(files)]
    artifacts = [write_file(folder, number, rows, 1) for number, rows in enumerate(rows_by_file)]
    largest, read = defaultdict(int), []
    part_columns = exchange.PartJob.part_columns

    def counted(job, schema):
        columns, places = part_columns(job, schema)
        read.append(len(places))
        return columns, places

    def run(jobs):
        results = []
        for job in jobs:
            read.clear()
            results.append(job())
            name = type(job).__name__
            largest[name] = max(largest[name], results[-1].rows, *read)
        return results

    monkeypatch.setattr(exchange.PartJob, "part_columns", counted)
    found = shares_in(folder, artifacts, rows_by_file, ((1, 1), (50, 5)), run)
    monkeypatch.undo()
    assert found == plain_shares(rows_by_file, ((1, 1), (50, 5)))
    return largest


def test_cluster_in_all_files_needs_a_row_for_each_file(tmp_path, monkeypatch):
    for files in (16, 64):
        largest = largest_tasks(Folder(str(tmp_path / str(files))), monkeypatch, files)
        groups = -(-files // exchange.files_together(files))
        assert largest["ClusteredDocuments"] == 5
        assert largest["GatheredClusters"] <= exchange.files_together(files) + 5
        assert largest["CopiesOfClusters"] <= files + 5 * groups
        assert largest["GatheredRows"] <= files


def test_readers_of_one_file_decode_the_footers_of_few(tmp_path, monkeypatch):
    """The shares of 64 files are in one part, whose file would have a row group for each of them."""
    monkeypatch.setattr(exchange, "MOST_PARTS", 8)
    folder = Folder(str(tmp_path))
    rows_by_file = [[("a", 10 * f + row, [(f // 2, 4)]) for row in range(2)] for f in range(64)]
    artifacts = [write_file(folder, number, rows, 1) for number, rows in enumerate(rows_by_file)]
    row_groups = []

    def run(jobs):
        made = [job() for job in jobs]
        row_groups.extend(footer_of(folder, artifact).num_row_groups for artifact in made)
        return made

    found = shares_in(folder, artifacts, rows_by_file, ((1, 3),), run)
    assert found == plain_shares(rows_by_file, ((1, 3),))
    assert max(row_groups) == 8
