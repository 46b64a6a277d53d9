"""Thrift's compact protocol: heads of Parquet pages, valid and hostile."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zyda_flows.tasks.sources.formats.thrift import MalformedThrift, struct_at

LIST_OF_LISTS, STRUCT, MAP = b"\x19", b"\x1c", b"\x1b"


def test_head_that_pyarrow_wrote_is_read():
    """An uncompressed page of 100 numbers without levels states the size of its bytes."""
    content = io.BytesIO()
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    table = pa.table({"n": range(100)}, schema=schema)
    pq.write_table(table, content, compression="none", use_dictionary=False)
    written = content.getvalue()
    column = pq.ParquetFile(content).metadata.row_group(0).column(0)
    head, place = struct_at(written, column.data_page_offset)
    assert (head[2], head[3], head[5][1]) == (800, 800, 100)
    assert column.data_page_offset + column.total_compressed_size == place + 800


@pytest.mark.parametrize("value", [b"\x01\x88\x01a\x01b", b"\x00"], ids=["one pair", "empty"])
def test_maps_are_passed_over(value):
    assert struct_at(MAP + value + b"\x15\x04\x00", 0) == ({1: None, 2: 2}, len(value) + 4)


@pytest.mark.parametrize(
    "nested",
    [LIST_OF_LISTS * 5000, STRUCT * 5000, MAP + b"\x01\xbb" * 5000],
    ids=["lists", "structs", "maps"],
)
def test_values_in_too_many_levels_are_malformed(nested):
    with pytest.raises(MalformedThrift, match="too many levels"):
        struct_at(nested, 0)


@pytest.mark.parametrize("length", range(8))
def test_cut_head_is_malformed(length):
    whole = b"\x15\x00\x15\xa0\x0c\x2c\x15\xc8\x01\x00\x00"
    assert struct_at(whole, 0)[1] == len(whole)
    with pytest.raises(MalformedThrift):
        struct_at(whole[:length], 0)
