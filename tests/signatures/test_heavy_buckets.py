"""Buckets that exceed a task have the same edges when they are read in batches."""

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import build_here, contents, rows, write_rows

from zyda_flows.tasks.signatures import bands, edges
from zyda_flows.tasks.signatures.bands import BAND_ROWS, WIDE_ROWS, KeyRange, read_range, write_band_rows
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import write_artifact

HEAVY = [7, 11]
RANGES = [KeyRange(0, 1 << 64), KeyRange(7, 8), KeyRange(8, 1 << 63), KeyRange(0, 7), KeyRange(5, 12)]


def files_of_keys(folder, *, wide):
    """Write files of keys in which most documents have either of two keys, in row groups of four."""
    chance, shards = np.random.default_rng(3), []
    for number in range(3):
        upper = np.sort(np.concatenate([chance.integers(0, 15, 60), np.repeat(HEAVY, 40)])).astype(np.uint64)
        keys = np.stack([upper, chance.integers(0, 3, len(upper), np.uint64)], axis=1) if wide else upper
        ids = np.arange(1000 * number, 1000 * number + len(upper), dtype=np.uint64)
        parts = [(band, keys, ids) for band in range(2)]
        schema = WIDE_ROWS if wide else BAND_ROWS

        def fill(scratch, parts=parts, schema=schema):
            write_band_rows(scratch, parts, schema, group_rows=4)

        shards.append(write_artifact(folder, f"{number}.parquet", str(number), fill))
    return shards


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("keys", RANGES, ids=str)
def test_edges_in_batches_equal_edges_of_all_rows(tmp_path, monkeypatch, keys, wide):
    folder = Folder(str(tmp_path))
    shards = files_of_keys(folder, wide=wide)
    found, doc_ids = read_range(folder, shards, 1, keys)
    whole = edges.star_edges(found, doc_ids)
    monkeypatch.setattr(edges, "MOST_ROWS", 20)
    tables, counts = zip(*edges.edges_in(folder, shards, 1, keys), strict=True)
    assert sum(counts) == len(found)
    is_heavy = any(keys.low <= key < keys.high for key in HEAVY)
    assert (len(tables) > 4) == is_heavy
    if keys == KeyRange(7, 8):
        assert max(map(len, tables)) <= 20 + 4
    order = [("b", "ascending"), ("a", "ascending")]
    assert pa.concat_tables(tables).sort_by(order) == whole.sort_by(order)


def test_corpus_does_not_depend_on_the_batch_size_of_buckets(corpus, monkeypatch):
    write_rows(corpus.folder / "in/best-z.parquet", rows(**{f"n{i}": "one page " * 40 for i in range(60)}))
    whole = corpus.load(dedup={"scope": "global"})
    build_here(whole)
    monkeypatch.setattr(bands, "GROUP_ROWS", 8)
    monkeypatch.setattr(bands.write_band_rows, "__defaults__", (BAND_ROWS, 8))
    monkeypatch.setattr(edges, "MOST_ROWS", 16)
    cut = corpus.load(storage=str(corpus.folder / "cut"), dedup={"scope": "global"})
    build_here(cut)
    assert any("-00000-3-" in path for path in cut.folder.files("work/edges"))
    assert contents(cut) == contents(whole)
