"""Bodies of HTTP responses as servers send them and crawlers keep them: decoded, or set aside with a true reason."""

import gzip
import random
import zlib

import brotli
import pytest
import zstandard
from growth import grows_linearly
from web_archives import RECORDS, page, read_file, record, written

from zyda_flows.tasks.limits import limits, replaced_limits
from zyda_flows.tasks.sources.http_bodies import BadBody, decoded_body
from zyda_flows.tasks.sources.message_heads import Head

HTML = b"<html><p>" + b"".join(b"%d words of a page, " % number for number in range(400)) + b"</html>"


def raw_deflate(content):
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(content) + engine.flush()


def chunked(content, size=100, extension=b"", end=b"0\r\n\r\n"):
    parts = [content[i : i + size] for i in range(0, len(content), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts) + end


ENCODE = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress,
    "zstd": zstandard.compress,
}  # fmt: skip


def decoded(body, *codings, transfer=()):
    return decoded_body(
        body, Head("", {"content-encoding": list(codings), "transfer-encoding": list(transfer)}, 0)
    )


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        *((encode(HTML), [coding]) for coding, encode in ENCODE.items()),
        (raw_deflate(HTML), ["deflate"]),
        (gzip.compress(HTML), ["deflate"]), (zlib.compress(HTML), ["gzip"]),
        (gzip.compress(HTML[:50]) + gzip.compress(HTML[50:]), ["gzip"]),
        (zstandard.compress(HTML[:50]) + b"\x50\x2a\x4d\x18\3\0\0\0abc" + zstandard.compress(HTML[50:]), ["zstd"]),
        (gzip.compress(HTML) + b"\r\n", ["gzip"]), (gzip.compress(HTML) + b"x" * 5000, ["gzip"]),
        (brotli.compress(HTML) + b"\n" * 300, ["br"]), (zstandard.compress(HTML) + b"\r\n<p>", ["zstd"]),
        (brotli.compress(HTML) + b"\r\n", ["br"]), (zlib.compress(HTML) + b"\n", ["deflate"]),
        (brotli.compress(gzip.compress(HTML)), ["gzip, br"]), (brotli.compress(gzip.compress(HTML)), ["gzip", "br"]),
        (gzip.compress(gzip.compress(HTML)), ["gzip, gzip"]),
        (gzip.compress(gzip.compress(HTML)), ["gzip"]), (gzip.compress(HTML), []),
        (gzip.compress(HTML), ["gzip", "gzip"]),
        (gzip.compress(HTML), [" GZip "]), (gzip.compress(HTML), ['"gzip"']), (gzip.compress(HTML), ["gzip;q=1"]),
        (gzip.compress(HTML), ["identity, gzip"]), (gzip.compress(HTML), ["gzip, , "]),
        *((HTML, [coding]) for coding in (*ENCODE, "identity", "utf-8", "none", "", "x-unknown", "compress")),
        ("\ufeff<p>Ü".encode("utf-16-le"), ["gzip"]),
        (b"", ["gzip"]), (b"", ["br"]), (gzip.compress(b""), ["gzip"]), (zstandard.compress(b""), ["zstd"]),
    ],
)  # fmt: skip
def test_body_is_decoded_as_browsers_do_or_read_as_it_is(body, codings):
    wanted = HTML if len(body) > 200 else body if body.startswith(b"\xff\xfe") else b""
    assert decoded(body, *codings) == wanted


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
@pytest.mark.parametrize(
    ("extension", "end"),
    [
        (b"", b"0\r\n\r\n"),
        (b";name=value", b"0\r\nX-Trailer: y\r\n\r\n"),
        (b" ; a", b""),
        (b"", b"000\n"),
        (b"  ", b"5"),
    ],
)
def test_chunks_have_extensions_and_trailers_and_the_last_may_be_missing(size, extension, end):
    assert decoded(chunked(HTML, size, extension, end), transfer=["chunked"]) == HTML
    assert decoded(chunked(HTML, size, extension, end).replace(b"\r\n", b"\n"), transfer=["Chunked"]) == HTML
    compressed = chunked(gzip.compress(HTML), size, extension, end)
    assert decoded(compressed, "gzip", transfer=["chunked"]) == HTML
    assert decoded(compressed, transfer=["gzip, chunked"]) == HTML
    assert decoded(compressed, transfer=["gzip", "chunked"]) == HTML


def test_body_without_chunks_is_read_as_it_is():
    assert decoded(HTML, transfer=["chunked"]) == HTML
    assert decoded(gzip.compress(HTML), "gzip", transfer=["chunked"]) == HTML
    assert decoded(b"", transfer=["chunked"]) == b""


@pytest.mark.parametrize("coding", ENCODE)
def test_body_that_breaks_off_is_decoded_as_far_as_it_goes(coding):
    whole = random.Random(coding).randbytes(500_000)  # more than a block of each coding
    body = ENCODE[coding](whole)
    for length in (len(body) // 2, len(body) - 9, len(body) - 1):
        part = decoded(body[:length], coding)
        assert whole.startswith(part)
        assert len(part) >= length - (1 << 17)
    with pytest.raises(BadBody, match=f"its body ends before any of it can be decoded .coding {coding}"):
        decoded(ENCODE[coding](HTML)[:16], coding)


def test_chunks_that_break_off_are_read_as_far_as_they_go():
    body = chunked(HTML)  # each with 4 bytes before its 100 bytes, and 2 behind them
    assert decoded(body[: 28 * 106 + 4 + 30], transfer=["chunked"]) == HTML[:2830]
    assert decoded(body[: 28 * 106 + 2], transfer=["chunked"]) == HTML[:2800]
    with pytest.raises(BadBody, match="ends before any of it can be decoded"):
        decoded(chunked(gzip.compress(HTML))[:10], "gzip", transfer=["chunked"])


def flipped(body, place):
    return body[:place] + bytes([body[place] ^ 16]) + body[place + 1 :]


@pytest.mark.parametrize(
    ("body", "coding", "reason"),
    [
        (flipped(gzip.compress(HTML), -6), "gzip", "its body is damaged .coding gzip.: .*checksum"),
        (flipped(zlib.compress(HTML), -2), "deflate", "its body is damaged .coding deflate"),
        (flipped(zstandard.ZstdCompressor(write_checksum=True).compress(HTML), -2), "zstd", "is damaged .coding zstd"),
        (bytes(range(256)) * 4, "br", "its body is damaged .coding br"),
        (bytes(range(256)) * 4, "gzip", "not encoded as its head states .'gzip'"),
        (bytes(range(256)) * 4, "compress", "not encoded as its head states .'compress'"),
        (bytes(range(256)) * 4, "aes128gcm", "or not in one of gzip, deflate, br, zstd"),
        (gzip.compress(HTML), ", ".join(["gzip"] * 11), "its body has 11 codings, expected at most 10"),
    ],
    ids=["gzip", "deflate", "zstd", "br", "no gzip", "compress", "unknown", "many"],
)  # fmt: skip
def test_damaged_body_or_unknown_coding_has_its_reason(body, coding, reason):
    with pytest.raises(BadBody, match=f"(?i){reason}"):
        decoded(body, coding)


def test_damaged_chunks_have_a_true_reason():
    body = chunked(HTML)
    damaged = body[:105] + b"no size" + body[107:]
    with pytest.raises(BadBody, match="its body is damaged: no chunk begins at byte 10"):
        decoded(damaged, transfer=["chunked"])


def many_layers(content, layers):
    for _ in range(layers):
        content = gzip.compress(content, mtime=0)
    return content


EMPTY_FRAME = b"\x28\xb5\x2f\xfd\x00\x68\x01\x00\x00"  # with a window of 8 MiB
ZEROS = bytes(20_000_000)
BOMBS = {
    "gzip": lambda: (gzip.compress(ZEROS), "gzip"),
    "deflate": lambda: (zlib.compress(ZEROS), "deflate"),
    "raw deflate": lambda: (raw_deflate(ZEROS), "deflate"),
    "br": lambda: (brotli.compress(ZEROS, quality=5), "br"),
    "zstd": lambda: (zstandard.compress(ZEROS), "zstd"),
    "gzip in gzip": lambda: (many_layers(ZEROS, 3), "gzip, gzip, gzip"),
    "gzip in gzip, unnamed": lambda: (many_layers(ZEROS, 3), ""),
    "br of gzip": lambda: (brotli.compress(gzip.compress(ZEROS)), "gzip, br"),
    "members of gzip": lambda: (gzip.compress(bytes(1_000_000)) * 20, "gzip"),
    "frames of zstd": lambda: (zstandard.compress(bytes(1_000_000)) * 20, "zstd"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_body_that_becomes_too_large_is_a_bad_row(name, tmp_path):
    body, coding = BOMBS[name]()
    with pytest.raises(BadBody, match="it has more than 12,582,912 bytes when it is decoded"):
        decoded(body, coding)
    with replaced_limits(http_body=100_000):
        bomb = page("bomb", body=chunked(body), Content_Encoding=coding, Transfer_Encoding="chunked")
        documents, bad, _ = read_file(written(tmp_path, [bomb, RECORDS[2]]))
    assert len(documents) == 1
    assert "more than 100,000 bytes when it is decoded" in bad[0].reason


def test_layers_of_compression_are_bounded():
    assert decoded(many_layers(HTML, 11), "gzip") == HTML
    with pytest.raises(BadBody, match="its body is compressed more than 10 times"):
        decoded(many_layers(HTML, 12), "gzip")


def test_memory_that_a_body_cannot_have_is_a_bad_row(monkeypatch, tmp_path):
    def out_of_memory(*_):
        raise MemoryError

    monkeypatch.setattr("zyda_flows.tasks.sources.http_bodies.gunzipped", out_of_memory)
    documents, bad, _ = read_file(written(tmp_path, [RECORDS[9], RECORDS[2]]))
    assert (len(documents), len(bad)) == (1, 1)
    assert "needs more memory than is available" in bad[0].reason


GENERATORS = {
    "chunks of a byte": lambda n: (b"1\r\nx\r\n" * n, "", "chunked"),
    "extension without an end": lambda n: (b"1;" + b"x" * n, "", "chunked"),
    "spaces before a chunk": lambda n: (b"1\r\nx\r\n" + b" " * n, "", "chunked"),
    "hexadecimal digits": lambda n: (b"1\r\nx\r\n" + b"a" * n, "", "chunked"),
    "empty members of gzip": lambda n: (gzip.compress(b"", mtime=0) * n, "gzip", ""),
    "empty frames of zstd": lambda n: (EMPTY_FRAME * n, "zstd", ""),
    "skippable frames of zstd": lambda n: (b"\x50\x2a\x4d\x18\0\0\0\0" * n, "zstd", ""),
    "stored blocks of deflate": lambda n: (b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b"\0\0\0\xff\xff" * n, "gzip", ""),
    "flushes of brotli": lambda n: (b"\x0c" + b"\x06" * n, "br", ""),
    "names of codings": lambda n: (b"x", "gzip," * n, ""),
}


def quietly_decoded(arguments):
    body, coding, transfer = arguments
    try:
        return decoded(body, coding, transfer=[transfer])
    except BadBody as error:
        return error


@pytest.mark.parametrize("name", GENERATORS)
def test_time_grows_with_the_body(name):
    assert grows_linearly(quietly_decoded, GENERATORS[name], 1000)


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", "HTTP/1.1 200\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Type:text/html\r\n\r\n", "HTTP/2 200\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/2.0 200 \r\ncontent-type: text/html\r\n\r\n", "HTTP/3 200\r\ncontent-type:text/html\r\n\r\n",
        "http/1.1  200 OK\nContent-Type : text/html\n\n", "HTTP/1.1\t200 OK\r\nContent-Type:\r\n\ttext/html\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\n\tc\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 OK\r\nContent-Type: text/html\r\n\r\n", "HTTP/1.1\r\nContent-Type: text/html\r\n\r\n",
        "ICY 200 OK\r\nContent-Type: text/html\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n: no name\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.0 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Type: TEXT/HTML ; charset=utf-8\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Type: charset=utf-8\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: " + "y" * 200_000 + "\r\nContent-Type: text/html\r\n\r\n",
    ],
)  # fmt: skip
def test_head_that_browsers_read_is_read(tmp_path, head):
    one = record("response", head.encode() + HTML, Content_Type="application/http; msgtype=response")
    documents, bad, skipped = read_file(written(tmp_path, [one, RECORDS[2]]))
    assert (bad, skipped) == ([], {})
    assert (documents[0]["text"], documents[0]["status"]) == (HTML.decode(), 200)


@pytest.mark.parametrize(
    ("start", "is_page"),
    [
        (b"", True),
        (b"\xef\xbb\xbf \n", True),
        (b"<!-- a -->", True),
        (b"<P>", True),
        (b"text ", False),
        (b"<px>", False),
    ],
)
def test_page_without_a_type_is_known_by_its_first_tag(tmp_path, start, is_page):
    head = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"
    one = record("response", head + start + HTML, Content_Type="application/http; msgtype=response")
    documents, bad, skipped = read_file(written(tmp_path, [one, RECORDS[2]]))
    assert (len(documents), bad) == (1 + is_page, []), skipped


def test_head_of_http_is_bounded(tmp_path):
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    for head in (
        interim * (1 + limits().http_head // len(interim)),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000,
    ):
        one = record("response", head + b"\r\n\r\n" + HTML, Content_Type="application/http")
        documents, bad, _ = read_file(written(tmp_path, [one, RECORDS[2]]))
        assert len(documents) == 1
        assert "its head has no end within" in bad[0].reason
