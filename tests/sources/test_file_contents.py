"""The contents of input files: byte order marks, padding, long lines and damaged files."""

import gzip
import io
import json
import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, table_of, write_rows
from source_documents import DOCUMENTS, LINE

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.sources.byte_lines import ByteLines

pytestmark = pytest.mark.early(4)


def built(corpus, name, content, **changes):
    (corpus.folder / "in" / name).write_bytes(content)
    recipe = corpus.load(sources=[{"name": "odd", "files": f"in/{name}"}], **changes)
    (found,) = prepare.fn(recipe)
    return recipe, ingest(recipe, found)


def test_byte_order_mark_is_no_part_of_the_first_row(corpus):
    assert built(corpus, "x.jsonl", b"\xef\xbb\xbf" + LINE * 3)[1].out.documents == 3


def test_zeros_behind_gzip_are_padding_and_anything_else_is_damage(corpus):
    assert built(corpus, "x.jsonl.gz", gzip.compress(LINE * 3) + bytes(1000))[1].out.documents == 3
    _, done = built(corpus, "y.jsonl.gz", gzip.compress(LINE * 3) + bytes(9) + b"x", on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (3, 1)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst", "x.parquet", "x.arrow"])
def test_file_of_no_bytes_is_damage_where_its_form_has_a_head(corpus, name):
    (corpus.folder / "in" / name).write_bytes(b"")
    with pytest.raises(ZydaError, match=rf"source odd, file .*{name}: each of its files has 0 bytes"):
        built(corpus, name, b"")
    write_rows(corpus.folder / "in/y.jsonl", DOCUMENTS)
    sources = [{"name": "odd", "files": [f"in/{name}", "in/y.jsonl"], "on_bad_rows": "set_aside"}]
    recipe = corpus.load(sources=sources)
    build_here(recipe)
    (aside,) = table_of(recipe, "set_aside")
    assert aside["file"].endswith(name)
    assert "the file is damaged" in aside["reason"]


def test_json_array_is_reported_as_not_json_lines(corpus):
    one = json.dumps({"text": "some text"})
    for content in (
        f"[{one}]",
        f"[\n{one},\n{one}\n]",
        json.dumps(json.loads(one), indent=1),
        f"[{one}," * 40_000,
    ):
        with pytest.raises(
            ZydaError, match=r"odd, file .*x\.json, .*looks like one JSON value, expected a line"
        ):
            built(corpus, "x.json", content.encode(), on_bad_rows="set_aside")


def test_line_that_is_too_long_is_a_row_that_is_set_aside(corpus):
    long = json.dumps({"text": "long " * 500_000}).encode() + b"\n"
    with replaced_limits(line_bytes=1 << 20):
        _, done = built(corpus, "x.jsonl", LINE + long + LINE + long.strip(), on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (2, 2)


class LookedAt(bytes):
    """Bytes that count how many bytes are searched or copied, also in values made from them."""

    total = 0

    def split(self, *given):
        LookedAt.total += len(self)
        return [LookedAt(part) for part in super().split(*given)]

    def count(self, *given):
        LookedAt.total += len(self)
        return super().count(*given)

    def __getitem__(self, place):
        return LookedAt(super().__getitem__(place))

    def __add__(self, other):
        LookedAt.total += len(self) + len(other)
        return LookedAt(super().__add__(other))


def test_each_byte_of_a_long_line_is_looked_at_a_few_times_however_long_it_is():
    size = 16 << 20
    content = io.BytesIO(b"x" * size + b"\n" + LINE)
    stream = SimpleNamespace(url="x.jsonl", read=lambda block: LookedAt(content.read(block)))
    assert [len(line) for line in ByteLines(stream)] == [size, len(LINE) - 1]
    assert size < LookedAt.total < 4 * size


def test_damaged_arrow_file_reports_the_number_of_lost_rows(corpus):
    path = corpus.folder / "in/x.arrow"
    table = pa.Table.from_pylist(DOCUMENTS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, 10)
    content = bytearray(path.read_bytes())
    place = content.index(DOCUMENTS[35]["text"][:20].encode()) - 600
    head = content.rindex(b"\xff\xff\xff\xff", 0, place)
    content[head : head + 40] = bytes(40)
    recipe, done = built(corpus, "x.arrow", bytes(content), on_bad_rows="set_aside")
    assert (done.out.documents, done.set_aside.documents) == (30, 1)
    folder = recipe.folder
    (aside,) = [path for path in folder.files("work/set_aside") if path.endswith(".parquet")]
    (row,) = pq.read_table(folder.path(aside)).to_pylist()
    assert row["row"] == 30
    assert "the file is damaged from here on" in row["reason"]


def test_first_line_that_is_broken_does_not_hide_the_columns_of_the_others(corpus):
    content = b"broken\n" + b'{"body": "a"}\n' * 3
    with pytest.raises(ZydaError, match="no column 'text'; there are 'body'"):
        built(corpus, "x.jsonl", content, on_bad_rows="set_aside")


def test_parquet_with_duplicate_column_names_raises(corpus):
    table = pa.table([["a"], ["b"], ["c"]], names=["text", "twice", "twice"])
    pq.write_table(table, corpus.folder / "in/x.parquet")
    with pytest.raises(ZydaError, match=r"x\.parquet: two columns are called 'twice'"):
        prepare.fn(corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}]))


def test_gzip_is_read_up_to_shortly_before_a_damaged_byte(corpus):
    lines = b"".join(b'{"text": "%s"}\n' % os.urandom(60).hex().encode() for _ in range(3000))
    content = bytearray(gzip.compress(lines, mtime=0))
    content[len(content) // 2] ^= 16
    (corpus.folder / "in/x.jsonl.gz").write_bytes(bytes(content))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl.gz"}], on_bad_rows="set_aside")
    documents = build_here(recipe).of("ingest").documents
    set_aside = table_of(recipe, "set_aside")  # all that follows, and lines that the bit made others of
    assert 1000 < documents <= 3001
    assert set_aside[-1]["reason"].startswith("the file is damaged from here on")
