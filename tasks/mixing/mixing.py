"""A mixture from its plan to its files, each step over all workers; what was made before is not made again."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRecipe, NotConserved
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.mixing.amounts import (
    Amount,
    DocumentsInBins,
    PartTally,
    Tallies,
    amounts_of,
    tallies_of,
)
from zyda_flows.tasks.mixing.choosing import CHOSEN, ChosenOfFile, SharesOfClusters, TallyOfFile
from zyda_flows.tasks.mixing.gathering import Output, OutputFile, PartCounts
from zyda_flows.tasks.mixing.mixture import TEXT
from zyda_flows.tasks.mixing.neighbours import Neighbours, incomparable, neighbour_jobs, recall_at
from zyda_flows.tasks.mixing.planning import Inputs, PublishedFile, expect_same
from zyda_flows.tasks.mixing.scattering import Framing, SegmentsOfFile
from zyda_flows.tasks.mixing.tokenising import TokensOfFile
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.storage.artifacts import WORK, Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import held
from zyda_flows.tasks.storage.records import Record, digest_of

VERSION = 1
MOST_FILES = 32_767  # of one blend of Megatron's
LIKENESS = 0.9  # for which it is said how many near-duplicates of held-out documents are found
MOST_NAMED = 8  # parts, in a sentence
MIXTURE = "mixture.json"
SEQUENCES = "megatron/sequences.json"
LOCK = f"{WORK}/mixing.lock"
Spread = Callable[[Sequence[Callable[[], Any]], str], list[Any]]  # calls each job, of a step of this name


class CorpusMixed(Record):
    """A corpus of a mixture: where it was, its name, the SHA-256 of its manifest, its sources by their numbers."""

    url: str
    label: str
    digest: str
    sources: dict[int, str]


class PartMixed(Record):
    """The account of a part, in tokens with those around documents.

    documents, tokens: of one epoch, each document once. repeated: what one epoch has of them more than once.
    epochs: how often that is read. planned, copies, written: tokens that were to be written, documents and tokens
    that were. held_out: documents and tokens of them. special_documents, special_tokens: documents, those held out
    included, that hold special tokens as characters, and how often they do.
    """

    name: str
    documents: int
    tokens: int
    repeated: int
    weight: float | None = None
    epochs: float
    planned: int
    copies: int
    written: int
    held_out: int
    held_out_tokens: int
    special_documents: int
    special_tokens: int


class Mixed(Record):
    """The manifest of a mixture that is whole: `mixture.json`.

    place: the folder of its files. not_compared: pairs of corpora whose near-duplicates nobody can find, so that
    what is held out of one may have some in the other. recall: of those with a likeness of 0.9, the part that is
    found. outputs: those to train on, then those that are held out, with each one's files.
    """

    name: str
    place: str
    mixture: dict[str, Any]
    tokenizer: dict[str, str]
    corpora: tuple[CorpusMixed, ...]
    width: int
    parts: tuple[PartMixed, ...]
    left_out: int
    not_compared: tuple[tuple[str, str], ...] = ()
    recall: float | None = None
    outputs: tuple[Output, ...]
    texts: tuple[Output, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(output.tokens for output in self.outputs)

    def written(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


@dataclass(frozen=True)
class Plan:
    """What a mixture has of each part. left_out: documents that are of none."""

    tallies: tuple[PartTally, ...]
    amounts: tuple[Amount, ...]
    left_out: int


class Mixing:
    """The steps of one mixture."""

    def __init__(self, inputs: Inputs, spread: Spread) -> None:
        self.inputs, self.spread = inputs, spread
        self.mixture, self.folder, self.encoding = inputs.mixture, inputs.folder, inputs.encoding
        # Files without a part are nothing to a mixture.
        self.files = [(file, parts) for file in inputs.files if (parts := inputs.parts_of(file))]

    @property
    def token_jobs(self) -> list[TokensOfFile]:
        """What makes the ids of the documents of each file."""
        return [
            TokensOfFile(
                *self.published_file(file),
                tokenizer=self.encoding.digest,
                special_tokens=self.encoding.special_tokens,
                width=self.encoding.width,
                is_counted=self.inputs.is_counted(file.corpus),
            )
            for file, _ in self.files
        ]

    def published_file(self, file: PublishedFile) -> tuple[Folder, str | None, PublishedCorpus, Artifact]:
        """Return the first fields of a `FileJob`."""
        return self.folder, self.inputs.source_of(file), self.inputs.corpora[file.corpus], file.artifact

    @cached_property
    def tokens(self) -> list[Artifact]:
        """The ids of the documents of each file."""
        return self.spread(self.token_jobs, "tokens")

    @cached_property
    def chosen(self) -> list[Artifact]:
        """Which documents of each file are of which part."""
        tokens, shares = self.tokens, self.shares
        repeat = tuple(self.mixture.repeat.items())
        neighbours = self.neighbours
        jobs = [
            ChosenOfFile(
                *self.published_file(file),
                tokens=tokens_of_file,
                parts=tuple((number, part.where, part.weight != 0) for number, part in parts),
                repeat=repeat,
                shares=shares.get(file.corpus),
                neighbours=neighbours.get(file.corpus),
                held_out=self.held_out,
                salt=self.inputs.draw_salt(file.corpus),
                around=self.encoding.around,
            )
            for (file, parts), tokens_of_file in zip(self.files, tokens, strict=True)
        ]
        return self.spread(jobs, "choice")

    @cached_property
    def shares(self) -> dict[int, Artifact]:
        """What documents that share a cluster have of its copies, by corpus; none where all is the same."""
        if not (self.mixture.repeat or self.mixture.validation):
            return {}
        jobs = {
            number: SharesOfClusters(
                self.folder, None, corpus,
                tuple(file.artifact for file in self.inputs.files if file.corpus == number),
                tuple(self.mixture.repeat.items()),
            )
            for number, corpus in enumerate(self.inputs.corpora)
        }  # fmt: skip
        return dict(zip(jobs, self.spread([*jobs.values()], "clusters"), strict=True))

    @property
    def held_out(self) -> int:
        """Below which hash a document may be held out."""
        return int(self.mixture.validation.share * 2.0**64) if self.mixture.validation else 0

    @cached_property
    def neighbours(self) -> dict[int, Artifact]:
        """Which documents that may be held out may have a near-duplicate in another corpus, by corpus."""
        if not self.mixture.validation or len(self.inputs.corpora) == 1:
            return {}
        jobs = neighbour_jobs(self.inputs, self.folder, self.held_out)
        found = iter(
            self.spread([job for of_corpus in jobs.values() for job in of_corpus], "near-duplicates")
        )
        joined = [
            Neighbours(self.folder, None, self.inputs.corpora[number], tuple(islice(found, len(of_corpus))))
            for number, of_corpus in jobs.items()
        ]
        return dict(zip(jobs, self.spread(joined, "near-duplicates of corpora"), strict=True))

    @cached_property
    def tallies(self) -> Tallies:
        jobs = [
            TallyOfFile(self.folder, self.inputs.source_of(file), one, self.encoding.around)
            for (file, _), one in zip(self.files, self.chosen, strict=True)
        ]
        return tallies_of(self.folder, self.mixture, self.spread(jobs, "tallies"))

    @cached_property
    def plan(self) -> Plan:
        """How often the documents of each part are there. Raises BadRecipe where a part cannot fill its weight."""

        def documents_in(bins: dict[int, int]) -> pa.Table:
            wanted = tuple(sorted(bins.items()))
            jobs = [DocumentsInBins(self.folder, one, wanted) for one in self.chosen]
            return pa.concat_tables([CHOSEN.empty_table(), *self.spread(jobs, "draws")])

        amounts = amounts_of(self.mixture, self.tallies, documents_in, self.encoding.around)
        all_documents = sum(file.artifact.rows for file in self.inputs.files)
        in_parts = sum(tally.documents + tally.unused + tally.held_out for tally in self.tallies.parts)
        return Plan(self.tallies.parts, tuple(amounts), all_documents - in_parts)

    @cached_property
    def place(self) -> str:
        """The folder of its files, of twelve digits: a hash of all that can change them."""
        corpora = [corpus.digest for corpus in self.inputs.corpora]
        written = self.mixture.model_dump(mode="json", exclude={"tokenizer"})
        return digest_of([VERSION, written, corpora, self.encoding.digest])[:12]

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's name on the hub, or that of its file, wherever that lies."""
        name = self.mixture.tokenizer
        return name.rpartition("/")[2] if name.endswith(".json") or name.startswith("/") else name

    @cached_property
    def nothing_held_out(self) -> list[str]:
        """Say of which parts nothing is held out, though the mixture has a `validation`."""
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
        """How many files there are to train on, and of what is held out."""
        size = self.mixture.file_gib * 1024**3 / self.encoding.width
        train = sum(amount.tokens for amount in self.plan.amounts)
        held_out = sum(tally.held_out_tokens for tally in self.plan.tallies)
        if not train:
            raise BadRecipe("budget: nothing is to be written: it is less than half of a document")
        counts = -int(-train // size), -int(-held_out // size)
        if sum(counts) > MOST_FILES:
            raise BadRecipe(
                f"file_gib: {self.mixture.file_gib:g} makes {sum(counts):,} files, more than {MOST_FILES:,}"
            )
        return counts

    def mix(self, *, verify: bool = False) -> Mixed:
        """Write all files that are not there yet, and then the manifest that makes them the mixture.

        verify: compare those that are there with their SHA-256, and write anew what differs.
        """
        self.folder.clear_scratch()
        before = self.written_before()
        if before is not None and verify:
            remove_different(self.folder, before)
            before = self.written_before()
        if before is not None:
            return self.finish(before)
        for sentence in self.nothing_held_out:
            warn(sentence)
        token_formats = tuple(form for form in self.mixture.formats if form != TEXT)
        counts = self.file_counts
        outputs = self.outputs("ids", token_formats, counts) if token_formats else []
        # Readers of text take the last shard alone for the validation.
        of_texts = (counts[0], min(1, counts[1]))
        texts = self.outputs("text", ("text",), of_texts) if "text" in self.mixture.formats else []
        expect_same(self.inputs)
        mixed = self.mixed(outputs, texts)
        self.folder.write(f"{self.place}/{MIXTURE}", mixed.written())
        return self.finish(mixed)

    def written_before(self) -> Mixed | None:
        """Return this mixture where it is there, with all its files, by their sizes."""
        found = self.folder.read_if_there(f"{self.place}/{MIXTURE}")
        return None if found is None else whole_before(self, found)

    def finish(self, mixed: Mixed) -> Mixed:
        """Make it the mixture of this name; what was written to be shuffled goes."""
        if "megatron" in self.mixture.formats:
            counts = {output.name: [output.sequences, output.sequences + 1] for output in mixed.outputs}
            prefixes = {
                f"{self.folder.path(self.place)}/megatron/{name}": count for name, count in counts.items()
            }
            self.folder.write(f"{self.place}/{SEQUENCES}", json.dumps(prefixes, indent=1).encode())
        self.folder.write(MIXTURE, mixed.written())
        for step in ("segments", "outputs"):
            self.folder.delete(f"{WORK}/{step}")
        return mixed

    def outputs(self, content: str, formats: tuple[str, ...], counts: tuple[int, int]) -> list[Output]:
        """Shuffle ids or texts into output files, so many to train on and of what is held out."""
        amounts = self.plan.amounts
        labels, encoding, is_text = self.inputs.labels(), self.encoding, content == "text"
        packed = None if is_text else self.mixture.packed
        around = ((), ()) if is_text else (encoding.before, encoding.after)
        framing = Framing(encoding.width, *around, packed)
        jobs = [
            SegmentsOfFile(
                *self.published_file(file),
                tokens=tokens,
                chosen=chosen,
                amounts=amounts,
                file_counts=counts,
                salt=self.inputs.salt("order", labels[file.corpus]),
                content=content,
                framing=framing,
            )
            for (file, _), tokens, chosen in zip(self.files, self.tokens, self.chosen, strict=True)
        ]
        made = self.spread(jobs, f"shuffle of {content}")
        segments = tuple((file.corpus, one) for (file, _), one in zip(self.files, made, strict=True))
        writes = [
            OutputFile(
                self.folder,
                source=None,
                called=name_of(number, counts[0], is_text=is_text),
                number=number,
                of_kind=counts[0] if number < counts[0] else counts[1],
                place=self.place,
                segments=segments,
                formats=formats,
                width=encoding.width,
                packed=packed,
                filler=(*encoding.after, 0)[0],
                tokenizer=self.tokenizer_name,
                labels=tuple(labels),
            )
            for number in range(sum(counts))
        ]
        return self.spread(writes, f"files of {content}")

    def mixed(self, outputs: Sequence[Output], texts: Sequence[Output]) -> Mixed:
        """Account for what was written. Raises NotConserved where it is not what was planned."""
        if not outputs and not texts:
            raise NotConserved(f"mixture {self.mixture.name}: no file was written in {self.mixture.formats}")
        parts = self.parts(outputs, texts)
        return Mixed(
            name=self.mixture.name,
            place=self.place,
            mixture=self.mixture.model_dump(mode="json", exclude_none=True, exclude={"tokenizer"}),
            tokenizer={"name": self.tokenizer_name, "digest": self.encoding.digest},
            corpora=tuple(
                CorpusMixed(
                    url=one.url, label=one.label, digest=one.digest,
                    sources={made.number: made.source for made in one.manifest.made_of},
                )
                for one in self.inputs.corpora
            ),
            width=self.encoding.width,
            parts=parts,
            left_out=self.plan.left_out,
            not_compared=tuple(incomparable(self.inputs)) if self.mixture.validation else (),
            recall=recall_at(self.inputs, LIKENESS) if self.mixture.validation else None,
            outputs=tuple(outputs),
            texts=tuple(texts),
        )  # fmt: skip

    def parts(self, outputs: Sequence[Output], texts: Sequence[Output]) -> tuple[PartMixed, ...]:
        """Return the account of each part."""
        accounts, train = list[PartMixed](), self.file_counts[0]
        rows = zip(self.mixture.parts, self.plan.tallies, self.plan.amounts, strict=True)
        for number, (part, tally, amount) in enumerate(rows):
            found = added(output.parts.get(number, PartCounts()) for output in outputs[:train])
            held_out = added(output.parts.get(number, PartCounts()) for output in outputs[train:])
            of_texts = added(output.parts.get(number, PartCounts()) for output in texts[:train])
            if outputs:
                expect(part.name, found.tokens, amount.tokens, "tokens")
                expect(part.name, held_out.tokens, tally.held_out_tokens, "tokens that are held out")
                expect(part.name, held_out.copies, tally.held_out, "documents that are held out")
            if outputs and texts:
                expect(part.name, of_texts.copies, found.copies, "texts")
            accounts.append(
                PartMixed(
                    name=part.name, documents=tally.documents, tokens=tally.tokens - tally.repeated,
                    repeated=tally.repeated, weight=part.weight, epochs=amount.epochs, planned=amount.target,
                    copies=found.copies or of_texts.copies, written=amount.tokens, held_out=tally.held_out,
                    held_out_tokens=tally.held_out_tokens, special_documents=tally.special_documents,
                    special_tokens=tally.special_tokens,
                )
            )  # fmt: skip
        return tuple(accounts)


def mix_all(inputs: Inputs, spread: Spread, *, verify: bool = False) -> Mixed:
    """Write a mixture; what is damaged of what was made before is made again."""
    with held(inputs.folder, LOCK, "mix"):  # it removes what is written to shuffle
        return rebuilding_damaged(inputs.folder, lambda: Mixing(inputs, spread).mix(verify=verify))


def expect(part: str, written: int, planned: int, what: str) -> None:
    """Raise NotConserved where something else was written than was planned."""
    if written != planned:
        raise NotConserved(f"part {part}: {written:,} {what} were written, and {planned:,} are planned")


def added(counts: Any) -> PartCounts:
    copies = tokens = 0
    for one in counts:
        copies, tokens = copies + one.copies, tokens + one.tokens
    return PartCounts(copies=copies, tokens=tokens)


def name_of(number: int, train: int, *, is_text: bool) -> str:
    """Name an output file. Readers of text take the last shard for validation, whatever it is called."""
    if is_text:
        return f"shard_{number:05d}"
    return f"train-{number:05d}" if number < train else f"validation-{number - train:05d}"


def remove_different(folder: Folder, mixed: Mixed) -> None:
    """Remove the files of a mixture that are not as they were written, and say so."""
    for output in (*mixed.outputs, *mixed.texts):
        for file in output.files:
            if (found := folder.difference(file.path, file.size, file.sha256)) is not None:
                warn(f"{folder.url}/{file.path} {found}; it is written again")
                folder.delete(file.path)


def whole_before(mixing: Mixing, content: bytes) -> Mixed | None:
    """Return a mixture that was written before, where all its files are there, by their sizes."""
    try:
        mixed = Mixed.model_validate_json(content)
    except ValueError:
        return None
    sizes = {path: int(info["size"]) for path, info in mixing.folder.listed(mixing.place).items()}
    files = [file for output in (*mixed.outputs, *mixed.texts) for file in output.files]
    return mixed if all(sizes.get(file.path) == file.size for file in files) else None
