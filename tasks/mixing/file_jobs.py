"""Define the job that makes an artifact from a published file of a corpus."""

from dataclasses import dataclass
from typing import Annotated

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact


@dataclass(frozen=True)
class FileJob(ArtifactJob):
    """Make an artifact from a published file. corpus: the corpus at the time of planning."""

    corpus: Annotated[PublishedCorpus, NotInKey("only `artifact` is read from it")]
    artifact: Artifact

    @property
    def name(self) -> str:
        return self.artifact.name

    @property
    def whose(self) -> str:
        return f"corpus {self.corpus.label}, file {self.artifact.path}"
