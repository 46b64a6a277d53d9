"""Files of WARC whose lengths lie, that are junk, blank or bombs: nothing is lost, and time and memory are bounded."""

import bz2
import gzip
import io
import struct
import tarfile

import lz4.frame
import pytest
import zstandard
from bombs import run_bounded
from growth import grows_linearly
from web_archives import RECORDS, page, read_file, record, written

from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.sources.compression import CompressedMembers
from zyda_flows.tasks.sources.tar_members import TarMembers
from zyda_flows.tasks.sources.warc_framing import WarcFraming
from zyda_flows.tasks.storage.stores import Stream

LYING = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\nshort\r\n\r\n"
MANY = [page(f"page-{number}", body=b"<p>%d" % number * 5) for number in range(300)]


def names(documents):
    return [row["url"].rpartition("/")[2] for row in documents]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst", ".lz4", ".bz2"])
@pytest.mark.parametrize("is_one_member", [True, False])
@pytest.mark.parametrize("length", [20_000, 13_000_000, 10**12])
def test_wrong_length_costs_its_record_alone(tmp_path, length, is_one_member, ending):
    records = [*MANY[:100], LYING % length, *MANY[100:200], LYING % length, *MANY[200:]]
    records = [b"".join(records)] if is_one_member else records
    documents, bad, skipped = read_file(written(tmp_path, records, ending))
    assert (names(documents), skipped) == (names([{"url": f"page-{n}"} for n in range(300)]), {})
    assert len(bad) == 2
    assert not any(row.is_rest for row in bad)
    assert all(row.content.startswith(b"WARC/1.0") and b"page-" not in row.content for row in bad)


def test_long_record_with_a_correct_length_is_skipped_with_any_content(tmp_path):
    inner = page("inner") * 3
    served = record("resource", inner + bytes(20_000), Content_Type="application/warc")
    with replaced_limits(warc_record=10_000):
        documents, bad, skipped = read_file(written(tmp_path, [RECORDS[2], served, RECORDS[6]], ""))
    assert (names(documents), bad, skipped) == (["one", "two"], [], {"content of type application": 1})


def test_stream_without_seeking_is_read_further(tmp_path, monkeypatch):
    monkeypatch.setattr(CompressedMembers, "again_from", lambda *_: (_ for _ in ()).throw(ValueError("no")))
    documents, bad, _ = read_file(written(tmp_path, [RECORDS[2], LYING % 10**9, *MANY], ""))
    assert (len(documents), len(bad)) == (1, 1)
    assert bad[0].is_rest
    assert "the file ends" in bad[0].reason


def test_junk_keeps_itself_alone(tmp_path):
    content = b"".join(b"WARC/1.0\r\nX: %d\r\n\r\n" % number for number in range(5000))
    path = tmp_path / "x.warc"
    path.write_bytes(content)
    _, bad, _ = read_file(path)
    assert len(bad) == 5000
    assert b"".join(row.content for row in bad) == content


def test_blank_input_is_bounded(tmp_path):
    content = RECORDS[2] + b"\r\n" * 2_000_000 + RECORDS[2]
    documents, bad, _ = read_file(written(tmp_path, [content]))
    assert len(documents) == 1
    assert bad[0].is_rest
    assert "more than 1,048,576 consecutive bytes of line ends" in bad[0].reason
    documents, bad, _ = read_file(written(tmp_path, [RECORDS[2] + b"\n" * 500_000 + RECORDS[2]]))
    assert (len(documents), bad) == (2, [])


def zstd_of(byte, size):
    """Return a frame of a repeated byte: 4 bytes for each 128 KiB."""
    blocks = size >> 17
    middle, last = struct.pack("<I", 1 << 20 | 2)[:3] + byte, struct.pack("<I", 1 << 20 | 3)[:3] + byte
    return b"\x28\xb5\x2f\xfd\x00\x58" + middle * (blocks - 1) + last


HEAD = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\nContent-Length: 900000000000\r\n\r\n"
GIB = 1 << 30
BOMBS = {
    "line ends in bzip2": (".bz2", lambda: bz2.compress(b"\n" * 4_500_000) * 900),
    "zeros in bzip2": (".bz2", lambda: bz2.compress(bytes(4_500_000)) * 900),
    "line ends in zstd": (".zst", lambda: zstd_of(b"\n", GIB)),
    "letters in zstd": (".zst", lambda: zstd_of(b"a", GIB)),
    "frames of zstd": (".zst", lambda: zstd_of(b"a", 1 << 25) * 32),
    "a long record in zstd": (".zst", lambda: zstandard.compress(HEAD) + zstd_of(b"a", GIB)),
    "a head without end in zstd": (".zst", lambda: zstandard.compress(b"WARC/1.0\r\n") + zstd_of(b"a", GIB)),
    "zeros in gzip": (".gz", lambda: gzip.compress(bytes(1 << 23), 9) * 32),
    "a long record in gzip": (".gz", lambda: gzip.compress(HEAD) + gzip.compress(bytes(1 << 23), 9) * 32),
    "zeros in lz4": (".lz4", lambda: lz4.frame.compress(bytes(1 << 23)) * 32),
    "a large window": (".zst", lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + zstd_of(b"a", GIB)[6:]),
    "gzip in gzip": (".gz", lambda: gzip.compress(gzip.compress(bytes(1 << 26)))),
    "bodies": ("", lambda: b"".join(page(f"{n}", body=zstd_of(b"<", GIB), Content_Encoding="zstd") for n in range(50))),
    "members that begin as records": (".gz", lambda: gzip.compress(b"WARC/1.0\r\n", mtime=0) * 10_000),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_bad_and_costs_little(name, tmp_path):
    ending, make = BOMBS[name]
    path = tmp_path / f"bomb.warc{ending}"
    path.write_bytes(make())
    run = run_bounded(lambda: [row.reason for row in read_file(path)[1]], cpu_seconds=60)
    assert run.result


GZIP_STORED = b"\x1f\x8b\x08\0\0\0\0\0\0\0\0" + struct.pack(
    "<HH", 65530, 0xFFFF ^ 65530
)  # repeats after 65,535 bytes
LONG, SHORT = b"WARC/1.0\r\nContent-Length: 13000000\r\n\r\n", b"WARC/1.0\r\nContent-Length: 11000000\r\n\r\n"
EMPTY = record("metadata")
FRAMINGS = {
    "marks on lines": (None, lambda n: b"\nWARC/1." * n),
    "marks": (None, lambda n: b"WARC/1." * n),
    "marks before an end": (None, lambda n: b"WARC/1.0\n" * n + b"\r\n\r\n"),
    "no lengths": (None, lambda n: b"WARC/1.0\nX: y\n\n" * n),
    "short lengths that lie": (None, lambda n: SHORT * n),
    "long lengths that lie": (None, lambda n: LONG * n),
    "lengths of both kinds that lie": (None, lambda n: (LONG + SHORT) * n),
    "empty records": (None, lambda n: EMPTY * n),
    "requests without a head": (None, lambda n: b"GET / HTTP/1.1\r\n\r\n" * n),
    "spaces in a length": (None, lambda n: (b"WARC/1.0\r\ncontent-length:" + b" " * 60_000 + b"\r\n\r\n") * (n // 1000)),
    "lies in one member": ("gzip", lambda n: gzip.compress(LONG * n, 1)),
    "lies in members": ("gzip", lambda n: gzip.compress(LONG, mtime=0) * n),
    "bytes in members": ("gzip", lambda n: gzip.compress(LONG) + gzip.compress(b"a", mtime=0) * n),
    "marks in members": ("gzip", lambda n: gzip.compress(b"WARC/", mtime=0) * n),
    "heads of gzip": ("gzip", lambda n: b"\x1f\x8b\x08" * n),
    "names in gzip": ("gzip", lambda n: b"\x1f\x8b\x08\x08aaaaaaa" * n),
    "stored blocks of gzip": ("gzip", lambda n: GZIP_STORED * n),
    "zeros between members": ("gzip", lambda n: (b"\0" + gzip.compress(b"", mtime=0)) * n),
    "heads of zstd": ("zstd", lambda n: b"\x28\xb5\x2f\xfd" * n),
    "empty frames of zstd": ("zstd", lambda n: b"\x28\xb5\x2f\xfd\x00\x68\x01\x00\x00" * n),
    "dictionaries of zstd": ("zstd", lambda n: b"\x5d\x2a\x4d\x18\0\0\0\0" * n),
    "heads of lz4": ("lz4", lambda n: b"\x04\x22\x4d\x18" * n),
    "heads of bzip2": ("bzip2", lambda n: b"BZh9" * n),
    "blocks of bzip2": ("bzip2", lambda n: b"BZh9" + b"\x31\x41\x59\x26\x53\x59" * n),
    "heads and blocks of bzip2": ("bzip2", lambda n: b"BZh9\x31\x41\x59\x26\x53\x59" * n),
    "parts of marks of bzip2": ("bzip2", lambda n: b"BZh9" + b"\x41\x59\x26\x53\x59" * n),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMINGS)
def test_time_grows_with_the_file(name):
    kind, make = FRAMINGS[name]

    def count(content):
        stream = Stream("memory", io.BytesIO(content))
        return sum(
            1 for _ in WarcFraming(CompressedMembers(stream, kind, resumes=True, has_dictionaries=True))
        )

    assert grows_linearly(count, make, 1000)


def tar_head(size, kind=b"0"):
    member = tarfile.TarInfo("a")
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "block", [tar_head(0), tar_head(1) + bytes(512), tar_head(8, b"L") + bytes(512), b"x" * 512, bytes(512)]
)
def test_time_grows_with_a_tar(block):
    assert grows_linearly(
        lambda content: sum(1 for _ in TarMembers(iter([content]), 1 << 20, has_end=True)),
        lambda n: block * n,
        10,
    )


def test_negative_size_in_a_tar_is_a_damaged_head():
    head = bytearray(tar_head(5))
    head[124:136] = b"\xff" * 11 + b"\x00"  # minus 256
    head[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(head))[0]
    members = [
        *TarMembers(
            iter([bytes(head), b"a" * 512, tar_head(3), b"abc" + bytes(509), bytes(1024)]),
            1 << 20,
            has_end=True,
        )
    ]
    assert [(one.content, bool(one.fault)) for one in members] == [(b"", True), (b"abc", False)]
