"""Small files that grow when they are read: bad rows or bad files, within bounds of memory and CPU time."""

import bz2
import gzip
import json
import os
import re
import struct

import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from bombs import run_bounded
from small_corpus import build_here, table_of, write_rows

from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.sources import reading
from zyda_flows.tasks.sources.file_rows import RowTally
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.outcomes import BadRecord, SkippedRecord, chunks_of_outcomes
from zyda_flows.tasks.sources.selection import ALL

MIB = 1 << 20
LONG = "x" * (8 << 20)


def members(compress, content, count):
    """Return a compressed file of `count` members."""
    return compress(content) * count


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, compression="zstd", **options)


def arrow(path, columns, make=pa.ipc.new_file, compression=None):
    batch = pa.record_batch(columns)
    with make(path, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)


def repeated(value, count):
    """Return a dictionary array of a single value with many rows."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


def runs(value, count):
    return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([value]))


def views(value, count):
    """Return many views of the same text."""
    _, one, *data = pa.array([value], pa.string_view()).buffers()
    return pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(one.to_pybytes()[:16] * count), *data]
    )


def list_views(length, count):
    starts, sizes = pa.array(np.zeros(count, np.int32)), pa.array(np.full(count, length, np.int32))
    return pa.ListViewArray.from_arrays(starts, sizes, pa.array(np.zeros(length, np.int8)))


def nested(length):
    """Return a row with a list of many numbers."""
    return pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), pa.array(np.zeros(length, np.int8)))


def footer_of_rows(path, claimed):
    """Write a file whose footer claims another number of rows, and damage its page."""
    pq.write_table(pa.table({"text": ["a text"] * 777}), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8].replace(varint(777), varint(claimed))
    body = bytearray(content[: -8 - size])
    body[12] ^= 0xFF
    path.write_bytes(bytes(body) + footer + struct.pack("<I", len(footer)) + b"PAR1")


def varint(number):
    """Return a field of 64 bits of Thrift's compact protocol, without its head."""
    number, parts = number << 1, []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def brackets():
    return zstandard.compress(b'{"text": "a", "x": [' + b"[]," * (16 * MIB) + b"[]]}\n")


def headed(compress, head, content, count):
    return compress(head) + members(compress, content, count)


GROWS = "more than 1,000 times its size"
SMALL = {"page_bytes": 32 * MIB, "batch_bytes": 16 * MIB, "ipc_bytes": 32 * MIB}  # so that tests write little
FEW = {"rows_without_text": 1 << 17}
lz4_frame = lz4.frame.compress
# The name of a file, its writer, the expected fault, and replaced limits. The file is written in a child process.
BOMBS = [
    ("one_value.parquet", lambda path: parquet(path, {"text": repeated(LONG, 100_000)}), GROWS, {}),
    ("other_column.parquet",
     lambda path: parquet(path, {"text": ["a"] * 100_000, "o": repeated(LONG, 100_000)}), GROWS, {}),
    ("nulls.parquet", lambda path: parquet(path, {"text": pa.nulls(2 * MIB, pa.string())}), "have no text", FEW),
    ("list.parquet", lambda path: parquet(path, {"text": ["a"], "l": nested(8 * MIB)}), "a row of up to .*", SMALL),
    ("page.parquet", lambda path: parquet(path, {"text": [LONG] * 6}, use_dictionary=False), "a page of .*", SMALL),
    ("pages.parquet",
     lambda path: parquet(path, {f"c{i}": ["x" * MIB] * 8 for i in range(10)} | {"text": ["a"] * 8},
                          use_dictionary=False), "pages of .* bytes", SMALL),
    ("delta.parquet",
     lambda path: parquet(path, {"text": [LONG] * 40}, use_dictionary=False,
                          column_encoding={"text": "DELTA_BYTE_ARRAY"}), GROWS, {}),
    ("rows.parquet", lambda path: footer_of_rows(path, 10**12), "rows 0 to 999,999,999,999", {}),
    ("one_value.arrow", lambda path: arrow(path, {"text": repeated(LONG, 100_000)}, compression="zstd"), GROWS, {}),
    ("stream.arrow", lambda path: arrow(path, {"text": repeated(LONG, 100_000)}, pa.ipc.new_stream, "lz4"), GROWS, {}),
    ("runs.arrow", lambda path: arrow(path, {"text": runs("a", 2 * 10**9)}), "2,000,000,000 values in", {}),
    ("runs_stream.arrow",
     lambda path: arrow(path, {"text": runs("a", 2 * 10**9)}, pa.ipc.new_stream), "2,000,000,000 values in", {}),
    ("long_runs.arrow", lambda path: arrow(path, {"text": runs(LONG, 100_000)}, compression="zstd"), GROWS, {}),
    ("nulls.arrow", lambda path: arrow(path, {"text": pa.nulls(2 * 10**9)}), "2,000,000,000 values in", {}),
    ("views.arrow", lambda path: arrow(path, {"text": views(LONG, 20_000)}, compression="zstd"), GROWS, {}),
    ("list_views.arrow",
     lambda path: arrow(path, {"text": ["a"] * 20_000, "l": list_views(MIB, 20_000)}, compression="zstd"), GROWS, {}),
    ("buffers.arrow",
     lambda path: arrow(path, {"text": ["a"], "b": pa.array([bytes(40 * MIB)])}, compression="zstd"),
     "its buffers have .* bytes, decompressed", SMALL),
    ("feeds.jsonl.bz2", lambda: members(bz2.compress, b"\n" * 9_000_000, 750), "have no text", FEW),
    ("feeds.jsonl.gz", lambda: members(gzip.compress, b"\n" * (16 * MIB), 100), "have no text", FEW),
    ("blanks.jsonl.zst", lambda: members(zstandard.compress, b" \r\n" * (16 * MIB), 100), "have no text", FEW),
    ("bad.jsonl.lz4", lambda: members(lz4_frame, b"x\n" * (4 * MIB), 60), "have no text", FEW),
    ("bad_lines.jsonl.zst", lambda: members(zstandard.compress, (b"x" * MIB + b"\n") * 64, 60), GROWS, {}),
    ("line.jsonl.zst", lambda: members(zstandard.compress, b"x" * (64 * MIB), 60), GROWS, {}),
    ("line.jsonl.bz2", lambda: members(bz2.compress, b"x" * (8 * MIB), 500), GROWS, {}),
    ("brackets.jsonl.zst", brackets, "more than 4,194,304 values in one line", {}),
    ("rows.csv.zst", lambda: headed(zstandard.compress, b"text,n\n", b"\n" * (64 * MIB), 90), "have no text", FEW),
    ("empty.csv.gz", lambda: headed(gzip.compress, b"text,n\n", b",\n" * (4 * MIB), 90), "have no text", FEW),
    ("quotes.csv.bz2", lambda: headed(bz2.compress, b"text,n\n", b'a","b\n' * MIB, 40), "quotes without an end",
     {"record_bytes": MIB, "rescanned_bytes": 8 * MIB}),
    ("tabs.tsv.lz4", lambda: headed(lz4_frame, b"text\tn\n", b"\n" * (16 * MIB), 30), "have no text", FEW),
    ("file.txt.gz", lambda: members(gzip.compress, b"a" * (16 * MIB), 90), "67,108,864 bytes", {}),
    ("file.md.bz2", lambda: members(bz2.compress, b"\n" * (9 * MIB), 700), "67,108,864 bytes", {}),
    ("file.txt.lz4", lambda: members(lz4_frame, b"a" * (16 * MIB), 30), "67,108,864 bytes", {}),
    ("file.md.zst", lambda: members(zstandard.compress, b"a" * (64 * MIB), 60), "67,108,864 bytes", {}),
]  # fmt: skip


def write_bomb(path, write):
    """Write a file with a function of its path, or with a function that returns its content."""
    if write.__code__.co_argcount:
        write(path)
    else:
        path.write_bytes(write())


def account_of(path):
    """Read a file like ingest, and return its documents, the reasons of its bad rows, and its counts."""
    file = InputFile(url=str(path), version="", size=path.stat().st_size)
    found = reading.inspect("odd", file, "text", 1 << 28, may_be_bad=True)
    documents, reasons, others, counted = 0, [], 0, 0
    if found.fault:
        return 0, [found.fault], 0, 0
    for piece in found.file.pieces:
        tally = RowTally()
        for chunk in reading.read("odd", found.file, piece, "text", tally):
            documents += len(chunk.rows)
            reasons += [(row.reason, row.is_rest) for row in chunk.bad]
            others += len(chunk.blank) + len(chunk.skipped)
        counted += sum(map(len, tally.read_ranges(piece.first_row))) + tally.rests
    return documents, sorted({reason for reason, _ in reasons}), documents + others + len(reasons), counted


def wrote_and_read(path, write, bounds):
    """Write a file in a child process, read it in another, and return the result."""
    run_bounded(write_bomb, path, write)
    assert path.stat().st_size < 3 * MIB
    with replaced_limits(**bounds):
        return run_bounded(account_of, path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "write", "message", "bounds"), BOMBS, ids=[name for name, *_ in BOMBS])
def test_file_that_grows_is_bad_rows_within_bounds(tmp_path, name, write, message, bounds):
    _, reasons, seen, counted = wrote_and_read(tmp_path / name, write, bounds).result
    assert any(re.search(message, reason) for reason in reasons), reasons
    assert seen == counted


@pytest.mark.slow
def test_build_goes_on_beside_files_that_grow_and_its_account_adds_up(corpus):
    chosen = {"one_value.parquet", "list.parquet", "rows.parquet", "runs.arrow", "nulls.arrow", "feeds.jsonl.gz",
              "rows.csv.zst", "file.txt.gz", "quotes.csv.bz2"}  # fmt: skip
    bounds = {**SMALL, "growth_from": MIB, "rows_without_text": 10_000, "rescanned_bytes": MIB, "record_bytes": MIB,
              "file_bytes": MIB}  # fmt: skip
    for name, write, *_ in BOMBS:
        if name in chosen:
            run_bounded(write_bomb, corpus.folder / "in" / f"odd-{name}", write)
    write_rows(corpus.folder / "in/odd-good.jsonl", [{"text": "a good text"}])
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/odd-*"}], on_bad_rows="set_aside")

    def build():
        with replaced_limits(**bounds):
            ledger = build_here(recipe)
        line, *later = [line for line in ledger.lines if line.source == "odd"]
        return (
            line.out.documents,
            line.set_aside.documents,
            sum(one.removed.documents + one.set_aside.documents for one in later),
        )

    out, aside, removed = run_bounded(build, cpu_seconds=300).result
    rows, kept = table_of(recipe, "set_aside"), table_of(recipe, "odd")
    assert (len(rows), len(kept)) == (aside, out - removed)
    assert {os.path.basename(row["file"]) for row in rows} == {f"odd-{name}" for name in chosen}
    assert "a good text" in {row["text"] for row in kept}


def test_inspection_holds_few_lines_of_any_size(tmp_path):
    line = json.dumps({"text": "a " * (14 * MIB)}).encode() + b"\n"
    (tmp_path / "x.jsonl.zst").write_bytes(members(zstandard.compress, line, 60))
    with replaced_limits(growth=10**6):
        file = InputFile(
            url=str(tmp_path / "x.jsonl.zst"), version="", size=(tmp_path / "x.jsonl.zst").stat().st_size
        )
        run = run_bounded(reading.inspect, "odd", file, "text", 1 << 28, may_be_bad=False, resident=1 << 30)
    assert run.result.names == ("text",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "count"),
    [
        ({"text": "", "n": ""}, 300_000),
        ({"text": "a", "n": "x" * MIB}, 100),
        ({"text": b"x" * MIB, "n": ""}, 100),
        (BadRecord("x" * MIB), 100),
        (BadRecord("x", b"x" * MIB), 100),
        (BadRecord("x"), 300_000),
        (SkippedRecord("x"), 300_000),
    ],
)
def test_chunks_are_limited_by_the_memory_of_all_fields(outcome, count):
    schema = pa.schema([("text", pa.large_string()), ("n", pa.string())])
    chunks = chunks_of_outcomes([outcome] * count, schema, "text", RowTally(), ALL)
    sizes = [chunk.count(RowTally()) for chunk in chunks]
    assert sum(sizes) == count
    assert max(sizes) < count
