"""Exports: equal documents in other files, written once and listed with their digests."""

import hashlib
import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from small_corpus import (
    Corpus,
    build_here,
    contents,
    corpus_of_many_files,
    prose,
    published,
    rows,
    table_of,
    write_rows,
    zyda,
    zyda_here,
)

from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.lookup.verify_and_clean import files_to_check, strangers_published
from zyda_flows.tasks.publish import export_files
from zyda_flows.tasks.publish.export_card import features_of
from zyda_flows.tasks.publish.export_places import above
from zyda_flows.tasks.publish.export_planning import ExportOptions
from zyda_flows.tasks.publish.exporting import Export
from zyda_flows.tasks.storage.folder import Folder

SOURCES = ("best", "middle", "worst")


@pytest.fixture
def corpus(tmp_path):
    """Return a published corpus with columns of mixed types, binary values and nested objects."""
    corpus = corpus_of_many_files(tmp_path, 4)
    odd = [
        {"name": "odd_1", "text": prose("odd 1"), "mixed": 1, "nested": {"a": [1, None]}, "far": 2**63},
        {"name": "odd_2", "text": prose("odd 2") + '\n"\u2028\x00', "mixed": "one", "nested": None},
        {"name": "odd_3", "text": prose("odd 3"), "mixed": {"x": 1.5}, "nested": {"a": []}},
    ]
    write_rows(tmp_path / "in/worst-8.jsonl.zst", odd)
    corpus.recipe |= {"shard_mib": 0.01, "published_mib": 0.01}
    build_here(corpus.load())
    return corpus


def exported(corpus, to, *, replace=False, **options):
    """Export a corpus; return the number of written files."""
    planned = Export(corpus.load(), Folder(str(to)), ExportOptions(**options), replace=replace)
    planned.write(lambda jobs: [job() for job in jobs])
    return len(planned.jobs)


def documents_in(to, source, kind="jsonl.zst"):
    """Read the exported rows of a source with other libraries."""
    documents = []
    for path in sorted((to / source).rglob(f"*.{kind}")):
        content = path.read_bytes()
        if kind == "parquet":
            documents += pq.read_table(BytesIO(content)).to_pylist()
        else:
            lines = (
                zstandard.ZstdDecompressor().decompressobj().decompress(content)
                if kind == "jsonl.zst"
                else content
            )
            documents += [json.loads(line) for line in lines.split(b"\n") if line]
    return documents


def listed(to):
    return {row["path"]: row for row in pq.read_table(to / "exported.parquet").to_pylist()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl.zst", "jsonl", "parquet"])
def test_exported_documents_equal_the_published_documents(corpus, tmp_path, kind):
    to = tmp_path / "to"
    exported(corpus, to, format=kind, file_mib=0.01)
    for source in SOURCES:
        expected = table_of(corpus.load(), source)
        if kind != "parquet":
            file = corpus.folder / "out/small/published" / table_of_files(corpus, source)[0]
            as_json = [
                field.name for field in pq.read_schema(file) if field.metadata and b"zyda" in field.metadata
            ]
            assert ("mixed" in as_json) == (source == "worst")
            expected = [
                row | {name: json.loads(row[name]) for name in as_json if row[name] is not None}
                for row in expected
            ]
        assert documents_in(to, source, kind) == expected
    files = {path.relative_to(to).as_posix() for path in to.rglob("*.*")}
    assert files == {*listed(to), "exported.parquet", "README.md"}
    for path, row in listed(to).items():
        content = (to / path).read_bytes()
        assert (row["size"], row["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_export_has_the_requested_columns_sources_and_sizes(corpus, tmp_path):
    exported(
        corpus,
        tmp_path / "to",
        columns=("text", "doc_id"),
        sources=("worst",),
        format="parquet",
        file_mib=1000,
    )
    (file,) = (tmp_path / "to").rglob("worst/*.parquet")
    assert pq.read_schema(file).names == ["text", "doc_id"]
    assert not (tmp_path / "to/best").exists()
    small = exported(corpus, tmp_path / "small", sources=("worst",), format="parquet", file_mib=0.001)
    assert small == len(table_of_files(corpus, "worst"))


def test_load_dataset_reads_an_export(corpus, tmp_path, monkeypatch):
    """The default configuration loads all sources, and a source has all its columns."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    for kind in ("jsonl.zst", "jsonl", "parquet"):
        to, cache = tmp_path / kind, str(tmp_path / "cache")
        exported(corpus, to, format=kind, file_mib=0.01)
        expected = {source: documents_in(to, source, kind) for source in SOURCES}
        assert len({tuple(rows[0]) for rows in expected.values()}) > 1
        dataset = datasets.load_dataset(str(to), cache_dir=cache, split="train")
        columns = {"doc_id", "source", "text", "n_tokens"}
        assert columns <= {*dataset.column_names}
        rows = [row for source in SOURCES for row in expected[source]]
        for name in columns if kind == "parquet" else dataset.column_names:
            assert dataset[name][:] == [row.get(name) for row in rows], name
        for source in SOURCES:
            dataset = datasets.load_dataset(str(to), source, cache_dir=cache, split="train")
            assert dataset.to_list() == expected[source]
        (to / "README.md").write_text("mine")
        exported(corpus, to, format=kind, file_mib=0.01)
        assert (to / "README.md").read_text() == "mine"


def test_types_of_the_card_match_datasets():
    """Compared with the types of `datasets`, except for types that are strings in JSON."""
    datasets = pytest.importorskip("datasets")
    schema = pa.schema(
        [("a", pa.list_(pa.int64())), ("b", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
         ("c", pa.list_(pa.struct([("q", pa.float64())]))), ("d", pa.list_(pa.list_(pa.uint8()))),
         ("e", pa.bool_()), ("f", pa.float16()), ("g", pa.float32()), ("h", pa.null()), ("i", pa.uint64())]
    )  # fmt: skip
    expected = datasets.Features.from_arrow_schema(schema)._to_yaml_list()
    assert [*features_of(schema).values()] == expected
    texts = pa.schema([("t", pa.timestamp("us")), ("d", pa.decimal128(9, 2)), ("b", pa.large_binary())])
    assert {feature["dtype"] for feature in features_of(texts).values()} == {"string"}


def table_of_files(corpus, source):
    return [path for path in published(corpus.load()).files(source) if path.endswith(".parquet")]


def test_exported_json_lines_can_be_a_source(corpus, tmp_path):
    exported(corpus, tmp_path / "to")
    again = Corpus(tmp_path / "again")
    sources = [{"name": source, "files": f"{tmp_path}/to/{source}/*.jsonl.zst"} for source in SOURCES]
    recipe = again.load(sources=sources, name="again")
    build_here(recipe)
    for source in SOURCES:
        texts = [row["text"] for row in table_of(recipe, source)]
        assert texts == [row["text"] for row in table_of(corpus.load(), source)]
    (odd,) = (row for row in table_of(recipe, "worst") if row["name"] == "odd_3")
    assert json.loads(odd["mixed"]) == {"x": 1.5}


def test_second_export_writes_changed_files_and_removes_old_files(corpus, tmp_path):
    to = tmp_path / "to"
    exported(corpus, to, file_mib=0.001)
    assert exported(corpus, to, file_mib=0.001) == 0
    (to / "worst/mine.txt").write_text("not of an export")
    before = listed(to)
    write_rows(corpus.folder / "in/worst-9.arrow", rows(new=prose("new")))
    build_here(corpus.load())
    written = exported(corpus, to, file_mib=0.001)
    assert 0 < written < len(listed(to))
    files = {path.relative_to(to).as_posix() for path in to.rglob("*.*")}
    assert files == {*listed(to), "exported.parquet", "README.md", "worst/mine.txt"}
    assert before.keys() & listed(to).keys()
    assert documents_in(to, "worst")[-1]["name"] == "new"


@pytest.mark.parametrize("kind", ["jsonl.zst", "parquet"])
def test_damaged_exported_files_are_written_again(corpus, tmp_path, kind):
    to = tmp_path / "to"
    exported(corpus, to, format=kind, file_mib=0.001)
    before = listed(to)
    for harm in ("cut", "gone", "flipped", "emptied"):
        path = to / next(iter(before))
        content = bytearray(path.read_bytes())
        if harm == "cut":
            path.write_bytes(content[:-7])
        elif harm == "gone":
            path.unlink()
        elif harm == "emptied":
            path.write_bytes(b"")
        else:
            at = len(content) // 2
            if kind == "parquet":  # checksums cover pages, but not their headers
                chunk = pq.read_metadata(path).row_group(0).column(2)
                at = chunk.data_page_offset + chunk.total_compressed_size - 1
            content[at] ^= 4
            path.write_bytes(content)
            (to / "exported.parquet").unlink()  # as if the export had been killed: files are read then
        assert exported(corpus, to, format=kind, file_mib=0.001) >= 1
        assert listed(to) == before
        for name, row in before.items():
            assert hashlib.sha256((to / name).read_bytes()).hexdigest() == row["sha256"]


def test_verify_finds_a_changed_file_of_the_same_size(corpus, tmp_path):
    to = tmp_path / "to"
    exported(corpus, to, format="jsonl", file_mib=0.001)
    path = to / next(iter(listed(to)))
    before = path.read_bytes()
    path.write_bytes(before.replace(b"e", b"E", 1))
    assert exported(corpus, to, format="jsonl", file_mib=0.001) == 0
    options = ExportOptions(format="jsonl", file_mib=0.001)
    (job,) = (planned := Export(corpus.load(), Folder(str(to)), options, verify=True)).jobs
    planned.write(lambda jobs: [job() for job in jobs])
    assert path.read_bytes() == before
    assert job.path == path.relative_to(to).as_posix()


def test_sources_that_are_not_exported_have_no_folder(corpus, tmp_path):
    exported(corpus, tmp_path / "to")
    exported(corpus, tmp_path / "to", sources=("best",), replace=True)
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == [
        "README.md",
        "best",
        "exported.parquet",
    ]


def test_interrupted_export_keeps_finished_files(corpus, tmp_path, monkeypatch):
    to, wrote = tmp_path / "to", []
    write = export_files.write_lines

    def failing(job, scratch):
        if len(wrote) == 3:
            raise KeyboardInterrupt
        wrote.append(job.path)
        return write(job, scratch)

    monkeypatch.setattr(export_files, "write_lines", failing)
    with pytest.raises(KeyboardInterrupt):
        exported(corpus, to, file_mib=0.001)
    assert not (to / "exported.parquet").exists()
    monkeypatch.setattr(
        export_files, "write_lines", lambda job, scratch: wrote.append(job.path) or write(job, scratch)
    )
    exported(corpus, to, file_mib=0.001)
    assert len(wrote) == len({*wrote}) == len(listed(to))


def test_export_to_a_store_writes_the_same_files(corpus, tmp_path, s3, request):
    url = f"{s3}/{request.node.name}"
    exported(corpus, tmp_path / "to")
    planned = Export(corpus.load(), Folder(url), ExportOptions())
    planned.write(lambda jobs: [job() for job in jobs])
    folder = Folder(url)
    assert {path: folder.digest_of(path) for path in folder.files("")} == {
        path.relative_to(tmp_path / "to").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "to").rglob("*.*")
    }
    assert not Export(corpus.load(), folder, ExportOptions()).jobs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"columns": ("text", "nonsense")},
            "source best: no column 'nonsense' is published; the columns are doc_id",
        ),
        ({"columns": ("text", "text")}, "--columns text,text: a column is named twice"),
        ({"columns": ("",)}, "no column '' is published"),
        ({"sources": ("worse",)}, "no such source; its sources are best, middle, worst"),
        ({"format": "csv"}, "--format csv: expected jsonl.zst, jsonl, parquet"),
    ],
)
def test_unknown_columns_and_sources_are_errors_before_writing(corpus, tmp_path, options, fault):
    with pytest.raises(BadInput, match=fault):
        exported(corpus, tmp_path / "to", **options)
    assert not (tmp_path / "to").exists()


def test_export_into_its_corpus_or_over_another_table_is_an_error(corpus, tmp_path):
    for place in ("out/small/published", "out/small", "out", "out/small/exports"):
        with pytest.raises(BadInput, match="this is the folder of the corpus"):
            exported(corpus, corpus.folder / place)
    for place in ("in", "in/deeper"):
        with pytest.raises(
            BadInput, match=r"source best reads .*in/best-\*\.parquet, which may match the exported files"
        ):
            exported(corpus, corpus.folder / place)
    (tmp_path / "to").mkdir()
    (tmp_path / "to/exported.parquet").write_bytes(b"mine")
    with pytest.raises(BadInput, match="is not a table of an export"):
        exported(corpus, tmp_path / "to")
    assert (tmp_path / "to/exported.parquet").read_bytes() == b"mine"


def test_export_into_any_corpus_is_an_error_before_writing(corpus, tmp_path):
    other = Corpus(tmp_path)
    other.recipe["name"] = "other"
    build_here(other.load())
    (tmp_path / "link").symlink_to(tmp_path / "out/other")
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent/best").symlink_to(tmp_path / "out/other")  # like the folder of a source
    before = contents(other.load())
    for place in (
        "out/other",
        "out/other/published",
        "out/other/published/best",
        "link/new",
        "link",
        "out/other/a/b",
    ):
        with pytest.raises(BadInput, match=r"out/other is the folder of a corpus; choose another folder"):
            exported(corpus, tmp_path / place)
    with pytest.raises(BadInput, match=r"parent/best is the folder of a corpus"):
        exported(corpus, tmp_path / "parent")
    assert [*above("/a/b/c")] == ["/a/b/c", "/a/b", "/a"]
    assert [*above("s3://bucket/a")] == ["s3://bucket/a", "s3://bucket"]
    assert contents(other.load()) == before
    assert not list((tmp_path / "out").rglob("exported.parquet"))
    assert exported(corpus, tmp_path / "out/beside")  # a folder of corpora is not a corpus
    (tmp_path / "out/other/published/best/stray.parquet").write_bytes(b"stray")
    items, faults = files_to_check(other.load())
    assert strangers_published(other.load(), items) == ["published/best/stray.parquet"]
    assert not faults


@pytest.mark.slow
def test_other_export_in_the_folder_is_removed_only_with_replace(corpus, tmp_path):
    to = tmp_path / "to"
    exported(corpus, to, sources=("best",), columns=("doc_id", "text"))
    before = {path: path.read_bytes() for path in to.rglob("*.*")}
    other = corpus.elsewhere(tmp_path / "other")
    other.folder.mkdir()
    build_here(other.load())
    for recipe, options in [
        (corpus, {"sources": ("worst",), "columns": ("doc_id", "text")}),
        (corpus, {"sources": ("best",)}),
        (corpus, {"sources": ("best",), "columns": ("text", "doc_id")}),
        (corpus, {"sources": ("best",), "columns": ("doc_id", "text"), "format": "parquet"}),
        (other, {"sources": ("best",), "columns": ("doc_id", "text")}),
    ]:
        with pytest.raises(BadInput) as raised:
            exported(recipe, to, **options)
        assert (
            f"the folder has 1 file of another export ({corpus.load().folder.url} as jsonl.zst of best of doc_id, text)"
            in (str(raised.value))
        )
        assert "--replace" in str(raised.value)
        assert {path: path.read_bytes() for path in to.rglob("*.*")} == before
    assert exported(corpus, to, sources=("best", "worst"), columns=("doc_id", "text"))
    assert exported(corpus, to, columns=("doc_id", "text"), file_mib=1)
    with pytest.raises(BadInput, match="another export"):
        exported(corpus, to, sources=("best",), columns=("doc_id", "text"))
    assert exported(other, to, replace=True)
    assert {path.relative_to(to).as_posix() for path in to.rglob("*.*")} == {
        *listed(to), "exported.parquet", "README.md",
    }  # fmt: skip


def test_damaged_corpus_and_republished_corpus_have_different_errors(corpus, tmp_path):
    def build_first(jobs):
        write_rows(corpus.folder / "in/worst-9.arrow", rows(new=prose("new")))
        (corpus.folder / "in/worst-2.arrow").unlink()
        build_here(corpus.load(), replace=True)
        return [job() for job in jobs]

    planned = Export(corpus.load(), Folder(str(tmp_path / "to")), ExportOptions(file_mib=0.001))
    with pytest.raises(Denied, match="another version of this corpus was published meanwhile"):
        planned.write(build_first)
    path = corpus.folder / "out/small/published" / table_of_files(corpus, "best")[0]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(Denied, match="zyda verify --repair repairs it"):
        exported(corpus, tmp_path / "other", file_mib=0.001)


@pytest.mark.slow
def test_command_exports_in_processes_and_prints_a_summary(corpus, tmp_path):
    to = tmp_path / "to"
    process = zyda(
        "export", str(corpus.path), "--to", str(to), "--columns", "doc_id,text", "--file-mib", "0.01"
    )
    assert process.returncode == 0, process.stderr
    assert "0 of them written earlier" in process.stdout
    assert documents_in(to, "best") == [
        {"doc_id": row["doc_id"], "text": row["text"]} for row in table_of(corpus.load(), "best")
    ]
    process = zyda_here("export", str(corpus.path), "--to", str(to), "--columns", "doc_id,nothing")
    assert process.returncode == 1
    assert process.stderr.strip().count("\n") == 0
    assert "no column 'nothing'" in process.stderr
