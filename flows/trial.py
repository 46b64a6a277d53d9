"""A trial: some pieces of a recipe's sources, built by the stages of a build in a folder of its own, and measured.

What a stage takes of a source depends on the texts, the machine and the stores; so a plan measures it with the
stages themselves, on as much as takes some seconds.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.flows.build import run_pipeline
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.ingest.ingest import companions_of, ingest, manifest_of
from zyda_flows.tasks.ingest.pieces import (
    IngestedPiece,
    PieceToIngest,
    ingest_chunks,
    read_piece,
    with_engine,
)
from zyda_flows.tasks.ingest.plan import SourcePlan
from zyda_flows.tasks.planning.prepare import prepare, rows_of_sample, source_plan
from zyda_flows.tasks.planning.survey import SourceSurvey
from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Classify, Source
from zyda_flows.tasks.sources.formats.parquet import FOOTER_AT_ONCE
from zyda_flows.tasks.sources.listing import InputFile, Piece, load_listing
from zyda_flows.tasks.sources.register import Register, number_files, number_sources
from zyda_flows.tasks.sources.rows import Chunk, Tally
from zyda_flows.tasks.spent import METER, Spent, telling
from zyda_flows.tasks.stage.progress import documents_in
from zyda_flows.tasks.stage.results import HERE, Runner
from zyda_flows.tasks.storage.artifacts import Artifact, Counts, Manifest
from zyda_flows.tasks.storage.tables import tables_of
from zyda_flows.tasks.tokens.engine import Engine
from zyda_flows.tasks.tokens.stored import store_tokenizer
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS
from zyda_flows.tasks.workers.process import IMPORTED
from zyda_flows.tasks.workers.window import DEATHS

MOST_SOURCES = 8  # that are tried, the largest
PIECES = 12  # of all sources together, and two of each at least
PART_BYTES, PART_SECONDS = 32 << 20, 4.0  # of a piece: it ends with the chunk in which it has either
TEXT_OF_BYTE = 2.5  # bytes of text in one of Parquet, about
SIZES = (0.25, 3)  # times that, so that what each call takes is told from what grows with the text
WARM_BYTES = 16 << 20
MODEL_SECONDS, WINDOW = 8.0, 32  # for a model, and texts that it is given at once
LABEL = "quality_pred"


@dataclass(frozen=True)
class Part:
    """A part of a piece that was ingested. weight: the bytes of its file that it stands for.

    rows: that were read.
    """

    weight: float
    rows: int
    documents: Counts
    shards: int
    set_aside: int
    spent: Spent


@dataclass
class Calls:
    """What calls of a stage about a source did, and for each the bytes of text that it saw."""

    spent: Spent = field(default_factory=Spent)
    each: list[tuple[float, Spent]] = field(default_factory=list)

    def add(self, size: float, spent: Spent) -> None:
        self.spent += spent
        self.each.append((size, spent))


class ModelTrial(NamedTuple):
    """What a model took for each of some documents, the part of them that it keeps, and what it took to load."""

    documents: int
    seconds: float
    kept: float
    loading: float


@dataclass
class Trial:
    """What was measured: parts by source, calls by stage and source, and what was left after each stage."""

    parts: dict[str, list[Part]] = field(default_factory=dict)
    models: dict[str, ModelTrial] = field(default_factory=dict)
    calls: dict[tuple[str, str | None], Calls] = field(default_factory=dict)
    rest: dict[str, Spent] = field(default_factory=dict)  # of each stage, beside its calls
    warming: float = 0.0  # seconds in which a process loads and compiles what it needs
    ledger: Ledger | None = None

    @property
    def text(self) -> int:
        """The bytes of text that were read."""
        return sum(part.documents.bytes for parts in self.parts.values() for part in parts)

    def tell(self, stage: str, source: str | None, result: Any, spent: Spent) -> None:
        """Take what a call of a stage did, or what was done beside its calls."""
        if not spent.calls:
            self.rest[stage] = self.rest.get(stage, Spent()) + spent
            return
        self.calls.setdefault((stage, source), Calls()).add(documents_in(result).bytes, spent)


def tried_sources(recipe: Recipe, survey: SourceSurvey) -> list[str]:
    """Choose the sources to try: those with most bytes, in the order of their rank."""
    sizes = {
        source.name: sum(file.size for file in files)
        for source, files in zip(recipe.sources, survey.chosen, strict=True)
    }
    largest = sorted(sizes, key=lambda name: -sizes[name])[:MOST_SOURCES]
    return [name for name in sizes if name in largest]


def run_trial(recipe: Recipe, survey: SourceSurvey, files: dict[str, list[InputFile]]) -> Trial:
    """Build a part of a recipe's sources, once to have all compiled and loaded, and once to measure.

    files: of each source, those that have been looked into. Raises what a build would.
    """
    tried = tried_sources(recipe, survey)
    each = max(2, ceil(PIECES / len(tried)))
    pieces = {name: pieces_to_try(files[name], each, PART_BYTES) for name in tried}
    first = {name: pieces_to_try(files[name], 1, WARM_BYTES) for name in tried}
    for name in IMPORTED:  # as workers have
        import_module(name)
    with folder_for(recipe, tried) as smaller:
        compile_kernels(smaller)
        began = time.process_time()
        warm = TrialBuild(recipe, smaller, survey, first, WARM_BYTES).run()
        first_time = time.process_time() - began
        smaller.folder.delete("")  # and in the same again, for which it now knows the tokenizer's words
        build = TrialBuild(recipe, smaller, survey, pieces, PART_BYTES)
        began = time.process_time()
        trial = build.run()
        again = (time.process_time() - began) * warm.text / max(1, trial.text)
        trial.warming = max(0.0, first_time - again)
        for source in recipe.sources:
            if source.classify and source.name in tried and (model := survey.models.get(source.name)):
                trial.models[source.name] = try_model(source.classify, model, build.texts(source.name))
    return trial


def compile_kernels(recipe: Recipe) -> None:
    """Build a few near-duplicates, so that numba has in files what a build of this recipe calls.

    A part of the sources may have no near-duplicates, and compiling is no part of what a build takes later.
    """
    text = " ".join(f"word{i}" for i in range(300))
    rows = [{"text": text}, {"text": f"{text} more"}, {"text": f"other {text}"}]
    with TemporaryDirectory(prefix="zyda-plan-") as folder, suppress(ZydaError):
        sources = []
        for number in range(2):
            path = Path(folder, f"{number}.jsonl")
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            sources.append(Source(name=f"compiled{number}", files=(str(path),)))
        small = recipe.model_copy(update={"storage": folder, "sources": tuple(sources)})
        run_pipeline(small, HERE)


def try_model(classify: Classify, model: Model, texts: pa.ChunkedArray) -> ModelTrial:
    """Ask a model about some texts, for some seconds: those of its device, or of one core as a worker has it."""
    loading = time.process_time()
    answers = load_model(model, classify.max_tokens)
    clock = on_one_core()
    answers(texts[:1].to_pylist())  # loads it
    loading = time.process_time() - loading
    labels, began, spent, done = list[Any](), time.monotonic(), clock(), 0
    while done < len(texts) and time.monotonic() - began < MODEL_SECONDS:
        columns = dict(
            zip(model.table_schema.names[1:], answers(texts[done : done + WINDOW].to_pylist()), strict=True)
        )
        done = min(len(texts), done + WINDOW)
        labels += columns[LABEL].to_pylist() if LABEL in columns else []
    kept = sum(label in classify.keep for label in labels) / len(labels) if labels and classify.keep else 1.0
    return ModelTrial(done, (clock() - spent) / max(1, done), kept, loading)


def on_one_core() -> Callable[[], float]:
    """Give models one core, as each worker does, and return the clock of what they take: of the core or the GPU.

    Threads that wait for each other take many times as long where other programs run, too.
    """
    torch = sys.modules.get("torch")  # not every model is one of torch's
    if torch is None:
        return time.process_time
    torch.set_num_threads(1)
    return time.monotonic if torch.cuda.is_available() else time.process_time


@contextmanager
def folder_for(recipe: Recipe, tried: Sequence[str]) -> Iterator[Recipe]:
    """Give a recipe for the sources to try, without models, other corpora and limits, in a folder that goes."""
    sources = tuple(
        source.model_copy(
            update={"max_loss": None} | ({"classify": None, "keep": None} if source.classify else {})
        )
        for source in recipe.sources
        if source.name in tried
    )
    rounds = tuple(dedup.model_copy(update={"against": ()}) for dedup in recipe.rounds)
    with TemporaryDirectory(prefix="zyda-plan-") as folder:
        yield recipe.model_copy(
            update={"storage": folder, "sources": sources, "rounds": rounds, "max_loss": None}
        )


@dataclass
class TrialBuild:
    """A build of some pieces of each source. whole: the recipe. most: the bytes of text of each piece."""

    whole: Recipe
    recipe: Recipe
    survey: SourceSurvey
    pieces: dict[str, list[tuple[InputFile, Piece]]]
    most: int
    trial: Trial = field(default_factory=Trial)
    shards: dict[str, Artifact] = field(default_factory=dict)  # the first of each source

    def run(self) -> Trial:
        """Build them with the stages of a build, here."""
        plans, partial_ingest = self.plans(), replace(ingest, run=self.ingest)

        def submit(work: Any, *inputs: Any, **options: Any) -> Any:
            if work is prepare:
                return plans
            return HERE.submit(partial_ingest if work is ingest else work, *inputs, **options)

        token = ALLOWED_DEATHS.set(DEATHS)  # so that work leaves its marks, as on a cluster
        try:
            with telling(self.trial.tell):
                self.trial.ledger = run_pipeline(self.recipe, Runner(submit, HERE.result, HERE.finished))
        finally:
            ALLOWED_DEATHS.reset(token)
        return self.trial

    def plans(self) -> list[SourcePlan]:
        """Plan what is ingested of each source: files that have these pieces alone."""
        METER.take()
        tokenizer = store_tokenizer(self.recipe.folder, self.recipe.tokenizer)
        register = number_sources(Register(), list(self.pieces))
        plans = list[SourcePlan]()
        columns = (self.whole.sources, self.survey.listed, self.survey.chosen, self.survey.documents)
        for source, listed, chosen, documents in zip(*columns, strict=True):
            if source.name not in self.pieces:
                continue
            files = with_pieces(self.pieces[source.name])
            register = number_files(register, source.name, files)
            plan = source_plan(
                self.recipe,
                source,
                register,
                files,
                len(files),
                tokenizer,
                None,
                documents,
                self.survey.denied,
            )
            rows = rows_of_sample(self.whole, len(listed), len(chosen))
            parameters = plan.parameters.model_copy(update={"sample_rows": rows, "classified": False})
            plans.append(plan.model_copy(update={"parameters": parameters}))
        self.trial.rest["prepare"] = METER.take()
        return plans

    def texts(self, source: str) -> pa.ChunkedArray:
        """Return the texts of the first shard of a source."""
        tables = tables_of(self.recipe.folder, self.shards[source], ["text"])
        return pa.concat_tables(islice(tables, 1)).column("text")

    def ingest(self, recipe: Recipe, plan: SourcePlan) -> Manifest:
        """Ingest a part of each piece of a source, and note what it took."""
        companions, _ = companions_of(recipe, plan.source)
        made, parts = list[IngestedPiece](), self.trial.parts.setdefault(plan.source, [])
        groups = {file.url: sum(map(groups_in, file.pieces)) for file, _ in self.pieces[plan.source]}
        for file in load_listing(recipe.folder, plan.listing):
            for i, piece in enumerate(file.pieces):
                most = self.most * SIZES[(file.number + i) % len(SIZES)]
                read = PartRead(file.size, most, groups_in(piece) / max(1, groups[file.url]))
                job = PartOfPiece(
                    recipe.folder,
                    plan.source,
                    plan.number,
                    plan.parameters,
                    companions,
                    file,
                    piece,
                    (),
                    read,
                )
                METER.take()
                ingested = job()
                spent = replace(METER.take(), calls=1)
                made.append(ingested)
                if ingested.shards:
                    self.shards.setdefault(plan.source, ingested.shards[0])
                aside = sum(one.counts.documents for one in ingested.set_aside)
                weight, rows = read.weight(spent.inputs), read.rows
                parts.append(Part(weight, rows, ingested.seen, len(ingested.shards), aside, spent))
                self.trial.calls.setdefault(("ingest", plan.source), Calls()).add(ingested.seen.bytes, spent)
        return manifest_of(recipe, plan, made)


@dataclass
class PartRead:
    """What is read of a piece of a file.

    size: of the file. most: bytes of text to read, where there are no row groups. of_groups: the part of the file's
    row groups, 0 where it has none. rows: that were read. finished: the part of the rows that were begun.
    """

    size: int
    most: float
    of_groups: float
    rows: int = 0
    is_whole: bool = True
    finished: float = 1.0

    @property
    def has_footer(self) -> bool:
        return self.of_groups > 0

    def chunks(self, job: "PartOfPiece", tally: Tally) -> Iterator[Chunk]:
        """Read a piece until there is enough, or for some seconds; the tally counts the rows that were read."""
        text, seen, until = job.parameters.text, 0, time.monotonic() + PART_SECONDS
        for chunk in read_piece(job, tally):
            bad = sum(
                not row.is_rest for row in chunk.bad
            )  # what stands for the rest is counted by the tally
            self.rows += len(chunk.rows) + bad + len(chunk.blank) + len(chunk.skipped)
            if text in chunk.table.column_names:
                seen += pc.sum(pc.binary_length(chunk.table.column(text))).as_py() or 0
            yield chunk
            if (seen >= self.most and not self.has_footer) or time.monotonic() > until:
                self.is_whole = False
                break
        self.finished = self.rows / max(1, tally.rows) if self.has_footer else 1.0
        tally.rows = self.rows

    def weight(self, inputs: int) -> float:
        """Return the bytes of the file that were read, by all that were: with its footer, if it has one."""
        if self.is_whole and self.of_groups in {0, 1}:
            return float(self.size)
        if not self.has_footer:
            return float(min(self.size, inputs))
        read = min(self.size, inputs - FOOTER_AT_ONCE)
        # Of a small file the footer has come with its rows.
        return (read if read > FOOTER_AT_ONCE else self.size * self.of_groups) * self.finished


@dataclass(frozen=True)
class PartOfPiece(PieceToIngest):
    """A part of a piece."""

    part: PartRead

    def make(self) -> IngestedPiece:
        def ingest(engine: Engine) -> IngestedPiece:
            self.part.rows, tally = 0, Tally()
            return ingest_chunks(self, self.part.chunks(self, tally), tally, engine)

        return self.recorded(with_engine(self, ingest))


def with_pieces(pieces: Sequence[tuple[InputFile, Piece]]) -> list[InputFile]:
    """Return files with those of their pieces that were chosen, in the order of their URLs."""
    files = {file.url: file for file, _ in pieces}
    return [
        files[url].model_copy(update={"pieces": tuple(piece for file, piece in pieces if file.url == url)})
        for url in sorted(files)
    ]


def groups_in(piece: Piece) -> int:
    """Return how many row groups a piece has, 0 where it is of none."""
    return len(piece.row_groups or ())


def rows_of(file: InputFile) -> int | None:
    """Return how many rows a file has, where its footer says so."""
    rows = [piece.rows for piece in file.pieces]
    return None if None in rows else sum(row for row in rows if row is not None)


def pieces_to_try(files: Sequence[InputFile], pieces: int, most: int) -> list[tuple[InputFile, Piece]]:
    """Choose pieces of a source, from as many of its files as there are, by a hash of their names.

    most: of each, the bytes of text that are read.
    """
    ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())
    in_turn = [
        (file, part_of(file, turn + i, most))
        for turn in range(max(len(file.pieces) for file in files))
        for i, file in enumerate(ranked)
        if turn < len(file.pieces)
    ]
    return in_turn[:pieces]


def part_of(file: InputFile, turn: int, most: int) -> Piece:
    """Return another piece of a file in each turn: of row groups, some from a place within it on.

    Files begin with what came first. The rows of such a piece are numbered as if it was the first.
    """
    piece = file.pieces[(file.seed + turn) % len(file.pieces)]
    if not piece.row_groups:
        return piece
    groups = sum(map(groups_in, file.pieces))
    wanted = max(1, round(most * SIZES[turn % len(SIZES)] / TEXT_OF_BYTE / file.size * groups))
    start = file.seed % len(piece.row_groups)
    in_turn = (*piece.row_groups[start:], *piece.row_groups[:start])
    return piece.model_copy(update={"row_groups": in_turn[:wanted]})
