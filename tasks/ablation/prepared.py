"""Prepared experiments: the stored documents of each variant, and the texts and questions that are measured."""

from zyda_flows.tasks.ablation.held_out import HeldOutSet
from zyda_flows.tasks.ablation.records import PartContent
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.records import Record


class PreparedPart(Record):
    """A sample of a part. table: DRAWN, sorted by hash; the run reads the first `documents` of it."""

    table: Artifact
    documents: int
    content: PartContent


class PreparedVariant(Record):
    """A variant, ready for its runs.

    definition: a digest. samples: of its documents, each with all parts; the runs with the same number of a repeat
    read the same sample. different: the number of different samples of each part.
    """

    name: str
    definition: str
    samples: tuple[tuple[PreparedPart, ...], ...]
    different: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[PreparedPart, ...]:
        """The parts of the first sample."""
        return self.samples[0]


class Prepared(Record):
    """An experiment, ready for its runs.

    separator, vocabulary: the id of the token before each document, and the number of ids. tokenizer: a digest.
    held_out: of all measured documents and questions. texts, documents: DRAWN, and its number of rows, by measure.
    questions: OPTIONS, by evaluation. excluded: drawn documents that are held out, or near-duplicates of these.
    """

    separator: int
    vocabulary: int
    tokenizer: str
    held_out: str
    variants: tuple[PreparedVariant, ...]
    texts: dict[str, Artifact]
    questions: dict[str, Artifact]
    documents: dict[str, int]
    excluded: int
    held_out_set: HeldOutSet
