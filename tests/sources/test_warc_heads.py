"""Heads of WARC records as crawlers write them: line ends, names and digests of many forms."""

import base64
import hashlib
import re

import pytest
from web_archives import RECORDS, SKIPPED, page, read_file, record, written

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>a page"


def with_digest(stated, content=PAGE):
    return record("response", content, Content_Type="application/http", WARC_Block_Digest=stated)


def with_line_ends(one, end):
    """Return a record whose head, and that of HTTP in it, has other line ends: ClueWeb09 has LF."""
    head, block = one.removesuffix(b"\r\n\r\n").split(b"\r\n\r\n", 1)
    http, gap, body = block.partition(b"\r\n\r\n")
    block = http.replace(b"\r\n", end) + gap.replace(b"\r\n", end) + body
    head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(block), head)
    head = re.sub(rb"WARC-Block-Digest: .*\r\n", b"", head)
    return head.replace(b"\r\n", end) + 2 * end + block + 2 * end


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines_of_heads_may_end_with_lf(tmp_path, ending):
    documents, bad, skipped = read_file(
        written(tmp_path, [with_line_ends(one, b"\n") for one in RECORDS], ending)
    )
    assert (bad, skipped) == ([], SKIPPED)
    assert [row["url"].rpartition("/")[2] for row in documents] == ["one", "two", "three"]
    assert [row["date"] for row in documents] == ["2024-03-05T01:02:03Z"] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.lower().replace(b"warc/1.0", b"WARC/1.0"), lambda head: head.upper(),
        lambda head: head.replace(b": ", b":"), lambda head: head.replace(b": ", b" \t:  "),
        lambda head: head.replace(b": ", b":\r\n\t"), lambda head: head.replace(b"WARC/1.0", b"WARC/0.18"),
        lambda head: head.replace(b"WARC/1.0", b"WARC/1.1"), lambda head: head + b"\r\nno colon",
    ],
    ids=["small letters", "capitals", "no space", "spaces", "folded", "0.18", "1.1", "no colon"],
)  # fmt: skip
def test_names_and_spaces_of_heads_are_read_as_the_standard_has_them(tmp_path, change):
    head, block = record("response", PAGE, Content_Type="application/http").split(b"\r\n\r\n", 1)
    changed = change(head).replace(b"Content-Length:\r\n\t", b"Content-Length: ") + b"\r\n\r\n" + block
    documents, bad, skipped = read_file(written(tmp_path, [changed, RECORDS[2]]))
    assert (bad, skipped) == ([], {})
    assert documents[0]["text"] == "<p>a page"
    assert documents[0]["warc_id"].lower().startswith("urn:uuid:")


def digests(content):
    """Return the forms in which crawlers write digests, made by hashlib and base64 alone."""
    for name in ("md5", "sha1", "sha256", "sha512", "sha384", "blake2b", "sha3_256"):
        digest = hashlib.new(name, content).digest()
        base32 = base64.b32encode(digest).decode()
        for value in (
            base32, base32.lower(), base32.rstrip("="), digest.hex(), digest.hex().upper(),
            base64.b64encode(digest).decode(), base64.urlsafe_b64encode(digest).decode().rstrip("="),
        ):  # fmt: skip
            yield f"{name}:{value}"
            yield f"{name.upper().replace('SHA', 'SHA-').replace('SHA-3_', 'SHA3-')}: {value}"


def test_digest_may_have_any_form(tmp_path):
    stated = [*digests(PAGE)]
    documents, bad, _ = read_file(written(tmp_path, map(with_digest, stated), ""))
    assert (len(documents), bad) == (len(stated), [])
    wrong = [*digests(PAGE + b"x")]
    documents, bad, _ = read_file(written(tmp_path, map(with_digest, wrong), ""))
    assert (len(documents), len(bad)) == (0, len(wrong))
    assert all(
        f"its content does not match its digest (WARC-Block-Digest: {stated}" in row.reason
        for row, stated in zip(bad, wrong, strict=True)
    )


def test_digest_that_cannot_be_computed_is_not_wrong(tmp_path):
    digest = hashlib.sha1(PAGE).hexdigest()
    stated = [
        "blake3:0123456789abcdef",
        "BLAKE3:" + "a" * 64,
        "xxh3:12",
        "sha1:",
        "",
        "none",
        digest,
        "sha1:12",
        "tiger:x",
    ]
    documents, bad, _ = read_file(written(tmp_path, map(with_digest, stated), ""))
    assert (len(documents), bad) == (len(stated), [])


def test_each_of_several_digests_counts(tmp_path):
    right, wrong = f"sha1:{hashlib.sha1(PAGE).hexdigest()}", f"md5:{hashlib.md5(b'x').hexdigest()}"
    both = with_digest(f"{right}\r\nWARC-Block-Digest: {wrong}")
    documents, bad, _ = read_file(written(tmp_path, [with_digest(right), both]))
    assert (len(documents), len(bad)) == (1, 1)


def test_record_without_a_type_of_content_is_http_where_it_begins_so(tmp_path):
    documents, _, skipped = read_file(
        written(tmp_path, [record("response", PAGE), record("response", b"220 ftp\r\n")])
    )
    assert [row["text"] for row in documents] == ["<p>a page"]
    assert skipped == {"response without HTTP": 1}


def test_encoding_of_a_resource_is_that_of_its_head(tmp_path):
    one = record("resource", "<p>Привет".encode("koi8-r"), Content_Type="text/html; charset=koi8-r")
    documents, *_ = read_file(written(tmp_path, [one, page("x")]))
    assert documents[0]["text"] == "<p>Привет"
