"""Times of Parquet's INT96, as Spark writes them: any year, at every level, and no digit is lost."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, table_of

YEARS = [1, 1500, 1600, 1677, 1970, 2020, 2262, 2263, 9999]
TIMES = [dt.datetime(year, 12, 31, 23, 59, 58, 999_999) for year in YEARS]


def int96_file(path, columns, **options):
    """Write columns of times in microseconds as INT96; pyarrow converts them by 64-bit days and nanoseconds."""
    table = pa.table({"text": [f"text {i}" for i in range(len(columns[0][1]))], **dict(columns)})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **options)
    kinds = {pq.read_metadata(path).schema.column(i).physical_type for i in range(1, len(columns) + 1)}
    assert "INT96" in kinds


def micro(values):
    return pa.array(values, pa.timestamp("us"))


NESTED = {
    "flat": micro(TIMES),
    "list": pa.array([[time, None] for time in TIMES], pa.list_(pa.timestamp("us"))),
    "struct": pa.array([{"at": time} for time in TIMES], pa.struct([("at", pa.timestamp("us"))])),
    "map": pa.array([[("at", time)] for time in TIMES], pa.map_(pa.string(), pa.timestamp("us"))),
}


@pytest.mark.parametrize("store_schema", [True, False])
def test_years_outside_of_nanoseconds_are_exact(corpus, store_schema):
    int96_file(corpus.folder / "in/x.parquet", [*NESTED.items()], store_schema=store_schema)
    recipe = corpus.load(
        sources=[{"name": "odd", "files": "in/x.parquet", "keep": "flat >= TIMESTAMP '2000-01-01'"}]
    )
    build_here(recipe)
    kept = table_of(recipe, "odd")
    wanted = [time for time in TIMES if time.year >= 2000]
    assert [row["flat"] for row in kept] == wanted
    assert [row["list"] for row in kept] == [[time, None] for time in wanted]
    assert [row["struct"] for row in kept] == [{"at": time} for time in wanted]
    assert [row["map"] for row in kept] == [[("at", time)] for time in wanted]


def test_nanoseconds_stay_and_a_file_that_needs_both_has_a_bad_row(corpus):
    exact = [-1, 1, 1_577_836_800_123_456_789, None]  # nanoseconds since 1970
    table = pa.table({"text": list("abcd"), "at": pa.array(exact, pa.timestamp("ns"))})
    pq.write_table(table, corpus.folder / "in/x.parquet", use_deprecated_int96_timestamps=True)
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}])
    build_here(recipe)
    (path,) = (p for p in recipe.folder.folder("published").files("odd") if p.endswith(".parquet"))
    with recipe.folder.folder("published").open(path) as file:
        assert pq.read_table(file).column("at").cast(pa.int64()).to_pylist() == exact


def int96_of_days(path, days):
    """Write a file with an INT96 column, then replace its days, which are at the end of each value."""
    times = micro([dt.datetime(1970, 1, 1 + i, 0, 0, 0) for i in range(len(days))])
    int96_file(path, [("at", times)], use_dictionary=False, compression="none", write_statistics=False)
    content, first = path.read_bytes(), 2_440_588  # the Julian day of 1970-01-01
    for i, day in enumerate(days):
        old, new = ((time).to_bytes(4, "little", signed=True) for time in (first + i, day))
        assert content.count(bytes(8) + old) == 1
        content = content.replace(bytes(8) + old, bytes(8) + new)
    path.write_bytes(content)


def test_days_outside_of_every_unit_are_bad_rows_with_a_reason(corpus):
    int96_of_days(corpus.folder / "in/x.parquet", [2_440_588, 2**31 - 1, -(2**31), 2_440_589])
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}], on_bad_rows="set_aside")
    ledger = build_here(recipe)
    assert [row["at"] for row in table_of(recipe, "odd")] == [
        dt.datetime(1970, 1, 1),
        dt.datetime(1970, 1, 2),
    ]
    aside = table_of(recipe, "set_aside")
    assert [(row["row"], row["reason"].split(":")[0]) for row in aside] == [
        (1, "column 'at'"),
        (2, "column 'at'"),
    ]
    assert ledger.of("ingest", "odd").documents == 2
