"""The cost of publishing, and the numbers of published files.

Files are written for several shards, checked and placed, and on a store their work copies are removed.
"""

from collections.abc import Iterable
from dataclasses import replace

from zyda_flows.tasks.dedup.costs import cluster_files
from zyda_flows.tasks.documents.planning import count_columns
from zyda_flows.tasks.passages.search_jobs import STAGE as PASSAGES
from zyda_flows.tasks.publish.published_shards import COUNTS
from zyda_flows.tasks.quality.stored_vectors import STAGE as VECTORS
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Subject, rounds_of
from zyda_flows.tasks.signatures.bands import key_ranges
from zyda_flows.tasks.signatures.costs import published_key_files, remaining
from zyda_flows.tasks.signatures.index import index
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload, documents_of, scaled, shards_of
from zyda_flows.tasks.stage.file_groups import most_text
from zyda_flows.tasks.stage.shared_files import planned_groups
from zyda_flows.tasks.stage.trees import jobs_of_tree, tree_cost
from zyda_flows.tasks.storage.folder import BLOCK_BYTES

CORPUS, PUBLISH = "corpus", "publish"
TABLES_OF_ALL = 3  # of clusters, of the overlap and of the audit
CHECKS_OF_FILE = 5  # requests for a file before it is published, beside those that read it
REQUESTS_TO_REMOVE = 3  # the record of a file is read and written, and the file is removed


def publish_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of writing the published files. A trial has a file for each shard."""
    assert isinstance(subject, Recipe)
    spent = workload.by_shard(name)
    calls, shards = sum(document_files(workload, subject).values()), max(1, spent.calls)
    files = round(spent.files * calls / shards)
    requests = max(0, spent.requests - spent.files + files)
    yield StageCost(name, replace(spent, calls=calls, files=files, requests=requests))


def document_files(workload: Workload, recipe: Recipe) -> dict[str, int]:
    """Return the number of published files of documents of each source, without folders of components."""
    return {
        name: len(planned_groups(source, recipe.published_mib)) for name, source in workload.sources.items()
    }


def largest_published(workload: Workload, recipe: Recipe, written: int) -> float:
    """Return the bytes of the largest published file. written: the bytes of all published files."""
    texts = [source.text for source in workload.sources.values()]
    return min(most_text(recipe.published_mib, max(texts)), max(texts)) * written / max(1.0, sum(texts))


def files_by_folder(workload: Workload, recipe: Recipe) -> dict[str, int]:
    """Return the number of published Parquet files of each folder, if each file has removed documents."""
    documents = document_files(workload, recipe)
    files = documents | {f"removed/{name}": count for name, count in documents.items()}
    ranges = len(key_ranges(remaining(workload)))
    for dedup_round in rounds_of(recipe):
        clustered = cluster_files(round(documents_of(workload)))
        files |= {dedup_round.name_of("clusters"): clustered, dedup_round.name_of("audit"): 1}
        if recipe.publish_bands:
            bands, place = dedup_round.dedup.key_bands, dedup_round.name_of("bands")
            files |= {f"{place}/{band:03d}": ranges for band in range(bands)}
    if recipe.passages:
        searched = (name for name in documents if not recipe.source(name).exempt)
        files |= {f"{PASSAGES}/{name}": documents[name] for name in searched}
    return files | vector_files(workload, recipe) | files_aside(workload, recipe)


def files_aside(workload: Workload, recipe: Recipe) -> dict[str, int]:
    """Return the most published files of rows set aside of each folder: each shard has such rows, but few."""
    return {
        f"set_aside/{name}": len(planned_groups(replace(source, text=0, documents=0), recipe.published_mib))
        for name, source in workload.sources.items()
        if recipe.on_bad_rows_of(recipe.source(name)) == "set_aside"
    }


def vector_files(workload: Workload, recipe: Recipe) -> dict[str, int]:
    """Return the number of published files of vectors of each folder."""
    return {
        f"{VECTORS}/{judge.name}/{name}": files
        for name, files in document_files(workload, recipe).items()
        for judge in recipe.judges_of(name)
        if judge.name in recipe.publish_vectors
    }


def corpus_cost(workload: Workload, recipe: Recipe) -> Iterable[StageCost]:
    """Return the cost of reading the files to publish, and of putting them in place."""
    tried, published = workload.tried(CORPUS), workload.tried(PUBLISH)
    by_size = workload.by_shard(PUBLISH).written / max(1, published.written)
    by_shards = shards_of(workload) / max(1, workload.tried_shards)
    keys = published_key_files(workload, recipe)
    tried_keys = sum(
        workload.tried(dedup_round.name_of(index.name)).calls for dedup_round in rounds_of(recipe)
    )
    tables = min(TABLES_OF_ALL, tried.calls - tried_keys)
    documents = sum(document_files(workload, recipe).values())
    by_files = by_shards * documents / max(1, shards_of(workload))
    keys += sum(vector_files(workload, recipe).values())
    calls = round((tried.calls - tried_keys - tables) * by_files) + keys + tables
    whole = scaled(tried, by_size)
    placed = calls - tried.calls
    requests = CHECKS_OF_FILE * calls + whole.read // BLOCK_BYTES + placed
    spent = replace(whole, calls=calls, files=placed, requests=requests)
    yield StageCost(CORPUS, spent + removing_copies(recipe, documents + keys))


def counts_cost(workload: Workload, recipe: Recipe) -> Iterable[StageCost]:
    """Return the cost of adding up the counts of published files by component, licence and language."""
    files = document_files(workload, recipe)
    counted = [name for name in files if recipe.source(name).component or count_columns(recipe, name)]
    return tree_cost(workload, COUNTS, sum(jobs_of_tree(files[name]) for name in counted))


def removing_copies(recipe: Recipe, files: int) -> Spent:
    """Return the cost of removing the work copies of published files from an object store."""
    if recipe.folder.is_local or recipe.work_copies:
        return Spent()
    return Spent(calls=files, files=-files, requests=REQUESTS_TO_REMOVE * files)
