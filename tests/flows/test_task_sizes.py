"""Test that no task of a build or of its report reads more of a corpus with four times as many files."""

from functools import partial

import pytest
from report_pages import CLASSIFY
from small_corpus import Corpus, build_here, edited, prose, rows, write_rows
from task_sizes import TaskSizes, grown_steps

from zyda_flows.tasks.accounts import components
from zyda_flows.tasks.accounts.published_files import FileTable
from zyda_flows.tasks.dedup import cluster_files, clusters, document_names, exchange
from zyda_flows.tasks.documents import phrase_contexts
from zyda_flows.tasks.lookup import report_data
from zyda_flows.tasks.signatures import bands, edges
from zyda_flows.tasks.stage import trees

pytestmark = pytest.mark.slow
SMALL, LARGE = 6, 24  # files of each source
# With these, each stage is divided into several tasks.
LIMITS = {
    (trees, "FAN_IN"): 2, (document_names, "PART_ROWS"): 60, (exchange, "MOST_FILES"): 4,
    (phrase_contexts, "PART_ROWS"): 30, (phrase_contexts, "GROUP_ROWS"): 10, (bands, "RANGE_ROWS"): 200,
    (edges, "MOST_ROWS"): 100, (clusters, "STEP_DOCUMENTS"): 120,
    (clusters, "LAST_DOCUMENTS"): 120, (cluster_files, "FILE_DOCUMENTS"): 80, (components, "MOST_ROWS"): 4,
}  # fmt: skip
GROWTH = 2  # parts of few clusters have random sizes
# The tasks of `audit` are counted as its stage: they are functions, not jobs. The process of `overlap` reads the sums
# of each file of clusters, a row for two sources. A job of `index` has the names of all files of keys. `EdgesOfRange`
# and `IndexedRange` read whole row groups of 65,536 keys, which small corpora do not fill. The report lists the files
# that its jobs read, and reads at most 1,000 audited pairs.
REPORT_READS = {(FileTable, "rows"): "table of files", (FileTable, "folders"): "table of files",
                (report_data, "audit_findings"): "audited pairs"}  # fmt: skip
NOT_MEASURED = {"stage audit", "stage overlap", "IndexedRange", "EdgesOfRange", *REPORT_READS.values()}


def corpus_of_files(folder, files):
    """Build a corpus of two sources with a component of each file, documents in clusters and evaluation items."""
    corpus = Corpus(folder)
    item = {"question": prose("a question", 60), "choices": ["yes", "no"], "answer": 0}
    write_rows(folder / "set.parquet", [item])
    for number in range(files):
        texts = {f"alone{number}-{i}": prose(f"{number} {i}", 50 + i) for i in range(6)}
        texts |= {f"short{number}-{i}": prose(f"short {number} {i}", 9) for i in range(3)}
        texts |= {f"first{number}-{i}": prose(f"pair {number} {i}", 60) for i in range(6)}
        texts[f"item{number}"] = (
            f"{prose(f'before {number}', 30)} {item['question']} yes {prose(f'after {number}', 30)}"
        )
        write_rows(folder / f"in/one-{number:03d}.parquet", named(rows(**texts), number))
        before = (number - 1) % files
        others = {f"next{number}-{i}": edited(prose(f"pair {before} {i}", 60)) for i in range(6)}
        others |= {f"own{number}-{i}": edited(prose(f"own {number} {i // 2}", 60), i) for i in range(6)}
        write_rows(folder / f"in/two-{number:03d}.parquet", named(rows(**others), number))
    corpus.recipe |= {
        "name": "growing",
        "published_mib": 0.005,  # a file of each shard
        "documents": [
            {"filter": {"zyda1": {"length": 150, "mean_word_length": None}}},
            {
                "decontaminate": {
                    "sets": {"one": str(folder / "set.parquet")},
                    "action": "mark",
                    "frequent_documents": 2,
                }
            },
        ],
        "dedup": {"scope": "across", "bands": 16, "values": 128},
        "sources": [
            {
                "name": name,
                "files": f"in/{name}-*.parquet",
                "component": {"column": "part"},
                "classify": CLASSIFY,
            }
            for name in ("one", "two")
        ],
    }
    return corpus


def named(documents, number):
    return [{**document, "part": f"part {number % 2}"} for document in documents]


def measured_report(sizes, patch, recipe):
    """Compute the contents of the report, and measure what its own process reads."""

    def measured(read, step):
        return lambda *arguments: sizes.measure(step, partial(read, *arguments))

    for (owner, name), step in REPORT_READS.items():
        patch.setattr(owner, name, measured(getattr(owner, name), step))
    return sizes.measure("report", partial(report_data.findings_of, recipe))


def test_largest_task_of_each_stage_does_not_grow_with_the_corpus(tmp_path, compiled, monkeypatch):
    for (module, name), value in LIMITS.items():
        monkeypatch.setattr(module, name, value)
    sizes = {}
    for files in (SMALL, LARGE):
        recipe = corpus_of_files(tmp_path / str(files), files).load()
        with monkeypatch.context() as patch:
            sizes[files] = TaskSizes(patch)
            sizes[files].measure_builds(patch)
            build_here(recipe)
            findings = measured_report(sizes[files], patch, recipe)
        assert findings.rounds[0].clusters.documents >= 15 * files
        assert sum(findings.documents.different_labels.values()) > files
    small, large = sizes[SMALL], sizes[LARGE]
    assert {*small.largest} > {
        "ContextsOfPart", "DocumentsOfFile", "FirstRowsOfFile", "LabelsOfClusters", "LabelsInPart", "MembersInFile",
        "RulesOfFile", "SumOfDocuments", "report", "ShardsToPublish", "SharedOfPart", "SumOfCounts",
        "SumOfStatistics", *(f"stage {name}" for name in ("publish", "contamination", "clusters", "decisions")),
    }  # fmt: skip
    grown = grown_steps(small, large, GROWTH)
    assert {step: sizes for step, sizes in grown.items() if step not in NOT_MEASURED} == {}
