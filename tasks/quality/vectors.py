"""Vectors: publish the vectors of the kept documents that a judge judged, in 8 bits.

They are published as `vectors/`, in a folder for each judge and source. The shards of a file of documents share a
file. Rows out: `doc_id`, `scale` (float32) and
`vector` (int8), whose product is about the vector. Documents that the judge did not judge have no row.
"""

from collections.abc import Iterator, Sequence
from math import fsum

from zyda_flows.tasks.accounts.published import PublishedVectors
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.quality.stored_vectors import STAGE
from zyda_flows.tasks.quality.vector_body import VectorBody
from zyda_flows.tasks.quality.vector_files import VERSION, VectorsOfFile, VectorsOfJudge
from zyda_flows.tasks.quality.vector_forms import expect_body
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.shared_files import histories_of_files, planned_groups
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.workers.engine import Engine

BYTES_OF_ROW = 12  # of a document, beside its vector: its id and its scale
BYTES_STORED = 4  # of a number of a stored vector


class VectorFacts(Facts):
    """The facts of the stage: the accounts of the published vectors of each judge and source."""

    accounts: tuple[PublishedVectors, ...] = ()


def has_vectors(recipe: Recipe, _: str) -> bool:
    return bool(recipe.publish_vectors)


def published_bodies(recipe: Recipe, trail: Trail) -> Iterator[tuple[Judge, Model, VectorBody]]:
    """Yield the judges of a source whose vectors are published. Raises BadInput for a model without vectors."""
    models = {model.judge: model for model in read_ingest_facts(recipe.folder, trail).models}
    for judge in recipe.judges_of(trail.source):
        if judge.name in recipe.publish_vectors:
            model = models[judge.name]
            yield judge, model, expect_body(model, judge.max_tokens)


def key(recipe: Recipe, trails: list[Trail]) -> str:
    bodies = [
        [trail.source, model.judge, body.model_dump()]
        for trail in trails
        for _, model, body in published_bodies(recipe, trail)
    ]
    parameters = [bodies, recipe.published_mib]
    return stage_key(
        STAGE, VERSION, parameters, *(identity for trail in trails for identity in trail.identities)
    )


def cost(workload: Workload, subject: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the vectors, which `classify` has computed for the answers."""
    assert isinstance(subject, Recipe)
    for source, size in workload.sources.items():
        for judge in subject.judges_of(source):
            tried = size.models.get(judge.name)
            if tried is None or judge.name not in subject.publish_vectors:
                continue
            documents, shards = size.documents * size.kept * tried.judged, len(size.shards)
            files = len(planned_groups(size, subject.published_mib))
            spent = Spent(
                calls=files,
                read=round(documents * tried.dims * BYTES_STORED),
                written=round(documents * (tried.dims + BYTES_OF_ROW)),
                files=2 * files,
                requests=4 * (shards + files),
            )
            yield StageCost(name, spent)


@stage(STAGE, key, scope="corpus", inputs=("trails",), enabled=has_vectors, published_as=STAGE, cost=cost)
def vectors(recipe: Recipe, trails: list[Trail]) -> Manifest:
    """Write the vectors of all sources. Raises NotConserved if a vector is missing."""
    folder = recipe.folder
    jobs = [
        VectorsOfFile(
            folder=folder,
            source=trail.source,
            histories=histories,
            judge=judge.name,
            classify=Judged(recipe, judge.name).name_of("classify"),
            model=model,
            body=body,
            max_tokens=judge.max_tokens,
            device="cpu" if recipe.engine is Engine.CPU else None,
        )
        for trail in trails
        for judge, model, body in published_bodies(recipe, trail)
        for histories in histories_of_files(load_histories(folder, trail), recipe.published_mib)
    ]
    made: list[VectorsOfJudge] = fan_out(
        RecordJob.__call__, jobs, stage=STAGE, source=None, engine=recipe.engine
    )
    found = tuple(accounts(made))
    expect_conserved(recipe, trails, found)
    return Manifest(
        stage=STAGE,
        artifacts=tuple(sorted((each.artifact for each in made), key=lambda artifact: artifact.name)),
        facts=VectorFacts(accounts=found).written(),
        # Their keys keep the stored vectors from being cleaned.
        intermediate=tuple(stored.path for job in jobs for stored in job.stored),
    )


def expect_conserved(recipe: Recipe, trails: Sequence[Trail], found: Sequence[PublishedVectors]) -> None:
    """Raise NotConserved unless each kept document has a vector; with `only_if`, at most each."""
    kept = {trail.source: trail.remaining.documents for trail in trails}
    partial = {(source, judge.name) for source in kept for judge in recipe.judges_of(source) if judge.only_if}
    for each in found:
        documents, is_partial = kept[each.source], (each.source, each.judge) in partial
        if each.documents > documents or (each.documents < documents and not is_partial):
            raise NotConserved(
                f"vectors of judge {each.judge}, source {each.source}: {each.documents:,} vectors of "
                f"{documents:,} kept documents"
            )


def accounts(made: Sequence[VectorsOfJudge]) -> Iterator[PublishedVectors]:
    """Yield the account of each judge and source.

    Errors have four digits, because the last digits of their sums depend on the machine.
    """
    for source, judge in dict.fromkeys((each.source, each.judge) for each in made):
        own = [each for each in made if (each.source, each.judge) == (source, judge)]
        documents = sum(each.artifact.rows for each in own)
        mean = fsum(each.errors for each in own) / max(1, documents)
        yield PublishedVectors(
            judge=judge,
            source=source,
            dimensions=own[0].dims,
            documents=documents,
            mean_error=float(f"{mean:.4g}"),
            largest_error=float(f"{max(each.largest for each in own):.4g}"),
        )
