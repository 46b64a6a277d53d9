"""The trial: a build of some pieces of a recipe's sources, with the stages of a build, in a separate folder.

The cost of a stage for a source depends on the texts, the machine and the stores. A plan therefore measures the
stages themselves, on an input that takes some seconds.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.forecast.models import columns_of_conditions, try_judges
from zyda_flows.tasks.forecast.pieces import (
    SIZES,
    PartOfPiece,
    PartRead,
    groups_in,
    pieces_to_try,
    with_pieces,
)
from zyda_flows.tasks.forecast.trial import Calls, Trial, TrialPart
from zyda_flows.tasks.ingest.file_pieces import IngestedPiece
from zyda_flows.tasks.ingest.ingest import companions_of, ingest, manifest_of
from zyda_flows.tasks.ingest.piece_sums import PieceSums
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.planning.prepare import prepare, rows_of_sample, source_plan
from zyda_flows.tasks.planning.survey import SourceSurvey
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile, load_listing
from zyda_flows.tasks.sources.register import Register, number_files, number_sources
from zyda_flows.tasks.spent import METER, calling_on_result
from zyda_flows.tasks.stage.results import HERE, Runner
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest
from zyda_flows.tasks.storage.tables import open_table, tables_of
from zyda_flows.tasks.tokens.stored import store_tokenizer
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS
from zyda_flows.tasks.workers.process import IMPORTED
from zyda_flows.tasks.workers.window import DEATHS

MOST_SOURCES = 8  # the number of the largest sources that are tried
FILE_FOR_EACH_SHARD = 2**-20  # `published_mib` of a trial: a byte
PIECES = 12  # the number of pieces of all sources together; at least two of each source are tried
PART_BYTES, WARM_BYTES = (
    32 << 20,
    16 << 20,
)  # bytes of text of a piece: in the measured build, and in the first


def tried_sources(recipe: Recipe, survey: SourceSurvey) -> list[str]:
    """Return the sources with the most bytes, in the order of their rank."""
    sizes = {
        source.name: sum(file.size for file in files)
        for source, files in zip(recipe.sources, survey.chosen, strict=True)
    }
    largest = sorted(sizes, key=lambda name: -sizes[name])[:MOST_SOURCES]
    return [name for name in sizes if name in largest]


def run_trial(recipe: Recipe, survey: SourceSurvey, files: dict[str, list[InputFile]]) -> Trial:
    """Build a part of a recipe's sources twice: to compile and load everything, and to measure.

    files: of each source, the inspected files. Raises the errors of a build.
    """
    tried = tried_sources(recipe, survey)
    each = max(2, ceil(PIECES / len(tried)))
    pieces = {name: pieces_to_try(files[name], each, PART_BYTES) for name in tried}
    first = {name: pieces_to_try(files[name], 1, WARM_BYTES) for name in tried}
    for name in IMPORTED:  # workers have imported these modules
        import_module(name)
    with folder_for(recipe, tried) as smaller:
        compile_kernels(smaller)
        began = time.process_time()
        warm = TrialBuild(recipe, smaller, survey, first, WARM_BYTES).run()
        first_time = time.process_time() - began
        smaller.folder.delete("")  # the second build uses it again; the tokenizer is warm
        build = TrialBuild(recipe, smaller, survey, pieces, PART_BYTES)
        began = time.process_time()
        trial = build.run()
        again = (time.process_time() - began) * warm.text / max(1, trial.text)
        trial.warm_up_seconds = max(0.0, first_time - again)
        for source in recipe.sources:
            if source.name not in tried:
                continue
            judges, models = recipe.judges_of(source.name), survey.models.get(source.name, ())
            if judges:
                documents = build.documents(source.name, columns_of_conditions(source, judges))
                trial.models[source.name] = try_judges(source, models, judges, documents)
    return trial


def compile_kernels(recipe: Recipe) -> None:
    """Build a few near-duplicates, so that numba caches the kernels of this recipe.

    A part of the sources may have no near-duplicates, and the measured cost must not include compilation.
    """
    text = " ".join(f"word{i}" for i in range(300))
    rows = [{"text": text}, {"text": f"{text} more"}, {"text": f"other {text}"}]
    with TemporaryDirectory(prefix="zyda-plan-") as folder, suppress(ZydaError):
        sources = []
        for number in range(2):
            path = Path(folder, f"{number}.jsonl")
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            sources.append(Source(name=f"compiled{number}", files=(str(path),)))
        without = {"judges": (), "bucket": None, "agreement": ()}  # their columns are those of the sources
        small = recipe.model_copy(update={"storage": folder, "sources": tuple(sources)} | without)
        run_pipeline(small, HERE)


def has_added_columns(recipe: Recipe, source: Source) -> bool:
    """Return whether `keep` of a source may use columns that a trial does not have."""
    return bool(source.joins or recipe.judges_of(source.name))


@contextmanager
def folder_for(recipe: Recipe, tried: Sequence[str]) -> Iterator[Recipe]:
    """Yield a recipe for the sources to try, without models, other corpora and limits, in a temporary folder."""
    sources = tuple(
        source.model_copy(
            update={"max_loss": None, "joins": ()}
            | ({"classify": None, "judges": (), "keep": None} if has_added_columns(recipe, source) else {})
        )
        for source in recipe.sources
        if source.name in tried
    )
    rounds = tuple(dedup.model_copy(update={"against": ()}) for dedup in recipe.rounds)
    with TemporaryDirectory(prefix="zyda-plan-") as folder:
        yield recipe.model_copy(
            update={
                "storage": folder,
                "judges": (),
                "publish_vectors": (),
                "bucket": None,
                "sources": sources,
                "rounds": rounds,
                "max_loss": None,
                "published_mib": FILE_FOR_EACH_SHARD,
            }
        )


@dataclass
class TrialBuild:
    """A build of some pieces of each source. whole: the recipe. most: the bytes of text of each piece."""

    whole: Recipe
    recipe: Recipe
    survey: SourceSurvey
    pieces: dict[str, list[tuple[InputFile, FilePiece]]]
    most: int
    trial: Trial = field(default_factory=Trial)
    shards: dict[str, Artifact] = field(default_factory=dict)  # the first shard of each source

    def run(self) -> Trial:
        """Build the pieces with the stages of a build, in this process."""
        plans, partial_ingest = self.plans(), replace(ingest, run=self.ingest)

        def submit(work: Any, *inputs: Any, **options: Any) -> Any:
            if work is prepare:
                return plans
            return HERE.submit(partial_ingest if work is ingest else work, *inputs, **options)

        token = ALLOWED_DEATHS.set(DEATHS)  # attempts are marked in storage, as on a cluster
        try:
            with calling_on_result(self.trial.add_result):
                self.trial.ledger = run_pipeline(self.recipe, Runner(submit, HERE.result, HERE.finished))
        finally:
            ALLOWED_DEATHS.reset(token)
        return self.trial

    def plans(self) -> list[SourcePlan]:
        """Return the parameters of ingest of each source, whose files have the chosen pieces only."""
        METER.take()
        tokenizer = store_tokenizer(self.recipe.folder, self.recipe.tokenizer, self.recipe.special_tokens)
        register = number_sources(Register(), list(self.pieces))
        plans = list[SourcePlan]()
        columns = (self.whole.sources, self.survey.listed, self.survey.chosen, self.survey.documents)
        for source, listed, chosen, documents in zip(*columns, strict=True):
            if source.name not in self.pieces:
                continue
            files = with_pieces(self.pieces[source.name])
            register = number_files(register, source.name, files)
            plan = source_plan(
                recipe=self.recipe,
                source=source,
                register=register,
                files=files,
                listed=len(files),
                tokenizer=tokenizer,
                models=(),
                documents=documents,
                denied=self.survey.denied,
            )
            rows = rows_of_sample(self.whole, len(listed), len(chosen))
            parameters = plan.parameters.model_copy(update={"sample_rows": rows, "classified": False})
            plans.append(plan.model_copy(update={"parameters": parameters}))
        self.trial.costs_outside_calls[prepare.name] = METER.take()
        return plans

    def documents(self, source: str, columns: Iterable[str]) -> pa.Table:
        """Return documents of the first shard of a source: `text`, and the columns that the shard has."""
        shard = self.shards[source]
        with open_table(self.recipe.folder, shard) as parquet:
            names = [name for name in parquet.schema_arrow.names if name in {"text", *columns}]
        return pa.concat_tables(islice(tables_of(self.recipe.folder, shard, names), 1))

    def ingest(self, recipe: Recipe, plan: SourcePlan) -> Manifest:
        """Ingest a part of each piece of a source, and record its cost."""
        companions, _ = companions_of(recipe, plan.source)
        made, parts = list[IngestedPiece](), self.trial.parts.setdefault(plan.source, [])
        groups = {file.url: sum(map(groups_in, file.pieces)) for file, _ in self.pieces[plan.source]}
        for file in load_listing(recipe.folder, plan.listing):
            for i, piece in enumerate(file.pieces):
                most = self.most * SIZES[(file.number + i) % len(SIZES)]
                read = PartRead(file.size, most, groups_in(piece) / max(1, groups[file.url]))
                job = PartOfPiece(
                    folder=recipe.folder,
                    source=plan.source,
                    number=plan.number,
                    parameters=plan.parameters,
                    companions=companions,
                    file=file,
                    piece=piece,
                    forgotten=(),
                    part=read,
                )
                METER.take()
                ingested = job()
                spent = replace(METER.take(), calls=1)
                made.append(ingested)
                if ingested.shards:
                    self.shards.setdefault(plan.source, ingested.shards[0])
                aside = sum(table.counts.documents for table in ingested.set_aside)
                weight, rows = read.weight(spent.inputs), read.rows
                parts.append(
                    TrialPart(weight, rows, ingested.documents_read, len(ingested.shards), aside, spent)
                )
                self.trial.calls.setdefault((ingest.name, plan.source), Calls()).add(
                    ingested.documents_read.bytes, spent
                )
        sums = PieceSums(ingested.name for ingested in made)
        for ingested in made:
            sums.add(ingested)
        return manifest_of(recipe, plan, sums)
