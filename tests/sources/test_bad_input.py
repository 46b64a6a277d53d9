"""Bad input: an error with the source, file and row, or a row that is set aside."""

import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from small_corpus import build_here, kept_names, prose, rows, table_of, write_rows

from zyda_flows.tasks.errors import Denied, ZydaError
from zyda_flows.tasks.planning.prepare import preflight
from zyda_flows.tasks.sources.file_rows import utf8_faults
from zyda_flows.tasks.storage.documents import row_groups

GOOD_LINE = json.dumps({"name": "good", "text": "a good text"}).encode() + b"\n"


def corrupt(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 50] = bytes(50)
    path.write_bytes(bytes(content))


def parquet_with(texts, path, kind):
    pq.write_table(
        pa.table({"name": [f"n{i}" for i in range(len(texts))], "text": pa.array(texts, kind)}), path
    )


def bad_utf8(path):
    column = pa.array([b"fine", b"br\xffken", b"fine too"], pa.binary()).view(pa.string())
    table = pa.table({"name": ["n0", "n1", "n2"], "text": column})
    pq.write_table(table, path)


def lines(*content):
    return lambda path: path.write_bytes(b"".join(content))


def truncated_gzip(path):
    whole = gzip.compress(b"".join(GOOD_LINE.replace(b"good", b"%d" % i) for i in range(5000)), mtime=0)
    path.write_bytes(whole[: len(whole) * 2 // 3])


def truncated_zstd(path):
    whole = zstandard.compress(b"".join(GOOD_LINE.replace(b"good", b"%d" % (i * i)) for i in range(50_000)))
    path.write_bytes(whole[: len(whole) * 2 // 3])


def corrupt_parquet(path):
    texts = [prose(f"corrupt {i}") for i in range(50)]
    pq.write_table(pa.table({"name": texts, "text": texts}), path, row_group_size=10, compression="none",
                   write_page_checksum=True, use_dictionary=False)  # fmt: skip
    corrupt(path)


def unknown_codec(path):
    """Write a Parquet file whose footer has a codec for `text` that no version of Parquet has."""
    parquet_with(["a"], path, pa.string())
    content = path.read_bytes()
    codec = b"text\x15\x02"  # the path of the column, and 1 (Snappy) as a Thrift i32
    assert content.count(codec) == 1
    path.write_bytes(content.replace(codec, b"text\x15\x60"))


BEFORE_WORK = {
    "no file": ("x*.parquet", lambda path: None, r"source odd: no file matches .*x\*\.parquet"),
    "no such column": (
        "x.parquet",
        lambda path: pq.write_table(pa.table({"body": ["a"]}), path),
        r"source odd, file .*x\.parquet: no column 'text'; there are 'body'",
    ),
    "no such field": (
        "x.jsonl",
        lines(b'{"body": "a"}\n'),
        r"source odd, file .*x\.jsonl, row 0 \(line 1\): no column 'text'; there are 'body'",
    ),
    "column of another type": (
        "x.parquet",
        lambda path: parquet_with([1, 2], path, pa.int64()),
        r"source odd, file .*x\.parquet: column 'text' is int64, expected string",
    ),
    "not a parquet file": ("x.parquet", lines(b"not parquet at all"), r"x\.parquet: cannot be read: .*"),
    "unknown codec": ("x.parquet", unknown_codec, r"x\.parquet: cannot be read: its footer is damaged"),
    "unknown ending": ("x.xls", lines(b"a,b\n"), r"x\.xls: its ending is none of \.parquet, "),
}


@pytest.mark.parametrize("case", BEFORE_WORK)
def test_fault_of_a_source_is_reported_before_ingest(corpus, case):
    name, write, message = BEFORE_WORK[case]
    write(corpus.folder / "in" / name)
    odd = {"name": "odd", "files": f"in/{name}"}
    recipe = corpus.load(sources=[*corpus.recipe["sources"], odd])
    with pytest.raises(ZydaError) as raised:
        build_here(recipe)
    assert re.search(message, str(raised.value)), str(raised.value)
    assert not (corpus.folder / "out/small/work/ingest").exists()


IN_THE_MIDDLE = {
    "invalid JSON": ("x.jsonl", lines(GOOD_LINE, b"{broken\n", GOOD_LINE), 1, "invalid JSON", 2),
    "not an object": ("x.jsonl", lines(GOOD_LINE, b"[1]\n"), 1, "a list, expected an object", 1),
    "text is a number": ("x.jsonl", lines(GOOD_LINE, b'{"text": 3}\n'), 1, "'text' is a number", 1),
    "null in JSON": ("x.jsonl", lines(GOOD_LINE, b'{"text": null}\n'), 1, "'text' is null", 1),
    "no text in one line": ("x.jsonl", lines(GOOD_LINE, b'{"name": "n"}\n'), 1, "no field 'text'", 1),
    "invalid UTF-8 in JSON": ("x.jsonl", lines(GOOD_LINE, b'{"text": "\xff"}\n'), 1, "invalid UTF-8 at byte 10", 1),
    "null in Parquet": ("x.parquet", lambda p: parquet_with(["a", None, "c"], p, pa.string()), 1, "'text' is null", 2),
    "invalid UTF-8 in Parquet": ("x.parquet", bad_utf8, 1, "invalid UTF-8 at byte 2", 2),
    "truncated gzip": ("x.jsonl.gz", truncated_gzip, None, "the file is damaged from here on", None),
    "truncated zstd": ("x.jsonl.zst", truncated_zstd, None, "the file is damaged from here on", None),
    "corrupt Parquet": ("x.parquet", corrupt_parquet, None, "row group 1 is damaged", None),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_THE_MIDDLE)
def test_bad_row_stops_the_build_with_its_file_and_row(corpus, case):
    name, write, row, reason, _ = IN_THE_MIDDLE[case]
    write(corpus.folder / "in" / name)
    recipe = corpus.load(sources=[{"name": "odd", "files": f"in/{name}"}])
    with pytest.raises(ZydaError) as raised:
        build_here(recipe)
    where = rf"source odd, file .*{re.escape(name)}, row {row if row is not None else r'[0-9]+'}"
    assert re.search(where, str(raised.value)), str(raised.value)
    assert reason in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_THE_MIDDLE)
def test_bad_row_is_set_aside_with_on_bad_rows_set_aside(corpus, case):
    name, write, row, reason, left = IN_THE_MIDDLE[case]
    write(corpus.folder / "in" / name)
    sources = [*corpus.recipe["sources"], {"name": "odd", "files": f"in/{name}"}]
    recipe = corpus.load(sources=sources, on_bad_rows="set_aside", dedup={"scope": "across"})
    ledger = build_here(recipe)
    aside = table_of(recipe, "set_aside")
    assert all(one["source"] == "odd" and one["file"].endswith(name) for one in aside)
    assert reason in aside[0]["reason"]
    if row is not None:
        assert [one["row"] for one in aside] == [row]
        assert ledger.of("ingest", "odd").documents == left
    line = next(line for line in ledger.lines if (line.stage, line.source) == ("ingest", "odd"))
    assert line.set_aside.documents == len(aside) > 0


def test_corrupt_parquet_loses_no_row_silently(corpus):
    corrupt_parquet(corpus.folder / "in/x.parquet")
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}], on_bad_rows="set_aside")
    ledger = build_here(recipe)
    assert ledger.of("ingest").documents + len(table_of(recipe, "set_aside")) == 50


BROKEN_TEXT = pa.array([b"fine", b"\xff\xfe", b"fine too"], pa.binary()).view(pa.string())
OTHER_COLUMNS = {
    "flat": BROKEN_TEXT,
    "list": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), BROKEN_TEXT),
    "struct": pa.StructArray.from_arrays([BROKEN_TEXT], ["inner"]),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), BROKEN_TEXT),
}


def write_arrow(path, *batches):
    with pa.ipc.new_file(path, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


@pytest.mark.parametrize(
    ("ending", "column"),
    # pyarrow reads no row group whose dictionary has such a text: all its rows are set aside.
    [("arrow", column) for column in OTHER_COLUMNS]
    + [("parquet", one) for one in ("flat", "list", "struct")],
)
def test_row_with_invalid_utf8_in_another_column_is_a_bad_row(corpus, ending, column):
    table = pa.table(
        {"name": ["n0", "n1", "n2"], "text": ["one", "two", "three"], "c": OTHER_COLUMNS[column]}
    )
    path = corpus.folder / f"in/x.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        write_arrow(path, *table.to_batches())
    sources = [{"name": "odd", "files": f"in/x.{ending}"}]
    recipe = corpus.load(sources=sources, on_bad_rows="set_aside", publish_set_aside=True)
    ledger = build_here(recipe)
    (aside,) = table_of(recipe, "set_aside")
    assert (aside["row"], aside["content"]) == (1, b"two")
    assert json.loads(aside["columns"])["name"] == "n1"
    assert aside["reason"] == "column 'c': invalid UTF-8"
    assert [row["name"] for row in table_of(recipe, "odd")] == ["n0", "n2"]
    assert ledger.of("ingest", "odd").documents == 2


def test_invalid_date_is_not_reported_as_invalid_utf8():
    dates = pa.array([0, 86_400_000, 5], pa.int64()).view(pa.date64())  # the last is no whole day
    struct = pa.StructArray.from_arrays([dates, pa.array(["a", "b", "c"])], ["day", "text"])
    assert utf8_faults("c", pa.chunked_array([struct])) == {}
    assert utf8_faults("c", pa.chunked_array([dates])) == {}


@pytest.mark.parametrize("fault", ["body", "offsets"])
def test_rows_of_a_damaged_batch_are_set_aside_and_later_batches_are_read(corpus, fault):
    path = corpus.folder / "in/x.arrow"
    texts = [[f"{batch} {row} of an Arrow file" for row in range(10)] for batch in range(4)]
    schema = pa.schema([("name", pa.string()), ("text", pa.string())])
    options = pa.ipc.IpcWriteOptions(compression="zstd" if fault == "body" else None)
    with pa.ipc.new_file(path, schema, options=options) as writer:
        for some in texts:
            writer.write_batch(pa.record_batch([some, some], schema=schema))
    content = bytearray(path.read_bytes())
    if fault == "body":  # the second head of a compressed buffer of the second batch
        magic = b"\x28\xb5\x2f\xfd"
        places = [match.start() for match in re.finditer(re.escape(magic), bytes(content))]
        place = places[len(places) // 4]
        content[place : place + 4] = bytes(4)
    else:  # the last offset of a column of the second batch
        place = content.index(texts[1][0].encode()) - 64
        while content[place : place + 4] != (len("".join(texts[1]))).to_bytes(4, "little"):
            place += 1
        content[place : place + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.arrow"}], on_bad_rows="set_aside")
    ledger = build_here(recipe)
    aside = table_of(recipe, "set_aside")
    assert [row["row"] for row in aside] == list(range(10, 20))
    assert all("batch 1 is damaged" in row["reason"] for row in aside)
    assert {row["text"] for row in table_of(recipe, "odd")} == {t for some in (0, 2, 3) for t in texts[some]}
    assert ledger.of("ingest", "odd").documents == 30


def test_text_column_without_a_value_is_set_aside_row_by_row(corpus):
    for name, texts in (("0", pa.nulls(3)), ("1", pa.array(["one", "two"]))):
        pq.write_table(
            pa.table({"name": [name] * len(texts), "text": texts}), corpus.folder / f"in/x-{name}.parquet"
        )
    sources = [{"name": "odd", "files": "in/x-*.parquet"}]
    ledger = build_here(corpus.load(sources=sources, on_bad_rows="set_aside"))
    assert (ledger.of("ingest", "odd").documents, ledger.lines[0].set_aside.documents) == (2, 3)
    with pytest.raises(ZydaError, match="column 'text' is null, expected string"):
        build_here(corpus.load(sources=sources, name="strict"))


def test_rows_before_the_damage_are_documents(corpus):
    truncated_gzip(corpus.folder / "in/x.jsonl.gz")
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl.gz"}], on_bad_rows="set_aside")
    documents = build_here(recipe).of("ingest").documents
    assert 3000 < documents < 5000
    assert table_of(recipe, "set_aside")[0]["row"] == documents


def test_consecutive_frames_are_read_as_one_file(corpus):
    gz, zst = corpus.folder / "in/x.jsonl.gz", corpus.folder / "in/x.jsonl.zst"
    gz.write_bytes(gzip.compress(GOOD_LINE) + gzip.compress(GOOD_LINE * 2))
    zst.write_bytes(zstandard.compress(GOOD_LINE) + zstandard.compress(GOOD_LINE * 3))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl.*"}])
    assert build_here(recipe).of("ingest").documents == 7


def test_source_without_documents_raises(corpus):
    (corpus.folder / "in/x.jsonl").write_bytes(b"\n")
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.jsonl"}])
    with pytest.raises(ZydaError, match="source odd: no document in any of its files"):
        build_here(recipe)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ("nams = 'a'", 'keep: nams = .a.: unable to find column "nams"'),
        ("name +", "unable to parse"),
        ("stars + 1", "it gives BIGINT, expected Boolean"),
        ("max(stars) > 1", "function .max. is unknown, or does not look at a row by itself"),
    ],
)
def test_invalid_keep_is_reported_before_ingest(corpus, keep, message):
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-*.parquet", "keep": keep}])
    with pytest.raises(ZydaError, match=message):
        build_here(recipe)


def test_source_with_only_a_damaged_file_raises_with_the_reason(corpus):
    (corpus.folder / "in/x.parquet").write_bytes(b"not Parquet at all")
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}], on_bad_rows="set_aside")
    message = r"source odd, file .*x\.parquet: none of its files can be read: Parquet magic bytes not found"
    with pytest.raises(ZydaError, match=message):
        build_here(recipe)


def test_faults_of_all_sources_are_reported_together(corpus):
    sources = [{"name": "a", "files": "in/nothing*"}, {"name": "b", "files": "in/neither*"}]
    with pytest.raises(ZydaError) as raised:
        build_here(corpus.load(sources=sources))
    assert len(str(raised.value).splitlines()) == 2


def test_all_faults_of_a_source_are_reported_together(corpus):
    classify = {"model": "./nowhere", "keep": ["High"]}
    sources = [{"name": "best", "files": "in/best-*.parquet", "text": "bdy", "classify": classify}]
    with pytest.raises(ZydaError) as raised:
        build_here(corpus.load(sources=sources))
    message = str(raised.value)
    assert "classify.model: ./nowhere cannot be loaded: there is no folder ./nowhere" in message
    assert "no column 'bdy'; there are 'name', 'stars', 'text'" in message


def test_unknown_tokenizer_and_model_are_reported(corpus, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ZydaError, match=r"tokenizer: .*missing\.json cannot be loaded"):
        build_here(corpus.load(tokenizer="missing.json"))
    classify = {"model": "no/such-model", "keep": ["High"]}
    sources = [{"name": "best", "files": "in/best-*.parquet", "classify": classify}]
    with pytest.raises(ZydaError, match=r"source best: classify\.model: no/such-model cannot be loaded"):
        build_here(corpus.load(sources=sources))


def test_missing_local_folder_is_denied_not_retried(corpus):
    sources = [{"name": "best", "files": "/nowhere/*.parquet"}]
    with pytest.raises(ZydaError, match="source best: no file matches /nowhere"):
        build_here(corpus.load(sources=sources))
    blocked = corpus.folder / "blocked"
    blocked.write_text("a file, not a folder")
    with pytest.raises(Denied):
        build_here(corpus.load(storage=str(blocked)))


def test_source_may_have_files_with_different_columns(corpus):
    write_rows(corpus.folder / "in/y-0.jsonl", [{"name": "a", "text": "one", "n": 1}])
    write_rows(corpus.folder / "in/y-1.jsonl", rows(b="two") + [{"text": "three", "other": [1.5]}])
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/y-*.jsonl"}])
    build_here(recipe)
    assert kept_names(recipe) == {"a", "b", None}


def test_source_with_only_empty_files_is_reported_before_a_build(corpus):
    for name in ("a.jsonl", "b.jsonl"):
        (corpus.folder / "in" / name).write_bytes(b"")
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/[ab].jsonl"}])
    with pytest.raises(ZydaError, match=r"source odd, file .*/in/a\.jsonl: each of its files has 0 bytes"):
        preflight(recipe)


@pytest.mark.parametrize("wrap", ["flat", "list", "struct"])
def test_row_with_seconds_outside_of_milliseconds_is_a_bad_row(corpus, wrap):
    seconds = [0, 1 << 62, -(1 << 63), 1 << 30, None]
    kind = pa.timestamp("s")
    column = pa.array(seconds, kind)
    if wrap == "list":
        column = pa.array([[value, 5] for value in seconds], pa.list_(kind))
    elif wrap == "struct":
        column = pa.StructArray.from_arrays([column], ["when"])
    table = pa.table(
        {"name": list("abcde"), "stars": [1] * 5, "text": [prose(f"s{i}") for i in range(5)], "t": column}
    )
    path = corpus.folder / "in/worst-9.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    recipe = corpus.load(on_bad_rows="set_aside")
    build_here(recipe)
    assert {*kept_names(recipe)} & {*"abcde"} == {*"ade"}
    aside = [row for row in table_of(recipe, "set_aside") if row["file"].endswith("worst-9.arrow")]
    assert [(row["row"], row["reason"][:12]) for row in aside] == [(1, "column 't': "), (2, "column 't': ")]


def test_row_groups_are_cut_by_all_columns(corpus, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.ingest.file_pieces.ROW_GROUP_BYTES", 1 << 20)
    pages = [
        {"name": f"page{i}", "stars": 1, "text": prose(f"p{i}", 30), "html": f"{i}" * 90_000}
        for i in range(40)
    ]
    write_rows(corpus.folder / "in/worst-9.jsonl.zst", pages)
    recipe = corpus.load()
    build_here(recipe)
    groups = [
        metadata.row_group(i)
        for path in (corpus.folder / "out").rglob("work/ingest/worst/*.parquet")
        for metadata in [pq.read_metadata(path)]
        for i in range(metadata.num_row_groups)
    ]
    assert sum(group.num_rows for group in groups) == 40 + 5
    assert max(group.num_rows for group in groups) <= (1 << 20) // 90_000 + 1


def test_tables_are_joined_and_cut_to_row_groups():
    table = pa.table({"text": ["a" * 100] * 50})
    groups = [*row_groups([table, *(table.slice(i, 1) for i in range(50))], 1000)]
    assert pa.concat_tables(groups).column("text").to_pylist() == ["a" * 100] * 100
    assert max(group.nbytes for group in groups) <= 1000
    assert len(groups) <= 100 // 9 + 2
    assert len([*row_groups([table], 1)]) == 50  # a row that is larger is a group of its own
