"""The statistics of documents: lengths, labels, labels within clusters, and rules that match the same documents.

They are counted once for each set of published files, by jobs on the workers (`tasks.lookup.document_counting`),
and kept in the work folder: DOCUMENT_STATISTICS, some hundreds of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import RunOnWorkers, exchange_parts
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.lookup.document_counting import (
    DIFFERENT_LABELS,
    DOCUMENTS,
    LABELS,
    LENGTH_BINS,
    LENGTHS,
    MATCHED_BY_OTHERS,
    STATS,
    VERSION,
    DocumentsOfFile,
    GatheredLabels,
    LabelsInPart,
    LabelsOfClusters,
    RulesOfFile,
    SumOfDocuments,
)
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.tables import read_table, write_table


@dataclass
class DocumentStats:
    """The published documents of a corpus, by source.

    documents: their number. lengths: their number between two LENGTH_BINS, (60,) int64. labels: for each label of a
    quality model, the number of documents by source. different_labels: the clusters of a round with several
    labelled documents, by the number of different labels. matched_by_others: the documents that a rule removed and
    another rule matches, too, by rule.
    """

    documents: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    different_labels: dict[int, int] = field(default_factory=dict)
    matched_by_others: dict[str, int] = field(default_factory=dict)

    @property
    def not_drawn(self) -> int:
        """The number of documents outside LENGTH_BINS."""
        return sum(self.documents.values()) - sum(int(counts.sum()) for counts in self.lengths.values())


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def document_stats(
    corpus: PublishedCorpus, dedup_round: Round, run_jobs: RunOnWorkers = on_workers
) -> DocumentStats:
    """Return the statistics of the documents; count them unless they have been counted.

    Args:
        corpus: The published corpus.
        dedup_round: Round in whose clusters labels are compared.
        run_jobs: Runs jobs, and returns their results.

    Raises:
        Denied: A published file is damaged.
    """
    ledger, folder = corpus.manifest.ledger, corpus.root
    numbers = {name: number for number, name in corpus.source_names.items()}
    documents = [
        DocumentsOfFile(folder, source, ClusterFile(corpus, file), numbers[source])
        for source in ledger.sources
        for file in corpus.artifacts(f"{source}/")
    ]
    has_removals = any(ledger.removed_by("rules", source) for source in ledger.sources)
    removed = corpus.artifacts("removed/") if has_removals else []
    jobs = [*documents, *(RulesOfFile(folder, None, ClusterFile(corpus, file)) for file in removed)]
    columns = dedup_round.name_of("cluster_id"), dedup_round.name_of("cluster_size")
    key = stage_key(STATS, VERSION, *columns, *(job.key for job in jobs))
    path = artifact_path(STATS, None, "documents", key)

    def merged(artifacts: Sequence[Artifact]) -> pa.Table:
        return read_table(
            folder, merge_in_tree(artifacts, partial(SumOfDocuments, folder, None), run_jobs)[0]
        )

    def table() -> pa.Table:
        made = finished_artifact(folder, path)
        if made is None:
            counts = merged(run_jobs(jobs))
            labels = merged(labels_of_parts(counts, documents, columns, run_jobs))
            made = write_table(folder, path, "documents", pa.concat_tables([counts, labels]))
        return read_table(folder, made)

    return stats_in(rebuilding_damaged(folder, table), corpus.source_names, ledger.sources)


def labels_of_parts(
    counts: pa.Table, documents: Sequence[DocumentsOfFile], columns: tuple[str, str], run_jobs: RunOnWorkers
) -> list[Artifact]:
    """Count the different labels of clusters in the files of the sources that have labels.

    counts: DOCUMENT_STATISTICS of all files. columns: of the cluster and of its size.
    """
    rows = [row for row in counts.to_pylist() if row["kind"] == LABELS]
    sources, labels = {row["source"] for row in rows}, tuple(sorted({row["name"] for row in rows}))
    labelled = [job for job in documents if job.number in sources]
    if not labelled:
        return []
    naming, folder = Naming.for_rows(sum(job.file.artifact.rows for job in labelled)), labelled[0].folder
    sending = [
        LabelsOfClusters(folder, None, naming, i, file=job.file, columns=columns, labels=labels)
        for i, job in enumerate(labelled)
    ]
    sent = exchange_parts(sending, len(naming.numbers), run_jobs, GatheredLabels)
    return run_jobs([LabelsInPart(folder, None, naming, i, (), sent.files(i)) for i in naming.numbers])


def stats_in(table: pa.Table, names: dict[int, str], sources: Sequence[str]) -> DocumentStats:
    """Return the statistics in a table: DOCUMENT_STATISTICS. names: of the sources, by their numbers."""
    stats = DocumentStats(
        documents=dict.fromkeys(sources, 0),
        lengths={source: np.zeros(len(LENGTH_BINS) - 1, np.int64) for source in sources},
    )
    for row in table.to_pylist():
        kind, name, place, count = (row[column] for column in ("kind", "name", "place", "count"))
        if kind == DOCUMENTS:
            stats.documents[names[row["source"]]] = count
        elif kind == LENGTHS:
            stats.lengths[names[row["source"]]][place] = count
        elif kind == LABELS:
            stats.labels.setdefault(name, {})[names[row["source"]]] = count
        elif kind == DIFFERENT_LABELS:
            stats.different_labels[place] = count
        elif kind == MATCHED_BY_OTHERS:
            stats.matched_by_others[name] = count
    return stats
