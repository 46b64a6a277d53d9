"""Mix a mixture: choose documents, plan amounts, shuffle, and write the files.

Each step runs one job per file on all workers. Results of jobs are stored, so an interrupted or changed mixture
only runs the jobs whose results are missing.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from zyda_flows.tasks.errors import BadRecipe, NotConserved
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.mixing.gathering import Output, OutputFile, PartCounts
from zyda_flows.tasks.mixing.mixture import TEXT, faults_with_lines
from zyda_flows.tasks.mixing.mixture_manifest import (
    MIXTURE,
    MixedCorpus,
    MixedPart,
    MixtureManifest,
    read_complete,
    remove_damaged,
)
from zyda_flows.tasks.mixing.neighbours import incomparable, recall_at
from zyda_flows.tasks.mixing.planning import Inputs, expect_same
from zyda_flows.tasks.mixing.scattering import Framing, SegmentsOfFile
from zyda_flows.tasks.mixing.segment_groups import gathered_segments, outputs_together
from zyda_flows.tasks.mixing.selection import RunJobs, Selection
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.holding import holding_lock
from zyda_flows.tasks.storage.records import digest_of

VERSION = 1
MOST_FILES = 32_767  # limit of a Megatron blend
SIMILARITY = 0.9  # at which the recall of near-duplicates of held-out documents is reported
MOST_NAMED = 8  # parts that a warning names
TEXT_BYTES = 5  # of the text of a token, about
SEQUENCES = "megatron/sequences.json"
LOCK = f"{WORK}/mixing.lock"


class Mixing(Selection):
    """All steps of one mixture."""

    @cached_property
    def place(self) -> str:
        """The folder of the files: 12 hexadecimal digits of a hash of everything that determines their content."""
        corpora = [corpus.digest for corpus in self.inputs.corpora]
        written = self.mixture.model_dump(mode="json", exclude={"tokenizer"})
        return digest_of([VERSION, written, corpora, self.encoding.digest])[:12]

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's name on the hub, or the name of its file without folders."""
        name = self.mixture.tokenizer
        return name.rpartition("/")[2] if name.endswith(".json") or name.startswith("/") else name

    @cached_property
    def nothing_held_out(self) -> list[str]:
        """Warnings for parts without held-out documents, if the mixture has a `validation`."""
        if not self.mixture.validation:
            return []
        rows = list(zip(self.mixture.parts, self.plan.tallies, strict=True))
        empty = [tally.name for part, tally in rows if part.weight != 0 and not tally.held_out]
        share = f"validation: a share of {self.mixture.validation.share:g}"
        if sum(tally.held_out for _, tally in rows):
            some = ", ".join(empty[:MOST_NAMED]) + ", ..." * (len(empty) > MOST_NAMED)
            return [f"{share} holds out no document of part {some}"] if empty else []
        is_text = "text" in self.mixture.formats
        last = "; the last shard of text is training data, which readers take for the validation" * is_text
        return [f"{share} holds out no document: raise it, or leave it out{last}"]

    @property
    def file_counts(self) -> tuple[int, int]:
        """The number of training files and of held-out files. Raises BadRecipe if they are none, or too many."""
        with faults_with_lines(self.mixture):
            return self.checked_counts()

    def checked_counts(self) -> tuple[int, int]:
        size = self.mixture.file_gib * 1024**3 / self.encoding.width
        train = sum(amount.tokens for amount in self.plan.amounts)
        held_out = sum(tally.held_out_tokens for tally in self.plan.tallies)
        if not train:
            raise BadRecipe("budget: the budget is less than half a document, so nothing would be written")
        counts = -int(-train // size), -int(-held_out // size)
        if sum(counts) > MOST_FILES:
            raise BadRecipe(
                f"file_gib: {self.mixture.file_gib:g} makes {sum(counts):,} files, more than {MOST_FILES:,}"
            )
        return counts

    def mix(self, *, verify: bool = False) -> MixtureManifest:
        """Write all missing files, then the manifest that completes the mixture.

        If verify is true, compare existing files with their SHA-256 first, and rewrite files that differ.
        """
        self.folder.clear_scratch()
        complete = read_complete(self.folder, self.place)
        if complete is not None and verify:
            remove_damaged(self.folder, complete)
            complete = read_complete(self.folder, self.place)
        if complete is not None:
            return self.finish(complete)
        for sentence in self.nothing_held_out:
            warn(sentence)
        token_formats = tuple(form for form in self.mixture.formats if form != TEXT)
        counts = self.file_counts
        outputs = self.outputs("ids", token_formats, counts) if token_formats else []
        # Readers of text files use only the last shard for validation.
        text_counts = (counts[0], min(1, counts[1]))
        texts = self.outputs("text", ("text",), text_counts) if "text" in self.mixture.formats else []
        expect_same(self.inputs)
        manifest = self.manifest(outputs, texts)
        self.folder.write(f"{self.place}/{MIXTURE}", manifest.as_json())
        return self.finish(manifest)

    def finish(self, manifest: MixtureManifest) -> MixtureManifest:
        """Write the manifest as the current version of the mixture, and delete the files of the shuffle."""
        if "megatron" in self.mixture.formats:
            counts = {output.name: [output.sequences, output.sequences + 1] for output in manifest.outputs}
            prefixes = {
                f"{self.folder.path(self.place)}/megatron/{name}": count for name, count in counts.items()
            }
            self.folder.write(f"{self.place}/{SEQUENCES}", json.dumps(prefixes, indent=1).encode())
        self.folder.write(MIXTURE, manifest.as_json())
        for step in ("segments", "outputs", "files"):
            self.folder.delete(f"{WORK}/{step}")
        return manifest

    def outputs(self, content: str, formats: tuple[str, ...], counts: tuple[int, int]) -> list[Output]:
        """Shuffle ids or texts (`content`) into output files. counts: number of training and of held-out files."""
        amounts = self.plan.amounts
        labels, encoding, is_text = self.inputs.labels(), self.encoding, content == "text"
        packed = None if is_text else self.mixture.packed
        around = ((), ()) if is_text else (encoding.before, encoding.after)
        framing = Framing(encoding.width, *around, packed)
        size = sum(amount.tokens for amount in amounts) * (TEXT_BYTES if is_text else encoding.width)
        wide = outputs_together(len(self.files), sum(counts), size)
        jobs = [
            SegmentsOfFile(
                *self.published_file(file),
                tokens=tokens,
                chosen=chosen,
                amounts=amounts,
                file_counts=counts,
                salt=self.inputs.salt("order", labels[file.corpus]),
                corpus_number=file.corpus,
                content=content,
                framing=framing,
                outputs_together=wide,
                passes=self.plan.passes,
            )
            for (_, file, _), tokens, chosen in zip(self.files, self.tokens, self.chosen, strict=True)
        ]
        segments = gathered_segments(
            self.folder, self.run_jobs(jobs, f"shuffle of {content}"), sum(counts), wide, self.run_jobs
        )
        writes = [
            OutputFile(
                self.folder,
                source=None,
                output_name=output_name(number, counts[0], is_text=is_text),
                number=number,
                files_of_kind=counts[0] if number < counts[0] else counts[1],
                place=self.place,
                segments=segments.of(number),
                formats=formats,
                width=encoding.width,
                packed=packed,
                is_by_pass=bool(packed and self.plan.passes),
                filler=(*encoding.after, 0)[0],
                tokenizer=self.tokenizer_name,
                labels=tuple(labels),
            )
            for number in range(sum(counts))
        ]
        return self.run_jobs(writes, f"files of {content}")

    def manifest(self, outputs: Sequence[Output], texts: Sequence[Output]) -> MixtureManifest:
        """Return the manifest of written files. Raises NotConserved if their counts differ from the plan."""
        if not outputs and not texts:
            raise NotConserved(f"mixture {self.mixture.name}: no file was written in {self.mixture.formats}")
        parts = self.parts(outputs, texts)
        return MixtureManifest(
            name=self.mixture.name,
            place=self.place,
            mixture=self.mixture.model_dump(mode="json", exclude_none=True, exclude={"tokenizer"}),
            tokenizer={"name": self.tokenizer_name, "digest": self.encoding.digest},
            corpora=tuple(
                MixedCorpus(
                    url=corpus.url, label=corpus.label, digest=corpus.digest,
                    sources={record.number: record.source for record in corpus.manifest.made_of},
                )
                for corpus in self.inputs.corpora
            ),
            width=self.encoding.width,
            parts=parts,
            left_out=self.plan.left_out,
            not_compared=tuple(incomparable(self.inputs)) if self.mixture.validation else (),
            recall=recall_at(self.inputs, SIMILARITY) if self.mixture.validation else None,
            outputs=tuple(outputs),
            texts=tuple(texts),
        )  # fmt: skip

    def parts(self, outputs: Sequence[Output], texts: Sequence[Output]) -> tuple[MixedPart, ...]:
        """Return the counts of each part. Raises NotConserved if they differ from the plan."""
        accounts, train = list[MixedPart](), self.file_counts[0]
        rows = zip(self.mixture.parts, self.plan.tallies, self.plan.amounts, strict=True)
        for number, (part, tally, amount) in enumerate(rows):
            trained = total_counts(output.parts.get(number, PartCounts()) for output in outputs[:train])
            held_out = total_counts(output.parts.get(number, PartCounts()) for output in outputs[train:])
            as_text = total_counts(output.parts.get(number, PartCounts()) for output in texts[:train])
            if outputs:
                expect(part.name, trained.tokens, amount.tokens, "tokens")
                expect(part.name, held_out.tokens, tally.held_out_tokens, "held-out tokens")
                expect(part.name, held_out.copies, tally.held_out, "held-out documents")
            if outputs and texts:
                expect(part.name, as_text.copies, trained.copies, "texts")
            accounts.append(
                MixedPart(
                    name=part.name, documents=tally.documents, tokens=tally.unique,
                    repeated=tally.repeated, weight=part.weight, epochs=amount.epochs, planned=amount.target,
                    copies=trained.copies or as_text.copies, written=amount.tokens, held_out=tally.held_out,
                    held_out_tokens=tally.held_out_tokens, special_documents=tally.special_documents,
                    special_tokens=tally.special_tokens,
                )
            )  # fmt: skip
        return tuple(accounts)


def planned(inputs: Inputs, run_jobs: RunJobs) -> Mixing:
    """Return the steps of a mixture with its plan. Damaged results of earlier jobs are computed again."""

    def plan() -> Mixing:
        mixing = Mixing(inputs, run_jobs)
        _ = mixing.plan
        return mixing

    return rebuilding_damaged(inputs.folder, plan)


def mix_all(
    inputs: Inputs, run_jobs: RunJobs, *, verify: bool = False, plan: Mixing | None = None
) -> MixtureManifest:
    """Write a mixture. Damaged results of earlier jobs are computed again.

    plan: as `planned` returned it; its steps are not repeated.
    """
    plans = [plan] if plan else []

    def mix() -> MixtureManifest:
        return (plans.pop() if plans else Mixing(inputs, run_jobs)).mix(verify=verify)

    with holding_lock(inputs.folder, LOCK, "mix"):  # a mix deletes the files of its shuffle
        return rebuilding_damaged(inputs.folder, mix)


def expect(part: str, written: int, planned: int, unit: str) -> None:
    """Raise NotConserved if the written number differs from the planned number."""
    if written != planned:
        raise NotConserved(f"part {part}: {written:,} {unit} were written, but {planned:,} were planned")


def total_counts(counts: Iterable[PartCounts]) -> PartCounts:
    rows = list(counts)
    return PartCounts(copies=sum(row.copies for row in rows), tokens=sum(row.tokens for row in rows))


def output_name(number: int, train: int, *, is_text: bool) -> str:
    """Return the name of an output file. Text files are numbered shards; readers validate on the last one."""
    if is_text:
        return f"shard_{number:05d}"
    return f"train-{number:05d}" if number < train else f"validation-{number - train:05d}"
