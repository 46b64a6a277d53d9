"""Define the job that makes an artifact from a published file of a corpus, or from a section of the file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import Section, tables_of


@dataclass(frozen=True)
class FileJob(ArtifactJob):
    """Make an artifact from a section of a published file. corpus: the corpus at the time of planning."""

    corpus: Annotated[PublishedCorpus, NotInKey("only `artifact` is read from it")]
    artifact: Artifact
    section: Section

    @property
    def name(self) -> str:
        return self.artifact.name

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Read columns of the section in parts of some MiB."""
        return tables_of(self.corpus.folder, self.artifact, columns, self.section)

    @property
    def whose(self) -> str:
        return f"corpus {self.corpus.label}, file {self.artifact.path}"
