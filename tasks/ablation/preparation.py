"""Prepare an experiment: draw documents, hold out others, and store both as tables of token ids."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from zyda_flows.tasks.ablation.documents import DRAWN, Encoder
from zyda_flows.tasks.ablation.drawing import Drawn, disjoint_samples, draw, prefix
from zyda_flows.tasks.ablation.experiment import FILE, Experiment
from zyda_flows.tasks.ablation.held_out import HeldOutSet, held_out_set, near_held_out
from zyda_flows.tasks.ablation.prepared import Prepared, PreparedPart, PreparedVariant
from zyda_flows.tasks.ablation.questions import QuestionEncoder, read_questions
from zyda_flows.tasks.ablation.records import HELD_OUT_RECORD, PartContent
from zyda_flows.tasks.ablation.variants import OpenedVariant, draws_of, open_variants
from zyda_flows.tasks.ablation.vector_cells import common_judge
from zyda_flows.tasks.erasure.in_experiments import DOCUMENTS
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.quality.training.sample import draw_sample
from zyda_flows.tasks.storage.artifacts import WORK, Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of, read_record, write_record
from zyda_flows.tasks.storage.tables import write_table
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.tasks.tokens.stored import load_tokenizer

VERSION = 2
CANDIDATES = 8  # times the documents to hold out
FILE_DOCUMENTS = 2000  # of a file of held-out texts
SOURCE, REMOVED = "source:", "removed:"
Say = Callable[[str], object]


def prepare(
    experiment: Experiment,
    say: Say = lambda _: None,
    mixtures: Sequence[OpenedVariant] = (),
    measured: Mapping[str, pa.Table] | None = None,
    left_out: pa.Table | None = None,
) -> Prepared:
    """Draw and store the documents of an experiment; stored results are reused while all inputs are the same.

    mixtures: used instead of the variants of the experiment; only the first is repeated. measured: DRAWN by the
    names of further measures. left_out: DRAWN, further documents that the trainings leave out with their
    near-duplicates.

    Raises BadRecipe with the line of a fault, and BadInput for a file of texts or questions.
    """
    folder = experiment.folder
    folder.check_writable()
    tokenizer = load_tokenizer(experiment.tokenizer)
    separator = tokenizer.token_to_id(experiment.separator)
    if separator is None:
        raise experiment.fault(f"separator: the tokenizer has no token {experiment.separator!r}", "separator")
    variants = [*mixtures] or open_variants(experiment)
    judge, digest = common_judge(
        {corpus.url: corpus for variant in variants for corpus in variant.corpora}.values()
    )
    values = f"{judge} {digest}".strip()
    engine = TokenEngine(tokenizer, special_as_text=experiment.special_tokens == "text")
    encoder = Encoder(engine, separator)
    question_encoder = QuestionEncoder(load_tokenizer(experiment.tokenizer), separator)
    texts = texts_of_files(experiment, encoder) | dict(measured or {})
    questions = {
        file.name: read_questions(file.name, file.url, experiment.questions, question_encoder)
        for file in experiment.evaluations
    }
    stored_texts = {name: stored_table(folder, table) for name, table in texts.items()}
    stored_questions = {name: stored_table(folder, table) for name, table in questions.items()}
    also = {name: table.digest for name, table in (stored_texts | stored_questions).items()}
    excluded = DRAWN.empty_table() if left_out is None else left_out
    key = preparation_key(experiment, variants, tokenizer, [also, excluded.column("hash").to_pylist()])
    path = f"{WORK}/prepared-{key}.json"
    if (stored := read_record(folder, path, Prepared)) is not None:
        write_record(folder, HELD_OUT_RECORD, stored.held_out_set)
        return stored
    samples = [1 if mixtures and number else samples_of(experiment) for number in range(len(variants))]
    drawn = draws(experiment, variants, samples, judge, encoder, say)
    held_out = held_out_set(experiment, variants, drawn)
    say("finding near-duplicates of held-out documents")
    is_near = near_held_out([*held_out.values(), *texts.values(), excluded], drawn)
    tables = {f"{SOURCE}{source}": table for source, table in held_out.items()}
    hashes = {source: tuple(table.column("hash").to_pylist()) for source, table in sorted(held_out.items())}
    prepared = Prepared(
        separator=separator,
        vocabulary=vocabulary_of(tokenizer),
        tokenizer=digest_of(tokenizer.to_str()),
        held_out=digest_of([hashes, also]),
        variants=tuple(
            prepared_variant(experiment, variant, drawn[number], is_near, samples[number], values)
            for number, variant in enumerate(variants)
        ),
        texts={name: stored_table(folder, table) for name, table in tables.items()} | stored_texts,
        questions=stored_questions,
        documents={name: len(table) for name, table in (tables | texts).items()},
        excluded=len(is_near),
        held_out_set=HeldOutSet(hashes=hashes),
    )
    write_record(folder, HELD_OUT_RECORD, prepared.held_out_set)
    write_record(folder, path, prepared)
    return prepared


def samples_of(experiment: Experiment) -> int:
    """Return the number of samples of a variant: of its runs, and of the runs of the equal control."""
    return experiment.repeats * (2 if experiment.controls.equal else 1)


def vocabulary_of(tokenizer: Tokenizer) -> int:
    return int(max(tokenizer.get_vocab(with_added_tokens=True).values())) + 1


def preparation_key(
    experiment: Experiment, variants: Sequence[OpenedVariant], tokenizer: Tokenizer, also: object
) -> str:
    """Hash everything that determines the prepared documents. also: the measured texts and questions."""
    fields = experiment.model_dump(
        mode="json",
        include={"special_tokens", "separator", "tokens", "target_tokens", "weights", "held_out", "variants",
                 "repeats", "controls"},
    )  # fmt: skip
    opened = [
        [
            [corpus.digest for corpus in variant.corpora],
            [part.model_dump() for part in variant.parts],
            variant.shares,
        ]
        for variant in variants
    ]
    return digest_of([VERSION, fields, opened, tokenizer.to_str(), also])


def texts_of_files(experiment: Experiment, encoder: Encoder) -> dict[str, pa.Table]:
    """Return DRAWN for each file of held-out texts, by the name of its measure. Raises BadInput without text."""
    samples = {file.name: draw_sample([file.url], "text", (), FILE_DOCUMENTS) for file in experiment.files}
    tables = {
        f"{FILE}{name}": encoder.documents(sample.texts, sample.hashes) for name, sample in samples.items()
    }
    for file in experiment.files:
        if not np.sum(tables[f"{FILE}{file.name}"].column("n_bytes").to_numpy()):
            raise BadInput(f"{file.url}: its texts are empty")
    return tables


def draws(
    experiment: Experiment,
    variants: Sequence[OpenedVariant],
    samples: Sequence[int],
    judge: str,
    encoder: Encoder,
    say: Say,
) -> dict[int, Drawn]:
    """Draw the documents of all variants, by their numbers. Variants with the same parts share a draw."""
    stored = read_record(experiment.folder, HELD_OUT_RECORD, HeldOutSet)
    kept = [*chain.from_iterable(stored.hashes.values())] if stored is not None else []
    drawn = dict[int, Drawn]()
    for numbers, needs in draws_of(variants, experiment.tokens, samples):
        first = variants[numbers[0]]
        say(f"drawing documents of {', '.join(variants[number].name for number in numbers)}")
        found = draw(
            first.corpora, first.parts, needs, encoder, CANDIDATES * experiment.held_out, kept, judge
        )
        drawn |= dict.fromkeys(numbers, found)
    return drawn


def prepared_variant(
    experiment: Experiment,
    variant: OpenedVariant,
    drawn: Drawn,
    is_near: NDArray[np.uint64],
    samples: int,
    values: str,
) -> PreparedVariant:
    """Store the documents of a variant. values: of the cells. Raises BadRecipe if too few are left of a part."""
    by_part, different = list[list[PreparedPart]](), list[int]()
    for place, (part, need) in enumerate(zip(variant.parts, variant.needs(experiment.tokens), strict=True)):
        if not need:
            continue
        table = drawn.parts[place]
        table = table.filter(pa.array(~np.isin(table.column("hash").to_numpy(), is_near)))
        tables = [*disjoint_samples(table, int(np.ceil(need)), samples)]
        if not tables:
            tokens = int(table.column("n_tokens").to_numpy().sum())
            raise experiment.fault(
                f"tokens: variant {variant.name}: part {part.name} needs {need:,.0f} tokens, but without held-out "
                f"documents and their near-duplicates it has {tokens:,}; lower `tokens`, or give `target_tokens`",
                "tokens",
            )
        found = list[PreparedPart]()
        for sample in tables:
            read = prefix(sample, int(np.ceil(need)))
            content = PartContent.of(part.name, read, variant.shares[place], variant.epochs[place], values)
            artifact = stored_table(experiment.folder, sample)
            found.append(PreparedPart(table=artifact, documents=len(read), content=content))
        by_part.append(found)
        different.append(len(found))
    return PreparedVariant(
        name=variant.name,
        definition=variant.definition,
        samples=tuple(tuple(found[number % len(found)] for found in by_part) for number in range(samples)),
        different=tuple(different),
    )


def stored_table(folder: Folder, table: pa.Table) -> Artifact:
    """Write a table under the digest of its content, unless it is stored."""
    table = table.combine_chunks()
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        digest = sha256(sink.getvalue()).hexdigest()[:20]
    return write_table(folder, f"{DOCUMENTS}/{digest}.parquet", digest, table)
