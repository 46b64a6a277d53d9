"""Contexts of phrases, counted in a tree of tasks, compared with counts by plain Python."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.documents import phrase_contexts
from zyda_flows.tasks.documents.phrase_contexts import SURROUNDINGS, count_contexts
from zyda_flows.tasks.stage import trees
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import write_table

MOST = 5


def shards_in(folder, number, seed=0):
    """Write the contexts of some shards, and return their artifacts and the contexts of each phrase."""
    random, contexts, shards = np.random.default_rng(seed), defaultdict(set), []
    phrases = [0, 1, 2**63, 2**64 - 1, *random.integers(0, 2**64, 20, dtype=np.uint64).tolist()]
    for shard in range(number):
        rows = {
            (phrases[random.integers(len(phrases))], int(random.integers(0, 12)))
            for _ in range(int(random.integers(40)))
        }
        for phrase, around in rows:
            contexts[phrase].add(around)
        columns = [np.array([row[i] for row in sorted(rows)], np.uint64) for i in (0, 1)]
        table = pa.table(columns, schema=SURROUNDINGS)
        shards.append(write_table(folder, f"work/{number}-{shard}.parquet", f"{shard}", table, 7))
    return shards, contexts


@pytest.mark.parametrize("limits", [{}, {"fan_in": 3, "rows": 20, "group": 4}])
@pytest.mark.parametrize("number", [0, 1, 30])
def test_contexts_are_counted_up_to_the_limit(tmp_path, monkeypatch, number, limits):
    monkeypatch.setattr(trees, "FAN_IN", limits.get("fan_in", 64))
    monkeypatch.setattr(phrase_contexts, "PART_ROWS", limits.get("rows", 1 << 23))
    monkeypatch.setattr(phrase_contexts, "GROUP_ROWS", limits.get("group", 1 << 16))
    folder = Folder(str(tmp_path))
    shards, contexts = shards_in(folder, number)
    counts, paths = count_contexts(folder, shards, MOST)
    assert counts.to_pylist() == [
        {"phrase": phrase, "surroundings": min(len(around), MOST)}
        for phrase, around in sorted(contexts.items())
    ]
    assert all(folder.exists(path) for path in paths)
    assert (len([path for path in paths if "/counts-" in path]) > 1) == (bool(limits) and number == 30)


def test_largest_task_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """Most tables and rows that a task reads, for a corpus and for one of four times as many shards."""
    for module, name, value in [
        (trees, "FAN_IN", 4),
        (phrase_contexts, "PART_ROWS", 20),
        (phrase_contexts, "GROUP_ROWS", 4),
    ]:
        monkeypatch.setattr(module, name, value)
    largest = {}
    read_row_group, read = pq.ParquetFile.read_row_group, []

    def reading(self, *arguments, **options):
        table = read_row_group(self, *arguments, **options)
        read.append(len(table))
        return table

    def contexts_of(part):
        read.clear()
        table = contexts(part)
        sizes.append((len(part.tables), sum(read), len(table)))
        return table

    contexts = phrase_contexts.ContextsOfPart.contexts
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", reading)
    monkeypatch.setattr(phrase_contexts.ContextsOfPart, "contexts", contexts_of)
    for number in (16, 64):
        sizes = []
        folder = Folder(str(tmp_path / str(number)))
        count_contexts(folder, shards_in(folder, number)[0], MOST)
        largest[number] = tuple(map(max, zip(*sizes, strict=True)))
    assert all(after <= 1.5 * before for before, after in zip(largest[16], largest[64], strict=True)), largest
