"""The statistics of judges: decisions of pairs of judges, a sample of their scores, and documents near thresholds.

They are counted once for each set of published files, by a job for each file of kept or removed documents, whose
results are added up in a tree, and kept in the work folder (`tasks.lookup.judge_counting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import RunOnWorkers
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.lookup.judge_columns import JudgeColumns, JudgeThreshold, columns_of_judges
from zyda_flows.tasks.lookup.judge_counting import STATS, VERSION, JudgesOfFile, SumOfJudges
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.tables import footer_of, read_table, write_table


@dataclass(frozen=True)
class JudgeStats:
    """The judges of a corpus, in order; the thresholds of their `keep`; and their JUDGE_STATISTICS.

    columns: of the judges, by source.
    """

    judges: tuple[str, ...]
    thresholds: tuple[JudgeThreshold, ...]
    columns: dict[str, tuple[JudgeColumns, ...]]
    table: pa.Table


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def judge_stats(corpus: PublishedCorpus, run_jobs: RunOnWorkers = on_workers) -> JudgeStats | None:
    """Return the statistics of the judges; count them unless they have been counted.

    Args:
        corpus: The published corpus.
        run_jobs: Runs jobs, and returns their results.

    Returns:
        None if no judge judged a document.

    Raises:
        Denied: A published file is damaged.
    """
    files = {
        source: [*corpus.artifacts(f"{source}/"), *corpus.artifacts(f"removed/{source}/")]
        for source in corpus.manifest.ledger.sources
    }
    columns = {source: columns_in(corpus, source, found) for source, found in files.items() if found}
    judged = {source: found for source, found in columns.items() if found}
    if not judged:
        return None
    judges = tuple(dict.fromkeys(each.judge for found in judged.values() for each in found))
    thresholds = tuple(
        dict.fromkeys(each.threshold for found in judged.values() for each in found if each.threshold)
    )
    folder = corpus.root
    jobs = [
        JudgesOfFile(folder, source, ClusterFile(corpus, file), found, judges, thresholds)
        for source, found in judged.items()
        for file in files[source]
    ]
    path = artifact_path(STATS, None, "judges", stage_key(STATS, VERSION, *(job.key for job in jobs)))

    def table() -> pa.Table:
        made = finished_artifact(folder, path)
        if made is None:
            added = merge_in_tree(run_jobs(jobs), partial(SumOfJudges, folder, None), run_jobs)[0]
            made = write_table(folder, path, "judges", read_table(folder, added))
        return read_table(folder, made)

    return JudgeStats(judges, thresholds, judged, rebuilding_damaged(folder, table))


def columns_in(corpus: PublishedCorpus, source: str, files: Sequence[Artifact]) -> tuple[JudgeColumns, ...]:
    """Return the columns of the judges in the files of a source."""
    with corpus.reading():
        names = footer_of(corpus.folder, files[0]).schema.to_arrow_schema().names
    return tuple(columns_of_judges(corpus.manifest, source, names))
