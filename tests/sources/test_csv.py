"""CSV and TSV: quotes, separators and damaged files."""

import bz2
import gzip
import tracemalloc

import pytest
import zstandard
from small_corpus import prose
from web_archives import read_file

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import FORMATS, format_of

CSV = 'text,title\r\n"one, with ""quotes""",a\r\n"on two\r\nlines",b\r\n\r\nshort\r\nthree,c,d\r\nlast,é\r\n'


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("x.csv", bytes),
        ("x.csv.gz", gzip.compress),
        ("x.csv.zst", zstandard.compress),
        ("x.csv.bz2", bz2.compress),
    ],
)
def test_csv_records_are_rows_with_any_quoted_content(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress(b"\xef\xbb\xbf" + CSV.encode()))
    documents, bad, skipped = read_file(tmp_path / name)
    assert documents == [
        {"text": 'one, with "quotes"', "title": "a"}, {"text": "on two\r\nlines", "title": "b"},
        {"text": "last", "title": "é"},
    ]  # fmt: skip
    assert [(row.row, row.reason) for row in bad] == [
        (3, "it has 1 fields, expected 2"), (4, "it has 3 fields, expected 2"),
    ]  # fmt: skip
    assert skipped == {"blank line": 1}


def test_file_is_read_by_the_format_of_its_longest_ending():
    for kind in FORMATS:
        for ending in kind.ENDINGS:
            assert format_of("s", InputFile(url=f"x{ending}", version="", size=1)) is kind, ending


def test_columns_that_are_parted_by_semicolons_are_told(tmp_path):
    (tmp_path / "x.csv").write_text("text;n\na;1\n")
    with pytest.raises(
        BadInput, match=r"its columns are not separated by commas: 'text;n'; a \.tsv file has tabs"
    ):
        read_file(tmp_path / "x.csv")


def test_columns_may_be_parted_by_tabs(tmp_path):
    (tmp_path / "x.tsv").write_text('text\tn\n"a\tb"\t1\nc,d\t2\n')
    assert read_file(tmp_path / "x.tsv")[0] == [{"text": "a\tb", "n": "1"}, {"text": "c,d", "n": "2"}]


@pytest.mark.parametrize("odd", ['"never closed,x', 'a "quote" in,the middle"', '"closed" and more,x', '"'])
def test_quote_that_is_not_as_it_should_be_costs_its_line_alone(tmp_path, odd):
    rows = [f"row {i},{i}" for i in range(50)]
    (tmp_path / "x.csv").write_text("\n".join(["text,n", *rows[:20], odd, *rows[20:]]))
    documents, bad, _ = read_file(tmp_path / "x.csv")
    assert [row["text"] for row in documents if "row" in row["text"]] == [f"row {i}" for i in range(50)]
    assert [row.row for row in bad] == [20] or documents[20]["text"].startswith("a ")


def test_damaged_csv_reports_its_lost_rows(tmp_path):
    content = gzip.compress(("text,n\n" + "".join(f"{prose(str(i), 20)},{i}\n" for i in range(400))).encode())
    (tmp_path / "x.csv.gz").write_bytes(content[: len(content) // 2])
    documents, bad, _ = read_file(tmp_path / "x.csv.gz")
    assert len(documents) > 50
    assert bad[-1].is_rest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"title,n\na,1\n", "no column 'text'; there are 'title', 'n'"),
        (b"text,text\n", "two columns are called 'text'"),
        (b"\n", "its first line has no names of columns"),
        (
            b"text," + b",".join(b"%d" % i for i in range(2000)),
            "it has 2,001 columns, expected at most 2,000",
        ),
    ],
)
def test_csv_without_a_text_column_raises(tmp_path, content, message):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_file(tmp_path / "x.csv")


def test_line_of_csv_is_held_up_to_the_limit_of_a_record(tmp_path):
    long = b"2," + b"long " * 8_000_000 + b"\n"
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"id,text\n1,two\n" + long + b"3,three\n", 1))
    tracemalloc.start()
    with replaced_limits(record_bytes=3 << 20):
        documents, bad, _ = read_file(tmp_path / "x.csv.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row["id"] for row in documents] == ["1", "3"]
    assert bad[0].reason == "a line of more than 3,145,728 bytes"
    assert peak < len(long)
