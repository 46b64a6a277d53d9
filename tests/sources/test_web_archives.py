"""WARC and WET: each record is a document, skipped or bad, also in damaged files."""

import gzip
import random
import re

import pyarrow.parquet as pq
import pytest
from fastwarc.warc import ArchiveIterator
from small_corpus import TOKENIZER, build_here, prose
from web_archives import COMPRESS, RECORDS, SKIPPED, page, read_file, record, written

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.recipe.loading import load_recipe


@pytest.mark.parametrize("ending", COMPRESS)
def test_pages_are_documents_and_other_records_are_counted_by_kind(tmp_path, ending):
    documents, bad, skipped = read_file(written(tmp_path, ending=ending))
    assert not bad
    assert skipped == SKIPPED
    assert [row["url"].rpartition("/")[2] for row in documents] == ["one", "two", "three"]
    assert documents[2]["text"] == "<html><p>three"
    assert documents[1] == {
        "text": f"<html><title>two</title><p>{prose('two', 40)}</html>", "url": "https://example.org/two",
        "date": "2024-03-05T01:02:03Z", "content_type": "text/html", "status": 200, "content_language": "de",
        "warc_id": documents[1]["warc_id"],
    }  # fmt: skip
    assert documents[1]["warc_id"].startswith("urn:uuid:")


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_records_may_span_members_in_any_way(tmp_path, ending):
    whole = b"".join(RECORDS)
    one = written(tmp_path, [whole], ending, "one.warc")
    cut = written(tmp_path, [whole[i : i + 777] for i in range(0, len(whole), 777)], ending, "cut.warc")
    assert read_file(one) == read_file(cut) == read_file(written(tmp_path, ending=ending))


def test_texts_of_a_wet_file_are_documents(tmp_path):
    text = record(
        "conversion", "Über uns\nZeile".encode(), Content_Type="text/plain", WARC_Target_URI="https://example.org/",
        WARC_Identified_Content_Language="deu",
    )  # fmt: skip
    documents, bad, skipped = read_file(written(tmp_path, [RECORDS[0], text], name="x.warc.wet"))
    assert (documents[0]["text"], documents[0]["content_language"]) == ("Über uns\nZeile", "deu")
    assert (bad, skipped) == ([], {"warcinfo": 1})


@pytest.mark.parametrize(
    ("charset", "head", "body"),
    [
        ("; charset=windows-1251", "", "Привет".encode("cp1251")),
        ("", '<meta charset="shift_jis">', "こんにちは".encode("shift_jis")),
        ("; charset=nonsense", '<meta charset="latin1">', "Grüße".encode("latin1")),
        ("; charset=latin1", "\ufeff", "Grüße".encode()),
    ],
    ids=["header", "meta", "nonsense in the header", "byte order mark"],
)
def test_encoding_is_that_of_mark_header_or_page(tmp_path, charset, head, body):
    content = (head + "<p>").encode() + body
    documents, *_ = read_file(
        written(tmp_path, [page("x", body=content, Content_Type=f"text/html{charset}")])
    )
    assert documents[0]["text"].endswith(("Привет", "こんにちは", "Grüße"))


BAD = {
    "digest": (page("bad").replace(b"<p>", b"<q>"), r"its content does not match its digest"),
    "no length": (page("bad").replace(b"Content-Length", b"Content-Lenght", 1), r"its head has no Content-Length"),
    "length too small": (
        record("resource", b"<p>" * 50, Content_Type="text/html", Content_Length="90"),
        r"no record follows the 90 bytes",
    ),
    "no record": (b"GET / HTTP/1.1\r\n\r\n", r"no record begins here"),
    "endless head": (b"WARC/1.0\r\n" + b"X: y\r\n" * 20_000, r"its head has no end within 65,536 bytes"),
    "text that is no UTF-8": (record("conversion", b"\xff\xfe\xfd", Content_Type="text/plain"), r"invalid UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_damaged_record_is_a_bad_row_with_its_offset_and_later_records_are_read(tmp_path, fault, ending):
    content, reason = BAD[fault]
    path = written(tmp_path, [*RECORDS[:3], content, *RECORDS[3:]], ending)
    documents, bad, skipped = read_file(path)
    assert [row["url"].rpartition("/")[2] for row in documents] == ["one", "two", "three"]
    assert skipped == SKIPPED
    assert len(bad) == 1
    offset = len(b"".join(map(COMPRESS[ending], RECORDS[:3])))
    assert re.match(rf"at byte {offset:,} of the file: {reason}", bad[0].reason)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".lz4", ".bz2"])
def test_member_with_a_flipped_bit_costs_itself_alone(tmp_path, ending):
    for place in (0.3, 0.5, 0.9):
        members = [COMPRESS[ending](one) for one in RECORDS]
        changed = bytearray(members[2])
        changed[int(len(changed) * place)] ^= 4
        path = tmp_path / f"x.warc{ending}"
        path.write_bytes(b"".join([*members[:2], changed, *members[3:]]))
        documents, bad, skipped = read_file(path)
        assert [row["url"].rpartition("/")[2] for row in documents][-2:] == ["two", "three"]
        assert (len(documents) + len(bad), skipped) == (3, SKIPPED)
        assert all(
            row["text"] == f"<html><title>one</title><p>{prose('one', 40)}</html>" for row in documents[:-2]
        )


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_file_that_is_cut_off_or_changed_anywhere_loses_nothing_silently(tmp_path, ending):
    whole, chosen = written(tmp_path, ending=ending).read_bytes(), random.Random(ending)
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chosen.choice([0, 1, 3])):
            content[chosen.randrange(len(content))] = chosen.randrange(256)
        end = chosen.choice([len(content), chosen.randrange(1, len(content))])
        path = tmp_path / f"y.warc{ending}"
        path.write_bytes(bytes(content[:end]))
        read_file(path)  # compares the counts


def test_record_beyond_the_limit_is_passed_and_not_held(tmp_path):
    long = record("resource", b"<p>" * 5000, Content_Type="text/html")
    with replaced_limits(warc_record=10_000):
        documents, bad, _ = read_file(written(tmp_path, [RECORDS[2], long, RECORDS[6]]))
    assert len(documents) == 2
    assert "it has 15,000 bytes, expected at most 10,000" in bad[0].reason


def test_long_record_that_is_not_a_document_is_skipped_by_its_kind(tmp_path):
    film = page("film", body=random.Random(0).randbytes(300_000), Content_Type="video/mp4")
    gone = page("gone", body=bytes(300_000), status="404 Not Found")
    with replaced_limits(warc_record=200_000):
        documents, bad, skipped = read_file(written(tmp_path, [RECORDS[2], film, gone, RECORDS[6]]))
    assert (len(documents), bad) == (2, [])
    assert sorted(skipped) == ["content of type video", "status 404"]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("length", [30_000_000, 900_000_000_000])
@pytest.mark.parametrize("lying", [RECORDS[1], RECORDS[2]], ids=["request", "response"])
def test_record_with_a_too_large_length_hides_no_later_record(tmp_path, lying, length, ending):
    overstated = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % length, lying, count=1)
    documents, bad, skipped = read_file(
        written(tmp_path, [RECORDS[2], overstated, RECORDS[2], RECORDS[6]], ending)
    )
    assert (len(documents), len(bad), skipped) == (3, 1, {})
    assert ("another record begins" if ending else "bytes before the record does") in bad[0].reason
    assert not bad[0].is_rest


def test_truncated_long_record_is_a_bad_row(tmp_path):
    whole = record("metadata", bytes(1_000_000))
    with replaced_limits(warc_record=200_000):
        documents, bad, skipped = read_file(written(tmp_path, [RECORDS[2], whole[:500_000]], ""))
    assert (len(documents), len(bad), skipped) == (1, 1, {})
    wrong = re.sub(rb"Content-Length: \d+", b"Content-Length: 900000", whole, count=1)
    with replaced_limits(warc_record=200_000):
        documents, bad, skipped = read_file(written(tmp_path, [wrong, RECORDS[2]], ""))
    assert (len(documents), skipped) == (1, {})
    assert "no record follows the 900,000 bytes" in bad[0].reason


def test_pdf_that_a_server_calls_html_is_no_page(tmp_path):
    documents, bad, skipped = read_file(written(tmp_path, [page("x", body=b"%PDF-1.4\n<p>"), RECORDS[2]]))
    assert (len(documents), bad, skipped) == (1, [], {"content of type application": 1})


def test_bad_rows_stop_a_build_that_may_lose_none(tmp_path):
    path = written(tmp_path, [RECORDS[0], BAD["digest"][0]])
    with pytest.raises(BadInput, match=r"x\.warc\.gz, row 1: at byte .*: its content does not match"):
        read_file(path, may_be_bad=False)


def test_arc_file_raises(tmp_path):
    path = tmp_path / "x.warc.gz"
    path.write_bytes(gzip.compress(b"filedesc://x.arc.gz 127.0.0.1 20240101000000 text/plain 76\n1 0 org\n"))
    with pytest.raises(BadInput, match="it is an ARC file"):
        read_file(path)


def test_real_files_lose_nothing(shared):
    counts = {
        path.name: tuple(len(found) for found in read_file(path))
        for path in sorted((shared / "web/warc").glob("*.warc*"))
        if path.name.endswith((".warc", ".gz", ".lz4"))
        and ".wat" not in path.name
        and ".paths" not in path.name
    }
    assert counts["resiliparse-warcfile.warc.gz"] == counts["resiliparse-warcfile.warc.lz4"] == (16, 0, 3)
    assert counts["resiliparse-clueweb-quirk.warc.gz"] == (29, 0, 1)
    assert counts["resiliparse-clipped.warc.gz"] == (0, 1, 0)
    assert counts["warcio-example-trunc.warc"] == (0, 1, 2)
    assert counts["whirlwind.warc.gz"] == (1, 0, 3)
    assert counts["whirlwind.warc.wet.gz"] == (1, 0, 1)


def test_as_many_records_are_found_as_by_fastwarc(shared):
    for name in (
        "resiliparse-warcfile.warc.gz",
        "resiliparse-clueweb-quirk.warc.gz",
        "warcio-example.warc.gz",
        "whirlwind.warc.gz",
    ):
        path = shared / "web/warc" / name
        documents, bad, skipped = read_file(path)
        with path.open("rb") as file:
            found = sum(1 for _ in ArchiveIterator(file, parse_http=False, quirks_mode=True))
        assert len(documents) + len(bad) + sum(skipped.values()) == found


def test_ledger_counts_skipped_records(tmp_path):
    written(tmp_path, [*RECORDS, BAD["digest"][0]])
    (tmp_path / "recipe.yaml").write_text(
        f"name: web\nstorage: out\ntokenizer: {TOKENIZER}\non_bad_rows: set_aside\n"
        "documents: [{extract: fast}]\nsources: [{name: pages, files: '*.warc.gz'}]\n"
    )
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    ledger = build_here(recipe)
    assert [line.skipped for line in ledger.lines if line.skipped] == [SKIPPED]
    assert ledger.of("ingest").documents == 3
    table = pq.read_table(tmp_path / "out/web/published/skipped.parquet").to_pylist()
    assert {row["reason"]: row["records"] for row in table} == SKIPPED
    card = (tmp_path / "out/web/published/README.md").read_text()
    assert "7 records in the files of `pages` are no documents: 1 content of type image, " in card
