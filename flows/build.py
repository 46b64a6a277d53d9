"""The flow that a person starts: from a recipe to a published corpus with its accounts."""

from itertools import chain
from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.accounts import finished, show_ledger
from flows.cluster_trouble import on_a_cluster
from flows.exclusion import one_at_a_time
from flows.progress_bars import pass_on_warnings, progress_bars
from tasks.artifacts import corpus_folder
from tasks.classify import classify
from tasks.cluster import task_runner
from tasks.clusters import clusters
from tasks.corpus import publish_corpus
from tasks.edges import edges
from tasks.filter import filter_documents
from tasks.healing import healed
from tasks.ingest import ingest
from tasks.ledger import Ledger, make_ledger
from tasks.minhash import minhash
from tasks.prepare import prepare
from tasks.publish import publish
from tasks.recipe import Recipe, load_recipe
from tasks.removals import decisions, removals
from tasks.stage import start
from tasks.watching import note_built

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="build", flow_run_name="build {recipe}", task_runner=task_runner(), persist_result=False)
def build(
    recipe: str, storage: str | None = None, sample: Sample | None = None, replace: bool = False
) -> Ledger:
    """Build the corpus that a recipe describes. What was built before is not built again.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
        replace: Build it also where a corpus of other sources is published under its name, which goes.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    folder = corpus_folder(plan)
    with one_at_a_time(plan), on_a_cluster(), progress_bars(), pass_on_warnings():
        folder.clear_scratch()
        ledger = healed(folder, lambda: made(plan, replace=replace))
        show_ledger(plan, ledger)
    return ledger


def made(plan: Recipe, *, replace: bool) -> Ledger:
    """Do every stage of every source that has not been done, and publish the corpus."""
    inputs = prepare.submit(plan, replace=replace).result()

    ingesting = [start(ingest, plan, one) for one in inputs]
    minhashing = [start(minhash, plan, one) for one in ingesting]
    edging = start(edges, plan, minhashing)
    clustering = start(clusters, plan, edging)
    deciding = start(decisions, plan, clustering, inputs)
    removing = [start(removals, plan, one, deciding) for one in ingesting]
    classifying = [start(classify, plan, *two) for two in zip(ingesting, removing, strict=True)]
    filtering = [
        start(filter_documents, plan, *three) for three in zip(ingesting, removing, classifying, strict=True)
    ]
    publishing = [
        start(publish, plan, *four) for four in zip(ingesting, removing, classifying, filtering, strict=True)
    ]

    ingested, minhashed = finished(plan, ingesting), finished(plan, minhashing)
    clustered = finished(plan, [edging, clustering, deciding])
    judged = [finished(plan, stage) for stage in (removing, classifying, filtering)]
    published = finished(plan, publishing)

    ledger = make_ledger(zip(ingested, minhashed, *judged, published, strict=True))
    publish_corpus.submit(plan, ledger, inputs, ingested, clustered[1], published).result()
    receipts = [*ingested, *minhashed, *clustered, *chain(*judged), *published]
    note_built.submit(plan, inputs, receipts).result()
    return ledger
