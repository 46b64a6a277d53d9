"""The flow that a person starts: from a recipe to a published corpus with its accounts."""

from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.accounts import finished, show_ledger
from flows.cluster_trouble import on_a_cluster
from flows.exclusion import one_at_a_time
from flows.progress_bars import progress_bars
from tasks.classify import classify
from tasks.cluster import task_runner
from tasks.clusters import clusters
from tasks.corpus import publish_corpus
from tasks.edges import edges
from tasks.filter import filter_documents
from tasks.ingest import ingest
from tasks.ledger import Ledger, make_ledger
from tasks.minhash import minhash
from tasks.prepare import prepare
from tasks.publish import publish
from tasks.recipe import load_recipe
from tasks.removals import decisions, removals
from tasks.stage import start
from tasks.watching import note_built

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="build", flow_run_name="build {recipe}", task_runner=task_runner(), persist_result=False)
def build(recipe: str, storage: str | None = None, sample: Sample | None = None) -> Ledger:
    """Build the corpus that a recipe describes. What was built before is not built again.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    with one_at_a_time(plan), on_a_cluster(), progress_bars():
        inputs = prepare.submit(plan).result()

        ingesting = [start(ingest, plan, one) for one in inputs]
        minhashing = [start(minhash, plan, one) for one in ingesting]
        edging = start(edges, plan, minhashing)
        clustering = start(clusters, plan, edging)
        deciding = start(decisions, plan, clustering, inputs)
        removing = [start(removals, plan, one, deciding) for one in ingesting]
        classifying = [start(classify, plan, *two) for two in zip(ingesting, removing, strict=True)]
        filtering = [
            start(filter_documents, plan, *three)
            for three in zip(ingesting, removing, classifying, strict=True)
        ]
        publishing = [
            start(publish, plan, *four)
            for four in zip(ingesting, removing, classifying, filtering, strict=True)
        ]

        stages = [
            finished(plan, stage)
            for stage in (ingesting, minhashing, removing, classifying, filtering, publishing)
        ]
        ledger = make_ledger(zip(*stages, strict=True))
        publish_corpus.submit(plan, ledger, stages[0], clustering.result(), stages[-1]).result()
        note_built(plan, inputs)
    show_ledger(plan, ledger)
    return ledger
