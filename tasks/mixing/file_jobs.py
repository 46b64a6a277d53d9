"""What is made of one published file of a corpus."""

from dataclasses import dataclass
from typing import Annotated

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact


@dataclass(frozen=True)
class FileJob(ArtifactJob):
    """An artifact to make of a published file. corpus: as it was when the mixture was planned."""

    corpus: Annotated[PublishedCorpus, NotInKey("`artifact` is all that is read of it")]
    artifact: Artifact

    @property
    def name(self) -> str:
        return self.artifact.name

    @property
    def whose(self) -> str:
        return f"corpus {self.corpus.label}, file {self.artifact.path}"
