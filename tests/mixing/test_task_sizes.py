"""Test that no task of a mixture reads more of a corpus with four times as many files."""

import pytest
from small_corpus import Corpus, build_here, edited, prose, rows, write_rows
from small_mixtures import copies_in, documents, mixed_in, mixture_file, origins
from task_sizes import TaskSizes, grown_steps

from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.mixing import amounts, neighbours, planning, segment_groups, tallies
from zyda_flows.tasks.publish import published_shards
from zyda_flows.tasks.signatures import bands

SMALL, LARGE = 8, 32  # files of a corpus
ROW_GROUP_BYTES = 6_000  # of published files, which four input files of 8 kB share
# With these, each step is divided into several tasks, and rows are gathered.
LIMITS = {
    (document_names, "PART_ROWS"): 30, (exchange, "MOST_FILES"): 4, (tallies, "FILES_TOGETHER"): 4,
    (tallies, "BIN_BITS"): 4, (tallies, "BINS"): 16, (amounts, "BIN_BITS"): 4, (neighbours, "RANGE_ROWS"): 24,
    (segment_groups, "MOST_SEGMENTS"): 4, (segment_groups, "GATHERED_BYTES"): 40_000,
    (planning, "SECTION_BYTES"): ROW_GROUP_BYTES,
}  # fmt: skip
OPTIONS = {
    "parts": [{"name": "alone", "where": "name < 'b'", "epochs": 1.25}, {"name": "rest", "epochs": 2}],
    "budget": ..., "repeat": {1: 1, 2: 3, 9: 1}, "validation": {"share": 0.3}, "file_gib": 3e-5,
    "formats": ["megatron", "text"],
}  # fmt: skip


def corpus_of_files(folder, name, files):
    """Build a corpus of files with 20 documents each.

    12 of them are near-duplicates of a document of the next file, and 2 of a document of the other corpus.
    """
    corpus = Corpus(folder)
    for number in range(files):
        texts = {f"alone{number}-{i}": prose(f"{name} {number} {i}", 50 + i) for i in range(6)}
        texts |= {f"first{number}-{i}": prose(f"{name} pair {number} {i}", 60) for i in range(6)}
        before = (number - 1) % files
        texts |= {f"next{number}-{i}": edited(prose(f"{name} pair {before} {i}", 60)) for i in range(6)}
        texts |= {
            f"common{number}-{i}": edited(prose(f"common {number} {i}", 60), len(name)) for i in range(2)
        }
        write_rows(folder / f"in/good-{number:03d}.parquet", rows(**texts))
    source = {"name": "good", "files": "in/good-*.parquet"}
    dedup = {"scope": "across", "bands": 32, "values": 128}
    corpus.recipe = {
        **corpus.recipe,
        "name": name,
        "sources": [source],
        "dedup": dedup,
        "published_mib": 0.04,
    }
    build_here(corpus.load())
    return corpus


@pytest.fixture(scope="module")
def corpora_by_size(tmp_path_factory, compiled):
    """Return two corpora with near-duplicates of each other, small and large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "RANGE_ROWS", 100)
        patch.setattr(published_shards, "ROW_GROUP_BYTES", ROW_GROUP_BYTES)
        return {
            files: [corpus_of_files(tmp_path_factory.mktemp(name), name, files) for name in ("one", "other")]
            for files in (SMALL, LARGE)
        }


@pytest.mark.slow
def test_largest_task_of_each_step_does_not_grow_with_the_corpus(corpora_by_size, tmp_path, monkeypatch):
    """A task that reads a part of each file, or a group of files, has a limit of rows or bytes."""
    for (module, name), value in LIMITS.items():
        monkeypatch.setattr(module, name, value)
    sizes = {}
    for files, corpora in corpora_by_size.items():
        sizes[files] = TaskSizes(monkeypatch)
        mixed_in(mixture_file(tmp_path / str(files), corpora, **OPTIONS), sizes[files].run)
    small, large = sizes[SMALL], sizes[LARGE]
    assert {*small.largest} == {*large.largest}
    assert len(large.largest) == 17
    assert not grown_steps(small, large)
    assert all(tasks >= 2 * small.tasks[step] for step, tasks in large.tasks.items())


@pytest.mark.slow
def test_mixture_does_not_depend_on_the_size_of_tasks(corpora_by_size, tmp_path, monkeypatch):
    corpora = corpora_by_size[SMALL]
    whole, place = mixed_in(mixture_file(tmp_path / "whole", corpora, **OPTIONS))
    for (module, name), value in LIMITS.items():
        monkeypatch.setattr(module, name, value)
    divided, divided_place = mixed_in(mixture_file(tmp_path / "divided", corpora, **OPTIONS))
    assert divided == whole
    for output in whole.outputs:
        assert origins(divided_place, output.name) == origins(place, output.name)
        for end in ("bin", "idx"):
            path = f"megatron/{output.name}.{end}"
            assert (divided_place / path).read_bytes() == (place / path).read_bytes()
    names = {row["name"] for key, row in documents(corpora).items() if key in held_out_keys(whole, place)}
    assert len(names) > 20
    assert {name.partition("-")[0].rstrip("0123456789") for name in names} == {"alone"}


def held_out_keys(mixed, place):
    return {(label, doc_id) for _, label, doc_id in copies_in(mixed, place, "validation")}
