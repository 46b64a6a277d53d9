"""Agreement: how much the scores of near-duplicates differ, by the size of their cluster.

The scores exist before deduplication: of judges with `at: ingest`, and the columns of the recipe's
`agreement`. Judges after deduplication do not read the removed documents of a cluster.

Rows out: AGREEMENT, for each score and each range of cluster sizes between powers of two.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.agreed import AGREEMENT
from zyda_flows.tasks.dedup.cluster_files import shards_by_file
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import gather_files, with_common_shift
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.labels.agreement_jobs import (
    STAGE,
    STATISTICS,
    VERSION,
    AgreementOfPart,
    GatheredRanges,
    RangesOfFile,
    Threshold,
)
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.ingested import read_columns, read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.cost import ONCE
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Manifest,
    Receipt,
    artifact_path,
    load_manifest,
    stage_key,
)
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.tables import read_table, write_table

MOST_OF_JUDGE = 8  # scores: of a judge with more labels, only the probability of its answer is compared
ROWS_OF_SCORE = 4  # for which a part needs the memory of a document's name


def is_measured(dedup_round: Round, _: str) -> bool:
    recipe = dedup_round.recipe
    return bool(recipe.agreement) or any(judge.at == "ingest" for judge in recipe.all_judges)


def columns_of(recipe: Recipe, trails: Sequence[Trail]) -> tuple[str, ...]:
    """Return the names of the scores: of the recipe's `agreement`, and of judges before deduplication."""
    names = [*recipe.agreement]
    for trail in trails:
        early = {judge.name for judge in recipe.judges_of(trail.source) if judge.at == "ingest"}
        for model in read_ingest_facts(recipe.folder, trail).models:
            if model.judge in early:
                scores = [field.name for field in model.added_columns if pa.types.is_floating(field.type)]
                names += scores if len(scores) <= MOST_OF_JUDGE else answers_of(model)
    return tuple(dict.fromkeys(names))


def answers_of(model: Model) -> Iterator[str]:
    """Yield a column of each head of a model: the score, or the probability of the answer."""
    for head in model.heads:
        yield f"{head.prefix(model.judge)}_{'prob' if head.labels else 'score'}"


def comparisons_of(recipe: Recipe, column: str) -> list[tuple[str, str]]:
    """Return the operators and numbers with which `keep` after deduplication compares a score, each once."""
    # The clusters lack the documents that a judge before deduplication removes.
    judges = [judge for source in recipe.sources for judge in recipe.judges_of(source.name)]
    keeps = [judge.keep for judge in judges if judge.at == "after_dedup"]
    keeps += [source.keep for source in recipe.sources]
    from zyda_flows.tasks.quality.keep_alone import comparison_in  # late: sqlglot

    compared = (comparison_in(keep) for keep in keeps if keep)
    return [*dict.fromkeys(each[1:] for each in compared if each and each[0] == column)]


def types_of(recipe: Recipe, trails: Sequence[Trail], column: str) -> set[pa.DataType]:
    """Return the types of a score in the sources that have it."""
    schemas = [read_columns(recipe.folder, trail) for trail in trails]
    models = [model for trail in trails for model in read_ingest_facts(recipe.folder, trail).models]
    fields = [*chain.from_iterable(schemas), *(field for model in models for field in model.added_columns)]
    return {field.type for field in fields if field.name == column}


def threshold_of(comparisons: Sequence[tuple[str, str]], types: set[pa.DataType]) -> Threshold | None:
    """Return the threshold of the only comparison; None if there are none or several. types: of the score."""
    if len(comparisons) != 1:
        return None
    ((operator, number),) = comparisons
    value = np.float32(number) if types == {pa.float32()} else float(number)  # as `keep` compares them
    return Threshold(float(value), operator in (">=", "<"))


def key(
    dedup_round: Round, trails: list[Trail], clusters_receipt: Receipt, sources: Sequence[SourcePlan]
) -> str:
    recipe, identities = dedup_round.recipe, [identity for trail in trails for identity in trail.identities]
    columns = columns_of(recipe, trails)
    params = [[name, comparisons_of(recipe, name)] for name in columns]
    return stage_key(STAGE, VERSION, params, *identities, clusters_receipt.identity)


@stage(
    STAGE,
    key,
    scope="corpus",
    inputs=("trails", "clusters", "sources"),
    enabled=is_measured,
    published_as=STAGE,
    cost=ONCE,
)
def agreement(
    dedup_round: Round, trails: list[Trail], clusters_receipt: Receipt, sources: Sequence[SourcePlan]
) -> Manifest:
    """Measure the agreement of scores in all clusters."""
    recipe, folder = dedup_round.recipe, dedup_round.folder
    run = partial(fan_out, Job.__call__, stage=dedup_round.name_of(STAGE), source=None)
    columns = columns_of(recipe, trails)
    comparisons = [comparisons_of(recipe, name) for name in columns]
    files = load_manifest(folder, clusters_receipt).artifacts
    naming = Naming.for_rows(ROWS_OF_SCORE * len(columns) * sum(file.rows for file in files))
    histories, schemas = {}, {}
    for trail in trails:
        names = {*columns, *DOCUMENT_COUNTS.names}
        ingested = read_ingest_facts(folder, trail).columns
        schema = pa.schema([field for field in ingested if field.name in names])
        for history in load_histories(folder, trail):
            histories[history.shard.path], schemas[history.shard.path] = history, schema
    jobs = [
        RangesOfFile(
            folder=folder, source=None, naming=naming, part=number, clusters=file, columns=columns,
            histories=tuple(histories[shard.path] for shard in shards),
            schemas=tuple(schemas[shard.path] for shard in shards),
        )
        for number, (file, shards) in enumerate(
            zip(files, shards_by_file(folder, trails, sources), strict=True)
        )
    ]  # fmt: skip
    parts = naming.numbers
    ranges = gather_files(jobs[0], run(with_common_shift(jobs, len(parts))), len(parts), run, GatheredRanges)
    types = [types_of(recipe, trails, name) for name in columns]
    thresholds = tuple(map(threshold_of, comparisons, types))
    made: list[Artifact] = run(
        [
            AgreementOfPart(
                folder=folder, source=None, naming=naming, part=number, shared_files=ranges.files(number),
                thresholds=thresholds,
            )
            for number in parts
        ]
    )  # fmt: skip
    statistics = pa.concat_tables([STATISTICS.empty_table(), *(read_table(folder, each) for each in made)])
    rows = list[dict[str, object]]()
    for number, name in enumerate(columns):
        rows += rows_of(statistics.filter(pc.field("column") == number), name, comparisons[number])
    path = artifact_path(STAGE, None, "all", key(dedup_round, trails, clusters_receipt, sources))
    table = pa.Table.from_pylist(rows, AGREEMENT)
    return Manifest(
        stage=STAGE,
        artifacts=(write_table(folder, path, "all", table),),
        intermediate=tuple(artifact.path for artifact in made),
    )


def rows_of(
    statistics: pa.Table, column: str, comparisons: Sequence[tuple[str, str]]
) -> Iterator[dict[str, object]]:
    """Yield a row of AGREEMENT for each size of clusters. statistics: of a score, from all parts."""
    for doublings in np.unique(statistics.column("doublings").to_numpy()).tolist():
        rows = statistics.filter(pc.field("doublings") == doublings).to_pylist()
        widest = min(rows, key=lambda row: (-row["spread"], row["cluster"]))
        clusters = sum(row["clusters"] for row in rows)
        yield {
            "column": column,
            "from_size": (1 << doublings - 1) + 1 if doublings > 1 else 2,
            "to_size": 1 << doublings,
            "clusters": clusters,
            "mean_spread": sum(row["spreads"] for row in rows) / clusters,
            "threshold": " ".join((column, *comparisons[0])) if len(comparisons) == 1 else None,
            "both_sides": sum(row["both_sides"] for row in rows) if len(comparisons) == 1 else None,
            "largest_spread": widest["spread"],
            "cluster_id": widest["cluster"],
            "low": widest["low"],
            "low_doc_id": widest["low_id"],
            "high": widest["high"],
            "high_doc_id": widest["high_id"],
        }
