"""Ingest: convert a source's files to shards of documents with ids and counts.

Rows in: the chunks of `tasks.sources.reading`. Rows out, in work/ingest: `doc_id` (uint64), `n_tokens`
(uint32), `n_bytes` (uint32), `text` under that name whatever the source calls it, and the other
columns of the source; after the recipe's steps on documents also what they measured, and no text of a document
that they let go. Bad rows go to work/set_aside, or stop the build. The band keys of a shard are
made here too, while its text is in memory, as whatever else is a companion of ingest.
"""

from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.documents.deny_list import lists_of, load_deny_list
from zyda_flows.tasks.errors import BadInput, WrongTokens, bad_input
from zyda_flows.tasks.ids import MAX_ROWS, SOURCE_SHIFT, first_id
from zyda_flows.tasks.ingest.companions import COMPANIONS, Companion, OnGpus
from zyda_flows.tasks.ingest.file_pieces import VERSION, IngestedPiece, PieceToIngest
from zyda_flows.tasks.ingest.piece_sums import PieceSums
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.quality.ingested import IngestFacts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.input_files import FilePiece, load_listing
from zyda_flows.tasks.sources.reading import format_versions
from zyda_flows.tasks.stage.fan_out import fan_out, has_gpus
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.records import pack
from zyda_flows.tasks.storage.tables import read_table
from zyda_flows.tasks.workers.dask_cluster import SHARE
from zyda_flows.tasks.workers.engine import FollowUp

MAX_DIFFERING_SHARE = 1e-4
NO_DOCUMENT = "Check the `files` of the source; remove a source without documents from the recipe."


def key(recipe: Recipe, plan: SourcePlan) -> str:
    versions, forgotten = format_versions(), sha256(forgotten_ids(recipe, plan).tobytes()).hexdigest()
    return stage_key("ingest", VERSION, plan.model_dump(exclude={"denied", "labels"}), *versions, forgotten)


def forgotten_ids(recipe: Recipe, plan: SourcePlan) -> NDArray[np.uint64]:
    """Return the ids of a source's rows on deny lists: (n,) uint64, ascending."""
    if not recipe.deny_lists:
        return np.empty(0, np.uint64)
    ids = np.union1d(*load_deny_list(lists_of(recipe)).requested_and_similar_ids)
    first, end = (np.uint64(first_id(plan.number, 0) + n) for n in (0, (1 << SOURCE_SHIFT) - 1))
    return ids[np.searchsorted(ids, first) : np.searchsorted(ids, end, side="right")]


def forgotten_of_piece(ids: NDArray[np.uint64], number: int, file: int, piece: FilePiece) -> tuple[int, ...]:
    """Return the ids, ascending, of rows in a piece; all that may be in it, if its number of rows is unknown."""
    if not len(ids):
        return ()
    first = first_id(number, file) + piece.first_row
    last = first + (MAX_ROWS - piece.first_row if piece.rows is None else piece.rows) - 1
    low, high = np.searchsorted(ids, np.array([first, last + 1], np.uint64))
    return tuple(ids[low:high].tolist())


def companions_of(recipe: Recipe, source: str) -> tuple[tuple[Callable[[], Companion], ...], FollowUp | None]:
    """Return the functions that make the companions of a shard, and the GPU jobs that follow it, if any."""
    gpus = has_gpus(recipe.engine)
    makers, gpu_jobs = list[Callable[[], Companion]](), list[Callable[[Artifact], Iterable[ArtifactJob]]]()
    for kind in COMPANIONS:
        if gpus and isinstance(kind, OnGpus):
            maker, jobs_of = kind.with_gpus(recipe, source)
            gpu_jobs.append(jobs_of)
        else:
            maker = kind.for_source(recipe, source)
        makers.append(maker)
    follow_up = (
        FollowUp(recipe.engine, partial(jobs_after, gpu_jobs), ArtifactJob.__call__, SHARE)
        if gpu_jobs
        else None
    )
    return tuple(makers), follow_up


def jobs_after(
    after: list[Callable[[Artifact], Iterable[ArtifactJob]]], piece: IngestedPiece
) -> list[ArtifactJob]:
    """Return the GPU jobs of the shards of a piece."""
    return [job for shard in piece.shards for jobs_of in after for job in jobs_of(shard)]


def without_documents(recipe: Recipe, source: str, sums: PieceSums) -> BadInput:
    """Return the error for a source without documents, with the reason of its first set-aside row."""
    why = f"; the sample of {recipe.sample:g} may be too small" if recipe.sample < 1 else ""
    if aside := sums.set_aside:
        first = read_table(recipe.folder, aside[0], ["file", "row", "reason"]).slice(0, 1).to_pylist()[0]
        places = sum(shard.rows for shard in aside)
        why += f"; {places:,} set aside, the first of {first['file']}, row {first['row']}: {first['reason']}"
    error = bad_input(source, f"no document in any of its files{why}")
    error.advice = NO_DOCUMENT
    return error


@stage("ingest", key, inputs=("plan",))
def ingest(recipe: Recipe, plan: SourcePlan) -> Manifest:
    """Ingest all files of a source."""
    folder, forgotten = recipe.folder, forgotten_ids(recipe, plan)
    companions, follow_up = companions_of(recipe, plan.source)
    jobs = [
        PieceToIngest(
            folder=folder,
            source=plan.source,
            number=plan.number,
            parameters=plan.parameters,
            companions=companions,
            file=file,
            piece=piece,
            forgotten=forgotten_of_piece(forgotten, plan.number, file.number, piece),
        )
        for file in load_listing(folder, plan.listing)
        for piece in file.pieces
    ]
    sums = PieceSums(job.name for job in jobs)
    fan_out(
        PieceToIngest.__call__, jobs, stage="ingest", source=plan.source, follow_up=follow_up, kept=sums.add
    )
    return manifest_of(recipe, plan, sums)


def manifest_of(recipe: Recipe, plan: SourcePlan, sums: PieceSums) -> Manifest:
    """Return the manifest of a source's pieces. Raises BadInput if they have no documents, WrongTokens."""
    shards, set_aside = sums.shards, sums.set_aside
    out = total(shard.counts for shard in shards)
    if not out.documents:
        raise without_documents(recipe, plan.source, sums)
    check_differing(plan.source, sums.differing, out.documents)
    return Manifest(
        stage="ingest",
        source=plan.source,
        artifacts=shards,
        entering=out + Counts(documents=sums.rows - out.documents),
        out=out,
        set_aside=total(shard.counts for shard in set_aside),
        cleaned=sums.cleaned.in_order(),
        skipped=sums.skipped.in_order(),
        special_tokens=sums.special_tokens.in_order(),
        facts=IngestFacts(
            packed=pack(sums.common_schema()),
            set_aside=set_aside,
            models=plan.models,
            differing=sums.differing,
        ).written(),
    )


def check_differing(source: str, differing: int, documents: int) -> None:
    """Raise WrongTokens if the tokens of too many documents differ between libraries."""
    if differing > max(1, MAX_DIFFERING_SHARE * documents):
        fault = f"{differing:,} of {documents:,} documents have other tokens by fastokens than by tokenizers"
        raise WrongTokens(f"source {source}: {fault}; nothing new is published")
