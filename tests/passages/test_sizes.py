"""No task of the search for passages reads more of a corpus with four times as many files."""

import pytest
from small_corpus import Corpus, build_here, prose, rows, write_rows
from task_sizes import TaskSizes, grown_steps

from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.passages import context_jobs, search

pytestmark = pytest.mark.slow
LIMITS = {
    (context_jobs, "HELD_BYTES"): 10_000, (document_names, "PART_ROWS"): 100, (exchange, "MOST_FILES"): 2,
    (search, "PART_BYTES"): 3_000,
}  # fmt: skip
GROWTH = 3  # parts of few fingerprints have random sizes


def corpus_of_files(folder, files):
    """Return a corpus whose documents have a passage of the next file and one of all files."""
    corpus = Corpus(folder)
    for number in range(files):
        after = (number + 1) % files
        texts = {
            f"d{number}_{i}": f"{prose(f'own {number} {i}', 40)} {prose(f'passage {after} {i}', 40)}\n"
            f"{prose(f'passage {number} {i}', 40)}"
            for i in range(4)
        }
        write_rows(folder / f"in/one-{number:03d}.parquet", rows(**texts))
    sources = [{"name": "one", "files": "in/one-*.parquet"}]
    corpus.recipe |= {"sources": sources, "dedup": {"exact": "text"}, "passages": [{"length": 60}]}
    return corpus


def test_no_task_grows_with_the_corpus(tmp_path, monkeypatch):
    for (module, name), value in LIMITS.items():
        monkeypatch.setattr(module, name, value)
    sizes = {}
    for files in (5, 20):
        recipe = corpus_of_files(tmp_path / str(files), files).load()
        with monkeypatch.context() as patch:
            sizes[files] = TaskSizes(patch)
            sizes[files].measure_builds(patch)
            build_here(recipe)
    steps = {"FingerprintsOfShard", "ContextsOfShard", "RunsOfRange", "RowsOfShard", "PassagesOfShard"}
    assert {*sizes[5].largest} > steps
    grown = grown_steps(sizes[5], sizes[20], GROWTH)
    assert {step: found for step, found in grown.items() if step in steps or "Gathered" in step} == {}
