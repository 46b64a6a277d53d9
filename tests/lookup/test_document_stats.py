"""Statistics of published documents, compared with statistics of all rows by plain Python."""

from collections import Counter
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.accounts.published import MANIFEST
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.lookup import costs
from zyda_flows.tasks.lookup.document_counting import LENGTH_BINS, LabelsInPart, SumOfDocuments
from zyda_flows.tasks.lookup.document_stats import document_stats
from zyda_flows.tasks.lookup.new_words import LISTED, most_new_words
from zyda_flows.tasks.publish.built_corpus import table_file
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.stage import trees
from zyda_flows.tasks.storage.tables import read_table, write_artifact

FILES, ROWS = 5, 120
NUMBERS = {"plain": 7, "judged": 3, "scored": 0}  # of the sources
ROUND = SimpleNamespace(name_of=lambda name: name)


class DocumentTables(PublishedCorpus):
    """A published corpus without a manifest, which has only the files that are added to `listed`."""

    def files(self, prefix=""):
        return [file for file in self.listed if file.path.startswith(prefix)]


def document(random, source):
    """Make a row; documents of different sources share clusters, and some have no label or no cluster."""
    cluster = int(random.integers(1, 150)) << 50
    row = {
        "n_tokens": int(random.choice([0, 1, 9, 40, 1_000, 10**6, 10**7])),
        "cluster_id": None if random.random() < 0.1 else cluster,
        "cluster_size": 1 if random.random() < 0.2 else 3,
    }
    label = None if random.random() < 0.1 else str(random.choice(["High", "Low", "Medium"]))
    return row if source == "plain" else {**row, "quality_pred": label}


def removal(random, number):
    row = {
        "doc_id": number,
        "kept_doc_id": number + 1,
        "cosine": 0.9,
        "novel": float(random.integers(0, 9)) / 8,
    }
    stage = str(random.choice(["rules", "removals2", "removals3"]))
    also = [["other"], ["one", "two"], [], None][number % 4]
    return {**row, "stage": stage, "reason": str(random.choice(["short", "long"])), "also": also}


@pytest.fixture
def published(tmp_path):
    """Return a corpus and its rows by folder: documents of three sources, and removed documents."""
    random, corpus, listed, rows = (
        np.random.default_rng(3),
        DocumentTables(str(tmp_path), "some", sha256(b"{}").hexdigest()),
        [],
        {},
    )
    for source in NUMBERS:
        rows[source] = [document(random, source) for _ in range(FILES * ROWS)]
    for i, source in enumerate(NUMBERS):
        first = i * FILES * ROWS
        rows[f"removed/{source}"] = [removal(random, first + number) for number in range(FILES * ROWS)]
    types = {"cluster_id": pa.uint64(), "doc_id": pa.uint64(), "kept_doc_id": pa.uint64(), "cosine": pa.float32(),
             "novel": pa.float32(), "n_tokens": pa.uint32(), "cluster_size": pa.uint32(), "also": pa.list_(pa.string())}  # fmt: skip
    for folder, some in rows.items():
        schema = pa.schema([(name, types.get(name, pa.string())) for name in some[0]])
        for number in range(FILES):
            table = pa.Table.from_pylist(some[number * ROWS : (number + 1) * ROWS], schema)
            path = f"{folder}/{number}.parquet"
            shard = write_artifact(
                corpus.folder,
                path,
                str(number),
                lambda out, t=table: pq.write_table(t, out, row_group_size=50),
            )
            listed.append(table_file(folder, shard).model_copy(update={"path": path}))
    corpus.folder.write(MANIFEST, b"{}")
    ledger = SimpleNamespace(sources=[*NUMBERS], removed_by=lambda stage, source: {"short": 1})
    made_of = [SimpleNamespace(source=name, number=number) for name, number in NUMBERS.items()]
    vars(corpus).update(listed=listed, manifest=SimpleNamespace(ledger=ledger, made_of=made_of))
    return corpus, rows


def removals(rows):
    return [row for source in NUMBERS for row in rows[f"removed/{source}"]]


def plain_labels(rows):
    """Count the clusters with several labelled documents by their number of different labels."""
    clusters = {}
    for row in (*rows["judged"], *rows["scored"]):
        if row["cluster_size"] > 1 and row["cluster_id"] is not None and row["quality_pred"] is not None:
            clusters.setdefault(row["cluster_id"], []).append(row["quality_pred"])
    return Counter(len(set(labels)) for labels in clusters.values() if len(labels) > 1)


LIMITS = {
    "one task": {},
    "many tasks": {
        (trees, "FAN_IN"): 2, (document_names, "PART_ROWS"): 100, (exchange, "MOST_FILES"): 4,
        (exchange, "MOST_PARTS"): 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_counts_do_not_depend_on_the_size_of_tasks(published, monkeypatch, limits):
    for (module, name), value in limits.items():
        monkeypatch.setattr(module, name, value)
    corpus, rows = published
    stats = document_stats(corpus, ROUND)
    assert stats.different_labels == plain_labels(rows)
    assert len(stats.different_labels) == 3
    for source in NUMBERS:
        lengths = [row["n_tokens"] for row in rows[source]]
        assert stats.documents[source] == len(lengths)
        assert stats.lengths[source].tolist() == np.histogram(lengths, LENGTH_BINS)[0].tolist()
    assert stats.not_drawn == sum(row["n_tokens"] in {0, 10**7} for name in NUMBERS for row in rows[name])
    labels = Counter((str(row["quality_pred"]), name) for name in ("judged", "scored") for row in rows[name])
    assert {(label, name): n for label, own in stats.labels.items() for name, n in own.items()} == labels
    also = [row["reason"] for row in removals(rows) if row["stage"] == "rules" and row["also"]]
    assert stats.matched_by_others == Counter(also)


def test_documents_are_counted_once_for_a_round(published):
    corpus, _ = published
    first = document_stats(corpus, ROUND)
    again = document_stats(corpus, ROUND, run_jobs=None)
    assert (again.documents, again.different_labels) == (first.documents, first.different_labels)
    with pytest.raises(TypeError):  # it runs jobs
        document_stats(corpus, SimpleNamespace(name_of=lambda name: f"{name}2"), run_jobs=None)


def test_no_table_grows_with_the_clusters(published, monkeypatch):
    """A table of sums, and a table of a part, has a row for each number of labels, not for each cluster."""
    corpus, _ = published
    tables = []

    def recorded(jobs):
        made = [job() for job in jobs]
        some = [
            m for job, m in zip(jobs, made, strict=True) if isinstance(job, LabelsInPart | SumOfDocuments)
        ]
        tables.extend(read_table(corpus.root, artifact) for artifact in some)
        return made

    document_stats(corpus, ROUND, recorded)
    assert tables
    assert all(len(table) < 70 * len(NUMBERS) for table in tables)
    kinds = Counter(kind for table in tables for kind in table.column("kind").to_pylist() if kind == 4)
    assert kinds[4] <= 3 * len(tables)


def test_planned_jobs_are_the_jobs_that_count(published, monkeypatch):
    for (module, name), value in LIMITS["many tasks"].items():
        monkeypatch.setattr(module, name, value)
    corpus, _ = published
    counting, listing = [], []
    document_stats(corpus, ROUND, lambda jobs: [counting.append(job) or job() for job in jobs])
    most_new_words(corpus, "removals2", lambda jobs: [listing.append(job) or job() for job in jobs])
    monkeypatch.setattr(costs, "document_files", lambda *_: dict.fromkeys(NUMBERS, FILES))
    workload = SimpleNamespace(sources={name: SimpleNamespace(documents=FILES * ROWS) for name in NUMBERS})
    sources = {name: SimpleNamespace(classify=name != "plain") for name in NUMBERS}
    recipe = SimpleNamespace(has_steps=True, source=sources.get, rounds=[SemanticRound.model_construct()])
    assert costs.documents_cost(workload, recipe).spent.calls == len(counting)
    assert costs.new_words_cost(workload, recipe).spent.calls == len(listing)


def test_damaged_file_is_an_error_that_names_it(published):
    corpus, _ = published
    path = corpus.folder.files("judged")[2]
    corpus.folder.write(path, corpus.folder.read(path)[:-1])
    with pytest.raises(Denied, match=f"{path} has .* bytes, expected .*zyda verify --repair"):
        document_stats(corpus, ROUND)


@pytest.mark.parametrize("fan_in", [2, 64])
def test_documents_with_the_most_new_words_are_listed(published, monkeypatch, fan_in):
    monkeypatch.setattr(trees, "FAN_IN", fan_in)
    corpus, rows = published
    removed = [row for row in removals(rows) if row["stage"] == "removals2"]
    most = sorted(removed, key=lambda row: (-row["novel"], row["doc_id"]))[:LISTED]
    table = most_new_words(corpus, "removals2")
    assert table.column("doc_id").to_pylist() == [row["doc_id"] for row in most]
    assert table.column("novel").to_pylist() == [row["novel"] for row in most]
