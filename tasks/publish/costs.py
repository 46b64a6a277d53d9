"""The cost of publishing a corpus: files are checked and placed, and on a store their work copies are removed."""

from collections.abc import Iterable
from dataclasses import replace

from zyda_flows.tasks.documents.planning import count_columns
from zyda_flows.tasks.publish.files import publish
from zyda_flows.tasks.publish.published_shards import COUNTS
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.signatures.costs import published_key_files
from zyda_flows.tasks.signatures.index import index
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload, scaled, shards_of
from zyda_flows.tasks.stage.trees import jobs_of_tree, tree_cost
from zyda_flows.tasks.storage.folder import BLOCK_BYTES

CORPUS = "corpus"
TABLES_OF_ALL = 3  # of clusters, of the overlap and of the audit
CHECKS_OF_FILE = 5  # requests for a file before it is published, beside those that read it
REQUESTS_TO_REMOVE = 3  # the record of a file is read and written, and the file is removed


def corpus_cost(workload: Workload, recipe: Recipe) -> Iterable[StageCost]:
    """Return the cost of reading the files to publish, and of putting them in place."""
    tried, published = workload.tried(CORPUS), workload.tried(publish.name)
    by_size = workload.by_shard(publish.name).written / max(1, published.written)
    by_shards = shards_of(workload) / max(1, workload.tried_shards)
    keys = published_key_files(workload, recipe)
    tried_keys = sum(
        workload.tried(dedup_round.name_of(index.name)).calls for dedup_round in rounds_of(recipe)
    )
    tables = min(TABLES_OF_ALL, tried.calls - tried_keys)
    calls = round((tried.calls - tried_keys - tables) * by_shards) + keys + tables
    whole = scaled(tried, by_size)
    placed = calls - tried.calls
    requests = CHECKS_OF_FILE * calls + whole.read // BLOCK_BYTES + placed
    spent = replace(whole, calls=calls, files=placed, requests=requests)
    yield StageCost(CORPUS, spent + removing_copies(recipe, shards_of(workload) + keys))


def counts_cost(workload: Workload, recipe: Recipe) -> Iterable[StageCost]:
    """Return the cost of adding up the counts of shards by component, licence and language."""
    counted = [
        source
        for name, source in workload.sources.items()
        if recipe.source(name).component or count_columns(recipe, name)
    ]
    return tree_cost(workload, COUNTS, sum(jobs_of_tree(len(source.shards)) for source in counted))


def removing_copies(recipe: Recipe, files: int) -> Spent:
    """Return the cost of removing the work copies of published files from an object store."""
    if recipe.folder.is_local or recipe.work_copies:
        return Spent()
    return Spent(calls=files, files=-files, requests=REQUESTS_TO_REMOVE * files)
