"""The cost of the statistics of documents, clusters, passages and judges, which are counted for the report."""

from collections.abc import Iterable

from zyda_flows.tasks.dedup.cluster_files import FILE_DOCUMENTS
from zyda_flows.tasks.dedup.costs import cluster_files
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import MOST_FILES, gathering_jobs
from zyda_flows.tasks.lookup.cluster_counting import STATS
from zyda_flows.tasks.lookup.document_counting import STATS as DOCUMENT_STATS
from zyda_flows.tasks.lookup.judge_counting import STATS as JUDGE_STATS
from zyda_flows.tasks.lookup.new_words import STATS as NEW_WORDS
from zyda_flows.tasks.lookup.passage_stats import STATS as PASSAGE_STATS
from zyda_flows.tasks.publish.costs import document_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import AT_MOST, MEMORY_OF_WORKER, USUALLY, StageCost, Workload, documents_of
from zyda_flows.tasks.stage.trees import jobs_of_tree

SECONDS_OF_COUNTED = 0.7e-6  # of a core, for a clustered document of four sources
BYTES_OF_COUNTED = 60  # of memory, for a clustered document of a file
BYTES_OF_ROW, BYTES_SENT = 22, 14  # of a clustered document in a file of clusters, and sent to a part
READINGS = 3  # of each file of clusters
REQUESTS_OF_FILE = 4
BYTES_FOR_PASSAGE = (
    1_000  # of text, for a published passage of a part; 340 to 1,350 of technical documentation
)
SECONDS_OF_PASSAGE, BYTES_OF_PASSAGE = 4.7e-6, 17  # of a core; in a published file
BYTES_OF_LISTED = 400  # of memory, for a passage of a row group
ROW_GROUP = 1 << 20
SECONDS_OF_DOCUMENT, BYTES_OF_DOCUMENT = 0.4e-6, 3  # of a core; tokens and label in a published file
SECONDS_OF_LABEL = 0.5e-6  # of a core, for a labelled document in a cluster
SECONDS_OF_PAIR, BYTES_OF_SCORE = 0.6e-6, 5  # of a core, for a document and two judges; in a published file


def statistics_cost(workload: Workload, recipe: Recipe) -> Iterable[StageCost]:
    """Return the cost of counting documents, the clusters of all rounds, passages, and the decisions of judges."""
    yield documents_cost(workload, recipe)
    if any(isinstance(each, SemanticRound) for each in recipe.rounds):
        yield new_words_cost(workload, recipe)
    if recipe.passages:
        yield passages_cost(workload, recipe)
    if recipe.all_judges:
        yield judges_cost(workload, recipe)
    rows = round(documents_of(workload))
    files, clustered = cluster_files(rows), round(rows * USUALLY)
    parts = len(Naming.for_rows(clustered).numbers)
    calls = READINGS * files + parts + jobs_of_tree(files + parts) + jobs_of_tree(files)
    for _ in recipe.rounds:
        spent = Spent(
            calls=calls,
            cpu=clustered * SECONDS_OF_COUNTED,
            peak=MEMORY_OF_WORKER + min(clustered, FILE_DOCUMENTS) * BYTES_OF_COUNTED,
            read=clustered * (READINGS * BYTES_OF_ROW + BYTES_SENT),
            written=clustered * BYTES_SENT,
            requests=REQUESTS_OF_FILE * (READINGS * files + files * parts),
            files=2 * calls,
        )
        yield StageCost(STATS, spent, rows * AT_MOST * SECONDS_OF_COUNTED)


def passages_cost(workload: Workload, recipe: Recipe) -> StageCost:
    searched = [size for source, size in workload.sources.items() if not recipe.source(source).exempt]
    files = sum(len(size.shards) for size in searched)
    text = round(sum(size.text * size.kept for size in searched))
    rows = len(recipe.passages) * text // BYTES_FOR_PASSAGE
    calls = files + jobs_of_tree(files)
    spent = Spent(
        calls=calls,
        cpu=rows * SECONDS_OF_PASSAGE,
        peak=MEMORY_OF_WORKER + min(rows, ROW_GROUP) * BYTES_OF_LISTED,
        read=rows * BYTES_OF_PASSAGE,
        requests=REQUESTS_OF_FILE * calls,
        files=2 * calls,
    )
    return StageCost(PASSAGE_STATS, spent)


def judges_cost(workload: Workload, recipe: Recipe) -> StageCost:
    """Return the cost of the statistics of judges, if each published file has removed documents."""
    judges = {source: len(recipe.judges_of(source)) for source in workload.sources}
    published = document_files(workload, recipe)
    files = sum(2 * published[source] for source, count in judges.items() if count)
    documents = {source: size.documents for source, size in workload.sources.items()}
    calls = files + jobs_of_tree(files)
    spent = Spent(
        calls=calls,
        cpu=sum(documents[source] * count * count / 2 for source, count in judges.items()) * SECONDS_OF_PAIR,
        peak=MEMORY_OF_WORKER,
        read=round(sum(documents[source] * count for source, count in judges.items()) * BYTES_OF_SCORE),
        requests=REQUESTS_OF_FILE * calls,
        files=2 * calls,
    )
    return StageCost(JUDGE_STATS, spent)


def documents_cost(workload: Workload, recipe: Recipe) -> StageCost:
    """Return the cost of counting lengths, labels and rules, if each published file has removed documents."""
    published, rows = document_files(workload, recipe), round(documents_of(workload))
    files = sum(published.values()) * (2 if recipe.has_steps else 1)
    labelled = [name for name in workload.sources if recipe.source(name).classify]
    sending = sum(published[name] for name in labelled)
    clustered = round(sum(workload.sources[name].documents for name in labelled) * USUALLY)
    names = Naming.for_rows(round(sum(workload.sources[name].documents for name in labelled)))
    parts = len(names.numbers) if labelled else 0
    calls = (
        files + jobs_of_tree(files) + sending + gathering_jobs(sending, parts) + parts + jobs_of_tree(parts)
    )
    spent = Spent(
        calls=calls,
        cpu=rows * SECONDS_OF_DOCUMENT + clustered * SECONDS_OF_LABEL,
        peak=MEMORY_OF_WORKER + min(clustered, FILE_DOCUMENTS) * BYTES_OF_COUNTED,
        read=rows * BYTES_OF_DOCUMENT + clustered * 2 * BYTES_SENT,
        written=clustered * BYTES_SENT,
        requests=REQUESTS_OF_FILE * (calls + min(sending, MOST_FILES) * parts),
        files=2 * calls,
    )
    return StageCost(DOCUMENT_STATS, spent)


def new_words_cost(workload: Workload, recipe: Recipe) -> StageCost:
    """Return the cost of listing the documents with the most new words that each semantic round removed."""
    rounds = sum(isinstance(each, SemanticRound) for each in recipe.rounds)
    files, rows = sum(document_files(workload, recipe).values()), round(documents_of(workload))
    calls = rounds * (files + jobs_of_tree(files))
    spent = Spent(
        calls=calls,
        cpu=rounds * rows * SECONDS_OF_DOCUMENT,
        peak=MEMORY_OF_WORKER,
        read=rounds * rows * BYTES_OF_DOCUMENT,
        requests=REQUESTS_OF_FILE * calls,
        files=2 * calls,
    )
    return StageCost(NEW_WORDS, spent)
