"""Test exports of the documents that meet a condition: every document is exported or counted as not selected."""

import json

import duckdb
import pyarrow.parquet as pq
import pytest
import zstandard
from small_corpus import build_here, corpus_of_many_files, prose, table_of, write_rows

from zyda_flows.tasks.errors import BadInput, BadRequest
from zyda_flows.tasks.publish.export_planning import ExportOptions
from zyda_flows.tasks.publish.exporting import Export
from zyda_flows.tasks.storage.folder import Folder

SOURCES = ("best", "middle", "worst")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, compiled):
    """Return a published corpus of several files whose source `worst` has a column of texts with numbers."""
    corpus = corpus_of_many_files(tmp_path_factory.mktemp("corpus"), 4)
    odd = [
        {"name": f"odd_{i}", "text": prose(f"odd {i}"), "score": str(i) if i else "none"} for i in range(3)
    ]
    write_rows(corpus.folder / "in/worst-8.jsonl.zst", odd)
    build_here(corpus.load())
    return corpus


def export(corpus, to, run_jobs=lambda jobs: [job() for job in jobs], **options):
    planned = Export(corpus.load(), Folder(str(to)), ExportOptions(file_mib=0.01, **options))
    planned.write(run_jobs)
    return planned


def exported_rows(to, source, kind):
    rows = []
    for path in sorted((to / source).rglob(f"*.{kind}")):
        if kind == "parquet":
            rows += pq.read_table(path).to_pylist()
        else:
            content = path.read_bytes()
            lines = (
                zstandard.ZstdDecompressor().decompressobj().decompress(content) if "zst" in kind else content
            )
            rows += [json.loads(line) for line in lines.splitlines()]
    return rows


@pytest.mark.parametrize("kind", ["parquet", "jsonl.zst", "jsonl"])
@pytest.mark.parametrize(
    "where", ["n_tokens % 2 = 0 AND text LIKE '%a%'", "n_tokens < 0", "cluster_size > 1 OR TRUE"]
)
def test_documents_that_meet_the_condition_are_exported_and_the_others_counted(corpus, tmp_path, kind, where):
    export(corpus, tmp_path / "to", format=kind, where=where, columns=("doc_id",))
    listed = pq.read_table(tmp_path / "to/exported.parquet").to_pylist()
    for source in SOURCES:
        files = str(corpus.folder / f"out/small/published/{source}/*.parquet")
        query = f"SELECT doc_id, ({where}) FROM read_parquet('{files}') ORDER BY doc_id"
        answers = duckdb.sql(query).fetchall()
        rows = exported_rows(tmp_path / "to", source, kind)
        assert [row["doc_id"] for row in rows] == [doc_id for doc_id, is_met in answers if is_met]
        own = [row for row in listed if row["source"] == source]
        assert sum(row["rows"] for row in own) == len(rows)
        assert sum(row["rows"] + row["not_selected"] for row in own) == len(answers)
        assert all(row.keys() == {"doc_id"} for row in rows)


def test_second_export_keeps_files_and_another_condition_is_another_export(corpus, tmp_path):
    to = tmp_path / "to"
    assert export(corpus, to, where="n_tokens > 90").jobs
    assert not export(corpus, to, where="n_tokens > 90").jobs
    with pytest.raises(
        BadInput, match=r"files of another export \(.* as jsonl.zst where n_tokens > 90\); choose"
    ):
        export(corpus, to, where="n_tokens > 91")
    with pytest.raises(BadInput, match="another export"):
        export(corpus, to)


def test_interrupted_export_is_finished_with_the_same_account(corpus, tmp_path):
    def interrupted(jobs):
        yield jobs[0]()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(corpus, tmp_path / "a", interrupted, where="n_tokens > 90")
    export(corpus, tmp_path / "a", where="n_tokens > 90")
    export(corpus, tmp_path / "b", where="n_tokens > 90")
    names = [path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*")]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


def test_files_of_an_interrupted_export_with_another_condition_are_removed(corpus, tmp_path):
    def interrupted(jobs):
        yield from (job() for job in jobs[:2])
        raise KeyboardInterrupt

    kept = tmp_path / "to/best/of-a-user.jsonl.zst"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with pytest.raises(KeyboardInterrupt):
        export(corpus, tmp_path / "to", interrupted, where="n_tokens > 90")
    export(corpus, tmp_path / "to", where="n_tokens <= 90")
    listed = pq.read_table(tmp_path / "to/exported.parquet").column("path").to_pylist()
    found = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").glob("*/*.*")}
    assert found == {*listed, "best/of-a-user.jsonl.zst"}


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        ("quality > 1", '--where quality > 1: source best: unable to find column "quality"; there are '),
        ("score = '1'", "--where score = '1': source best: unable to find column \"score\""),
        ("n_tokens +", "--where n_tokens [+]: source best: "),
        ("n_tokens", "--where n_tokens: source best: it gives "),
    ],
)
def test_invalid_conditions_are_one_error_before_writing(corpus, tmp_path, where, fault):
    with pytest.raises(BadRequest, match=fault) as raised:
        export(corpus, tmp_path / "to", where=where)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "to").exists()


def test_condition_without_a_value_names_the_document(corpus, tmp_path):
    bad = next(row["doc_id"] for row in table_of(corpus.load(), "worst") if row["score"] == "none")
    with pytest.raises(
        BadInput, match=f"--where: source worst, file worst/.*, doc_id {bad}: .*score = 'none'"
    ):
        export(corpus, tmp_path / "to", where="CAST(score AS INTEGER) > 0", sources=("worst",))
