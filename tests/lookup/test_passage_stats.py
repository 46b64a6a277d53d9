"""Statistics of repeated passages, compared with statistics of all rows by plain Python."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import SOURCE_SHIFT
from zyda_flows.tasks.lookup.passage_stats import LENGTH_ENDS, LISTED, passage_stats
from zyda_flows.tasks.passages.marks import PASSAGES
from zyda_flows.tasks.publish.built_corpus import table_file
from zyda_flows.tasks.stage import trees
from zyda_flows.tasks.storage.tables import write_artifact


def made(seed, count=3000):
    """Make rows of PASSAGES: few hashes, so that most passages have copies; each hash has a number of documents."""
    random = np.random.default_rng(seed)
    ids = np.sort(random.integers(0, 3, count).astype(np.uint64) << np.uint64(SOURCE_SHIFT))
    ids += np.sort(random.integers(0, 400, count)).astype(np.uint64)
    rows = []
    for doc_id in np.sort(ids).tolist():
        part, number = int(random.integers(1, 4)), int(random.zipf(1.5)) % 200
        start = int(random.integers(0, 10**5))
        rows.append({
            "doc_id": doc_id, "part": part, "start": start, "end": start + 1 + int(random.zipf(1.3)) % 10**6,
            "owner_id": doc_id if random.random() < 0.3 else number, "owner_start": 0,
            "documents": 2 + number % 50, "hash": b"%08d" % number * 2,
        })  # fmt: skip
    return rows


class PassageTables(PublishedCorpus):
    """A published corpus without a manifest, which has only the files that are added to `listed`."""

    def files(self, prefix=""):
        return [file for file in self.listed if file.path.startswith(prefix)]


def corpus_in(folder, rows, files):
    """Write passages in some files, whole documents in each, and return a corpus that has only these files."""
    corpus, listed = PassageTables(str(folder), "small", ""), []
    for number, ids in enumerate(np.array_split(sorted({row["doc_id"] for row in rows}), files)):
        own = [row for row in rows if row["doc_id"] in set(ids.tolist())]
        path, table = f"passages/{number}.parquet", pa.Table.from_pylist(own, PASSAGES)
        shard = write_artifact(
            corpus.folder, path, f"{number}", lambda out, t=table: pq.write_table(t, out, row_group_size=70)
        )
        listed.append(table_file("passages", shard).model_copy(update={"path": path}))
    vars(corpus)["listed"] = listed
    return corpus


def best_of(rows, measure):
    """Return, for each part, the LISTED rows of the highest measure, one for each hash."""
    listed = []
    for part in sorted({row["part"] for row in rows}):
        best = {}
        for row in (row for row in rows if row["part"] == part):
            rank = (-measure(row), row["doc_id"], row["start"])
            best[row["hash"]] = min(best.get(row["hash"], rank), rank)
        listed += [(part, *rank) for rank in sorted(best.values())[:LISTED]]
    return listed


def length(row):
    return row["end"] - row["start"]


@pytest.mark.parametrize(("files", "fan_in"), [(1, 64), (7, 2)])
@pytest.mark.parametrize("seed", range(2))
def test_statistics_do_not_depend_on_files(tmp_path, monkeypatch, seed, files, fan_in):
    monkeypatch.setattr(trees, "FAN_IN", fan_in)
    rows = made(seed)
    stats = passage_stats(corpus_in(tmp_path, rows, files))
    assert stats.documents == Counter(doc_id >> SOURCE_SHIFT for doc_id in {row["doc_id"] for row in rows})
    for part, counts in stats.lengths.items():
        expected = np.histogram(
            [length(row) for row in rows if row["part"] == part], [*LENGTH_ENDS, LENGTH_ENDS[-1] * 2]
        )
        assert counts.tolist() == expected[0].tolist()
    copies = [row for row in rows if row["doc_id"] != row["owner_id"]]
    found = [(p.part, -(p.end - p.start), p.doc_id, p.start) for p in stats.longest]
    assert found == best_of(copies, length)
    found = [(p.part, -p.documents, p.doc_id, p.start) for p in stats.most_shared]
    assert found == best_of(rows, lambda row: row["documents"])


def test_passages_are_counted_once(tmp_path):
    corpus = corpus_in(tmp_path, made(0, 100), 2)
    first = passage_stats(corpus)
    assert passage_stats(corpus, run_jobs=None).longest == first.longest
