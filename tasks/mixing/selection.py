"""Choose the documents of a mixture, and plan its amounts: the steps before the shuffle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import Exchange, Files
from zyda_flows.tasks.mixing.amounts import Amount, amounts_of
from zyda_flows.tasks.mixing.choosing import CHOSEN, ChosenOfFile
from zyda_flows.tasks.mixing.mixture import faults_with_lines
from zyda_flows.tasks.mixing.neighbours import neighbours_in
from zyda_flows.tasks.mixing.passes import passes_of
from zyda_flows.tasks.mixing.planning import Inputs, PublishedFile
from zyda_flows.tasks.mixing.shares import CorpusFile, shares_of_files
from zyda_flows.tasks.mixing.tallies import (
    DocumentsInBins,
    PartTally,
    SumOfTallies,
    Tallies,
    TallyJob,
    TallyOfFiles,
    tallies_in,
    together,
)
from zyda_flows.tasks.mixing.tokenising import TokensOfFile
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import Section

RunJobs = Callable[
    [Sequence[Callable[[], Any]], str], list[Any]
]  # calls each job of a named step; returns results


@dataclass(frozen=True)
class MixturePlan:
    """Available and planned amounts of each part.

    left_out: documents that belong to no part. passes: with `order: epochs`, the first key of each pass.
    """

    tallies: tuple[PartTally, ...]
    amounts: tuple[Amount, ...]
    left_out: int
    passes: tuple[int, ...] = ()


class Selection:
    """The first steps of a mixture, up to its plan. Each step runs when its property is first read."""

    def __init__(self, inputs: Inputs, run_jobs: RunJobs) -> None:
        self.inputs, self.run_jobs = inputs, run_jobs
        self.mixture, self.folder, self.encoding = inputs.mixture, inputs.folder, inputs.encoding
        file_of_source = {(file.corpus, file.source): file for file in inputs.files}
        parts = {source: inputs.parts_of(file) for source, file in file_of_source.items()}
        # Files that belong to no part are not read.
        self.files = [
            (number, file, parts[file.corpus, file.source])
            for number, file in enumerate(inputs.files)
            if parts[file.corpus, file.source]
        ]

    @property
    def token_jobs(self) -> list[TokensOfFile]:
        """The jobs that encode the documents of each file."""
        return [
            TokensOfFile(
                *self.published_file(file),
                tokenizer=self.encoding.digest,
                special_tokens=self.encoding.special_tokens,
                width=self.encoding.width,
                is_counted=self.inputs.is_counted(file.corpus),
            )
            for _, file, _ in self.files
        ]

    def published_file(
        self, file: PublishedFile
    ) -> tuple[Folder, str | None, PublishedCorpus, Artifact, Section]:
        """Return the first fields of a `FileJob`."""
        corpus = self.inputs.corpora[file.corpus]
        return self.folder, self.inputs.source_of(file), corpus, file.artifact, file.section

    @cached_property
    def tokens(self) -> list[Artifact]:
        """The token ids of the documents of each file."""
        return self.run_jobs(self.token_jobs, "tokens")

    @cached_property
    def chosen(self) -> list[Artifact]:
        """The chosen documents of each file with their parts: CHOSEN."""
        tokens, shares = self.tokens, self.shares
        repeat = tuple(self.mixture.repeat.items())
        neighbours = self.neighbours
        jobs = [
            ChosenOfFile(
                *self.published_file(file),
                tokens=tokens_of_file,
                parts=tuple((number, part.where, part.weight != 0) for number, part in parts),
                repeat=repeat,
                number=number if shares else 0,
                shares=shares.files(number) if shares else None,
                cluster_salt=self.inputs.cluster_salt(file.corpus),
                neighbours=neighbours.get(file.corpus),
                held_out=self.held_out,
                salt=self.inputs.draw_salt(file.corpus),
                around=self.encoding.around,
            )
            for (number, file, parts), tokens_of_file in zip(self.files, tokens, strict=True)
        ]
        return self.run_jobs(jobs, "choice")

    @cached_property
    def shares(self) -> Exchange | None:
        """The copies of documents in clusters, by the number of their file; None without `repeat` and `validation`.

        The files of no part are read, too: their documents share the copies of their clusters.
        """
        inputs = self.inputs
        if not (self.mixture.repeat or self.mixture.validation):
            return None
        files = [
            CorpusFile(
                inputs.corpora[file.corpus], file.artifact, inputs.cluster_salt(file.corpus), file.section
            )
            for file in inputs.files
        ]
        clustered = sum(file.rows for corpus in inputs.corpora for file in corpus.files("clusters"))
        repeat = tuple(self.mixture.repeat.items())

        def run_jobs(jobs: Sequence[Any]) -> list[Any]:
            return self.run_jobs(jobs, "clusters")

        return shares_of_files(self.folder, files, clustered, repeat, run_jobs)

    @property
    def held_out(self) -> int:
        """The hash below which a document can be held out."""
        return int(self.mixture.validation.share * 2.0**64) if self.mixture.validation else 0

    @cached_property
    def neighbours(self) -> dict[int, Files]:
        """Held-out candidates that may have a near-duplicate in another corpus, by corpus number."""
        if not self.mixture.validation or len(self.inputs.corpora) == 1:
            return {}

        def run_jobs(jobs: Sequence[Any]) -> list[Any]:
            return self.run_jobs(jobs, "near-duplicates")

        share = self.mixture.validation.share
        return {
            number: neighbours_in(self.inputs, number, share, self.held_out, run_jobs)
            for number in range(len(self.inputs.corpora))
        }

    @cached_property
    def tallies(self) -> Tallies:
        count, around = len(self.mixture.parts), self.encoding.around
        jobs: list[TallyJob] = [
            TallyOfFiles(self.folder, None, chosen, count, number, around)
            for number, chosen in enumerate(together(self.chosen))
        ]
        while len(tallies := self.run_jobs(jobs, "tallies")) > 1:
            groups = enumerate(together(tallies))
            jobs = [SumOfTallies(self.folder, None, group, count, number) for number, group in groups]
        return tallies_in(self.folder, self.mixture, *tallies)

    @cached_property
    def plan(self) -> MixturePlan:
        """The amounts of each part. Raises BadRecipe if a part cannot fill its weight, or has too many passes."""

        def documents_in(bins: dict[int, int]) -> pa.Table:
            wanted = tuple(sorted(bins.items()))
            jobs = [DocumentsInBins(self.folder, some, wanted) for some in together(self.chosen)]
            return pa.concat_tables([CHOSEN.empty_table(), *self.run_jobs(jobs, "draws")])

        with faults_with_lines(self.mixture):
            amounts = amounts_of(self.mixture, self.tallies, documents_in, self.encoding.around)
            passes = passes_of(self.tallies, amounts) if self.mixture.order == "epochs" else ()
        all_documents = sum(file.artifact.rows for file in self.inputs.files if file.is_first)
        in_parts = sum(tally.documents + tally.unused + tally.held_out for tally in self.tallies.parts)
        return MixturePlan(self.tallies.parts, tuple(amounts), all_documents - in_parts, passes)
