"""The work files of a mixture are counted and removed without a list of all of them in memory."""

import tracemalloc

import pytest

from zyda_flows.tasks.mixing import removal
from zyda_flows.tasks.mixing.removal import remove_from_work, work_removed
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.walking import sizes_below

KEPT = {"work/lock", "work/tokens/one/file-0.parquet"}


def write_work(folder, files):
    """Write a work folder and an unfinished version: three bytes in each file."""
    folder.write("work/lock", b"abc")
    folder.write("work/files.json", b"abc")
    folder.write("0123456789ab/megatron/train.bin", b"abc")
    for number in range(files):
        folder.write(f"work/tokens/one/file-{number}.parquet", b"abc")
        folder.write(f"work/chosen/file [{number}].parquet", b"abc")


@pytest.mark.parametrize("url", ["memory://removal-of-work", None])
def test_files_are_counted_by_folder_and_removed(tmp_path, monkeypatch, url):
    monkeypatch.setattr(removal, "REMOVED_AT_ONCE", 3)
    folder = Folder(url or str(tmp_path))
    write_work(folder, 10)
    counted = [(each.path, each.files, each.size) for each in work_removed(folder, ["0123456789ab"], KEPT)]
    assert counted == [
        ("0123456789ab", 1, 3), ("work", 1, 3), ("work/chosen", 10, 30), ("work/tokens", 9, 27),
    ]  # fmt: skip
    assert {path for path, _ in sizes_below(folder, "work")} == {*folder.files("work")}
    remove_from_work(folder, KEPT)
    assert {*folder.files("work")} == KEPT
    assert folder.files("0123456789ab")


def test_a_missing_work_folder_has_no_files(tmp_path):
    assert [*sizes_below(Folder(str(tmp_path)), "work")] == []


def peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(removal, "REMOVED_AT_ONCE", 100)
    peaks = []
    for files in (300, 300, 1200):  # the first run loads modules
        folder = Folder(str(tmp_path / str(len(peaks))))
        write_work(folder, files)
        counting = peak(lambda folder=folder: [*work_removed(folder, [], KEPT)])
        peaks.append((counting, peak(lambda folder=folder: remove_from_work(folder, KEPT))))
        assert {*folder.files("work")} == KEPT
    _, small, large = peaks
    assert large[0] < 1.3 * small[0]
    assert large[1] < 1.3 * small[1]
