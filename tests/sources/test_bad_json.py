"""Invalid lines of JSON: nesting, large numbers and long runs of bad lines."""

import gzip
import json

import pytest
import zstandard
from small_corpus import build_here, table_of

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.sources.byte_lines import ByteLines, slices_of
from zyda_flows.tasks.sources.file_rows import RowTally
from zyda_flows.tasks.sources.formats import jsonl
from zyda_flows.tasks.sources.streams import open_input

GOOD_LINE = json.dumps({"name": "good", "text": "a good text"}).encode() + b"\n"


def nested(levels, opening="[", end="]"):
    return b'{"x": %s, "text": "deep"}\n' % (opening * levels + "1" + end * levels).encode()


DEEP = [
    GOOD_LINE,
    nested(1000),
    nested(100_000),
    nested(1000, '{"a":', "}"),
    nested(190),
    nested(190, '{"a":', "}"),
]


def test_deeply_nested_json_is_a_bad_row_also_among_the_first_rows(corpus):
    (corpus.folder / "in/x.jsonl").write_bytes(b"".join(DEEP))
    odd = {"name": "odd", "files": "in/x.jsonl"}
    recipe = corpus.load(sources=[odd], on_bad_rows="set_aside")
    assert build_here(recipe).of("ingest").documents == 3
    reasons = {row["row"]: row["reason"] for row in table_of(recipe, "set_aside")}
    assert reasons == dict.fromkeys((1, 2, 3), "lists and objects in more than 200 levels")
    with pytest.raises(ZydaError, match=r"x\.jsonl, row 1 .* more than 200 levels"):
        build_here(corpus.load(name="fail", sources=[odd]))


@pytest.mark.parametrize("number", ["9" * 4000, "-" + "9" * 310, "1e999"])
def test_number_above_the_range_of_floats_is_reported_as_too_large(corpus, number):
    (corpus.folder / "in/x.jsonl").write_bytes(GOOD_LINE + b'{"text": "t", "n": %s}\n' % number.encode())
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl"}], on_bad_rows="set_aside")
    build_here(recipe)
    assert table_of(recipe, "set_aside")[0]["reason"].startswith("a number of more than 1.8e+308")


@pytest.mark.parametrize("line", [b"\n", b" \n", b"x\n"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_blank_and_bad_lines_are_yielded_in_chunks(tmp_path, line, pack):
    path = tmp_path / f"x.jsonl.{'gz' if pack is gzip.compress else 'zst'}"
    path.write_bytes(pack(GOOD_LINE + line * 100_000 + GOOD_LINE))
    tally, good, others = RowTally(), 0, 0
    with open_input("odd", str(path), path.stat().st_size, at_random=False) as stream:
        for chunk in jsonl.chunks_of_lines(ByteLines(stream), "text", tally, most_others=1000):
            assert len(chunk.bad) + len(chunk.blank) <= 1000
            good, others = good + len(chunk.rows), others + len(chunk.bad) + len(chunk.blank)
    assert (good, others, tally.rows) == (2, 100_000, 100_002)


def test_decoder_output_is_split_into_slices():
    parts = list(slices_of([b"0123456789ab", b"", b"c"], 10))
    assert parts == [b"0123456789", b"ab", b"c"]
