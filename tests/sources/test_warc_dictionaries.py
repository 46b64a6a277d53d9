"""`.warc.zst` with the dictionary that its frames were made with: read as the same records from gzip are."""

import random
import re
import shutil
import subprocess
import sys

import pytest
import zstandard
from web_archives import RECORDS, SKIPPED, page, read_file, written

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import chunks_of
from zyda_flows.tasks.storage.stores import Stream

PAGES = [page(f"p{i}") for i in range(40)]
MANY = [*RECORDS, *PAGES]
DICTIONARY = zstandard.train_dictionary(8192, MANY * 20, dict_id=40_000)
OTHER = zstandard.train_dictionary(8192, PAGES * 20, dict_id=50_000)


def frame(content, magic=0x184D2A5D):
    """Return a frame that decoders pass over."""
    return magic.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content


def frames(records, dictionary=DICTIONARY, **choices):
    """Return records, each a frame of its own."""
    compressor = zstandard.ZstdCompressor(dict_data=dictionary, **{"write_checksum": True, **choices})
    return [compressor.compress(one) for one in records]


def of_unknown_length(records):
    def compressed(one):
        stream = zstandard.ZstdCompressor(dict_data=DICTIONARY).compressobj()
        return stream.compress(one) + stream.flush()

    return [compressed(one) for one in records]


def file_of(folder, *parts, name="x.warc.zst"):
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


PLAIN = frame(DICTIONARY.as_bytes())
COMPRESSED = frame(zstandard.ZstdCompressor(write_checksum=True).compress(DICTIONARY.as_bytes()))


@pytest.mark.parametrize("first", [PLAIN, COMPRESSED], ids=["as it is", "compressed"])
@pytest.mark.parametrize(
    "packed",
    [
        frames(MANY),
        frames(MANY, write_content_size=False, write_checksum=False),
        of_unknown_length(MANY),
        frames(MANY, write_dict_id=False),
        [part for one in frames(MANY) for part in (one, frame(b"its size", 0x184D2A50))],
        [frames([b""])[0], *frames(MANY)],
        frames([b"".join(MANY)]),
        frames([b"".join(MANY)[i : i + 777] for i in range(0, len(b"".join(MANY)), 777)]),
        [*frames(MANY[:20]), *frames(MANY[20:], dictionary=None)],
    ],
    ids=[
        "one frame for each", "no sizes", "streamed", "no dictionary id", "other frames between", "an empty frame",
        "one frame for all", "cut anywhere", "some without the dictionary",
    ],
)  # fmt: skip
def test_records_equal_the_records_of_the_same_file_in_gzip(tmp_path, first, packed):
    expected = read_file(written(tmp_path, MANY))
    assert (len(expected[0]), expected[1], expected[2]) == (43, [], SKIPPED)
    assert read_file(file_of(tmp_path, first, *packed)) == expected


@pytest.mark.skipif(not shutil.which("zstd"), reason="there is no zstd here")
def test_frames_of_the_zstd_program_are_read(tmp_path):
    (tmp_path / "dictionary").write_bytes(DICTIONARY.as_bytes())

    def zstd(content, *arguments):
        command = ["zstd", "-c", "-q", *arguments]
        return subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout

    with_it = [zstd(one, "-D", str(tmp_path / "dictionary")) for one in RECORDS]
    expected = read_file(written(tmp_path))
    assert read_file(file_of(tmp_path, frame(zstd(DICTIONARY.as_bytes())), *with_it)) == expected
    assert read_file(file_of(tmp_path, *map(zstd, RECORDS), name="each.warc.zst")) == expected
    assert read_file(file_of(tmp_path, zstd(b"".join(RECORDS), "--ultra", "-22", "--long=31"))) == expected


def test_concatenated_files_use_their_own_dictionaries(tmp_path):
    second = [frame(OTHER.as_bytes()), *frames(PAGES, OTHER)]
    path = file_of(tmp_path, PLAIN, *frames(RECORDS), *second)
    assert read_file(path) == read_file(written(tmp_path, MANY))


FULL = limits().zstd_dictionary
NO_DICTIONARY = {
    "none": (frame(b"a note by the crawler"), "the frame of its dictionary has no dictionary"),
    "empty": (frame(b""), "the frame of its dictionary has no dictionary"),
    "begins as one": (frame(DICTIONARY.as_bytes()[:60]), "its dictionary is damaged"),
    "compressed, and none": (frame(zstandard.compress(b"a note")), "the frame of its dictionary has no dictionary"),
    "compressed and cut off": (frame(COMPRESSED[8:-9]), "its dictionary has another length than its frame"),
    "compressed, with more behind it": (frame(COMPRESSED[8:] + b"more"), "its dictionary has another length than|something"),
    "too large": (frame(DICTIONARY.as_bytes() + bytes(FULL)), rf"its dictionary has {FULL + 8192:,} bytes, expected at most"),
    "too large when it is decompressed": (
        frame(zstandard.compress(DICTIONARY.as_bytes() + bytes(1 << 28))), f"its dictionary has more than {FULL:,} bytes"
    ),
    "of a window that is too large": (  # its head states 128 MiB
        frame(b"\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00"), "its dictionary cannot be decompressed: .* too much memory"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", NO_DICTIONARY)
def test_dictionary_that_is_none_is_a_bad_row_and_so_is_each_record_that_needs_it(tmp_path, fault):
    content, reason = NO_DICTIONARY[fault]
    path = file_of(tmp_path, content, *frames(PAGES[:3]), *frames(RECORDS, dictionary=None))
    documents, bad, skipped = read_file(path)
    assert (documents, skipped) == (read_file(written(tmp_path))[0], SKIPPED)
    assert re.match(rf"at byte 0 of the file: the data are damaged: {reason}", bad[0].reason)
    assert [re.sub("[^A-Z]*", "", row.reason)[:1] for row in bad[1:]] == ["D"] * 3  # Dictionary mismatch
    offsets = [len(content) + sum(map(len, frames(PAGES[:i]))) for i in range(3)]
    assert [row.reason.split(" of the file")[0] for row in bad[1:]] == [f"at byte {i:,}" for i in offsets]
    with pytest.raises(BadInput, match=rf"x\.warc\.zst, row 0: at byte 0 of the file: .*{reason}"):
        read_file(path, may_be_bad=False)


def test_record_of_another_dictionary_is_a_bad_row(tmp_path):
    parts = [PLAIN, *frames(RECORDS[:3]), *frames(PAGES[:2], OTHER), *frames(RECORDS[3:])]
    documents, bad, skipped = read_file(file_of(tmp_path, *parts))
    assert (documents, skipped) == (read_file(written(tmp_path))[0], SKIPPED)
    offset = len(b"".join(parts[:4]))
    assert re.match(rf"at byte {offset:,} of the file: .*Dictionary mismatch", bad[0].reason)
    assert len(bad) == 2


def test_records_with_a_dictionary_that_is_missing_are_bad_rows(tmp_path):
    documents, bad, _ = read_file(file_of(tmp_path, *frames(PAGES)))
    assert documents == []
    assert len(bad) == len(PAGES)
    assert bad[-1].is_rest


def test_adjacent_damaged_records_are_a_bad_row_each(tmp_path):
    parts = frames(MANY)
    for i in (12, 13, 14, 30):
        parts[i] = parts[i][:-1] + bytes([parts[i][-1] ^ 1])  # the checksum
    documents, bad, skipped = read_file(file_of(tmp_path, PLAIN, *parts))
    expected = [row for row in read_file(written(tmp_path, MANY))[0] if row["url"][-3:] not in
                {"/p2", "/p3", "/p4", "p20"}]  # fmt: skip
    assert (documents, len(bad), skipped) == (expected, 4, SKIPPED)
    offsets = [len(PLAIN) + len(b"".join(parts[:i])) for i in (12, 13, 14, 30)]
    assert [row.reason.split(" of the file")[0] for row in bad] == [f"at byte {i:,}" for i in offsets]


def test_record_of_many_blocks_after_a_damaged_record_is_read(tmp_path):
    noise = (
        random.Random(3).randbytes(300_000).hex().encode()
    )  # so that no block ends within the first bytes given
    parts = frames([PAGES[0], page("long", body=b"<p>" + noise), PAGES[1]], dictionary=None)
    parts[0] = parts[0][:-1] + bytes([parts[0][-1] ^ 1])
    documents, bad, _ = read_file(file_of(tmp_path, *parts))
    assert [row["url"].rpartition("/")[2] for row in documents] == ["long", "p1"]
    assert len(bad) == 1


@pytest.mark.parametrize("first", [PLAIN, COMPRESSED], ids=["as it is", "compressed"])
def test_file_truncated_in_its_dictionary_is_a_bad_row(tmp_path, first):
    for end in (5, 8, 9, len(first) // 2, len(first) - 1):
        documents, bad, skipped = read_file(file_of(tmp_path, first[:end]))
        assert (documents, skipped, [row.is_rest for row in bad]) == ([], {}, [True])
        assert "it ends in the middle of its dictionary" in bad[0].reason


@pytest.mark.parametrize("first", [PLAIN, COMPRESSED], ids=["as it is", "compressed"])
def test_flipped_bit_gives_no_text_that_was_not_there_and_loses_none_silently(tmp_path, first):
    chosen, expected = random.Random(first), read_file(written(tmp_path, RECORDS))[0]
    whole = first + b"".join(frames(RECORDS))
    places = [*range(12), *(chosen.randrange(len(first)) for _ in range(60)),
              *(chosen.randrange(len(first), len(whole)) for _ in range(60))]  # fmt: skip
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << chosen.randrange(8)
        documents, bad, skipped = read_file(file_of(tmp_path, bytes(content)))
        assert all(row in expected for row in documents)
        assert len(documents) + len(bad) + sum(skipped.values()) >= len(RECORDS) or (
            bad and (bad[-1].is_rest or place < len(first))
        )


def test_dictionary_is_for_web_archives_alone(tmp_path):
    content = frame(b"of another meaning elsewhere") + zstandard.compress(b"text")
    with file_of(tmp_path, content).open("rb") as file:
        assert b"".join(chunks_of(Stream("x", file), "zstd")) == b"text"


HOLD_LITTLE = """
import resource, sys
from zyda_flows.tasks.sources.compression import CompressedMembers
from zyda_flows.tasks.storage.stores import Stream
with open(sys.argv[1], "rb") as file:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(sum(1 for _ in CompressedMembers(Stream("x", file), "zstd", resumes=True, has_dictionaries=True)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_dictionary_beyond_the_limit_is_not_held(tmp_path):
    path = tmp_path / "x.zst"
    with path.open("wb") as file:
        file.write(frame(b"")[:4] + (1 << 28).to_bytes(4, "little"))
        file.seek(8 + (1 << 28))
        file.write(zstandard.compress(b"x"))
    found = subprocess.run(
        [sys.executable, "-c", HOLD_LITTLE, path], capture_output=True, text=True, check=True
    )
    blocks, kib = map(int, found.stdout.split())
    assert blocks == 2
    assert kib < 64 << 10
