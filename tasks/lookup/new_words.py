"""List the documents that a semantic round removed with the most new words.

A job for each file of removed documents lists its own. The lists are merged in a tree: LISTED rows at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import RunOnWorkers
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import SumOfTables, merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 1
STATS = "novelty_stats"
LISTED = 5  # documents
NEW_WORDS = pa.schema(
    [("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), ("cosine", pa.float32()), ("novel", pa.float32())]
)


@dataclass(frozen=True)
class NewWordsOfFile(ArtifactJob):
    """The documents with the most new words in a file of removed documents. removed_by: the stage."""

    stage, version = STATS, VERSION

    file: ClusterFile
    removed_by: str

    @property
    def name(self) -> str:
        return self.file.artifact.name.replace("/", "-")

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, first_rows(self.tables()))

    def tables(self) -> Iterator[pa.Table]:
        for table in self.file.tables(["stage", *NEW_WORDS.names]):
            if "novel" in table.column_names:
                rows = table.filter(pc.field("stage") == self.removed_by)
                yield rows.select(NEW_WORDS.names).cast(NEW_WORDS)


def first_rows(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the LISTED rows with the most new words, of equal ones the first documents."""
    first = NEW_WORDS.empty_table()
    for table in tables:
        ordered = pa.concat_tables([first, table]).sort_by([("novel", "descending"), ("doc_id", "ascending")])
        first = ordered.slice(0, LISTED)
    return first.combine_chunks()


class FirstNewWords(SumOfTables):
    """Merge some tables of NEW_WORDS."""

    stage, version = STATS, VERSION
    added_up = staticmethod(first_rows)


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def most_new_words(corpus: PublishedCorpus, stage: str, run_jobs: RunOnWorkers = on_workers) -> pa.Table:
    """Return the documents that a stage removed with the most new words: NEW_WORDS.

    Raises Denied if a published file is damaged.
    """
    folder = corpus.root
    jobs = [
        NewWordsOfFile(folder, None, ClusterFile(corpus, file), stage)
        for file in corpus.artifacts("removed/")
    ]

    def table() -> pa.Table:
        made = merge_in_tree(run_jobs(jobs), partial(FirstNewWords, folder, None), run_jobs)[0]
        return read_table(folder, made)

    return rebuilding_damaged(folder, table)
