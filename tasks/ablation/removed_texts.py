"""A sample of removed documents with their texts, by what removed them.

The texts of documents that a later stage removed are in the work folder. Documents that a rule removed have no
stored text: the rows of their sources are read again, and the steps that change texts are run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.erasure.in_shards import ingested, texts_by_id
from zyda_flows.tasks.erasure.source_texts import chunks_with
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.samples import hashes_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.columns import as_one_array

COLUMNS = ["doc_id", "source", "stage", "reason"]


@dataclass(frozen=True)
class RemovedGroup:
    """Documents that a stage removed for a reason. ids, sources: of the sample. total: the number of documents."""

    stage: str
    reason: str
    ids: tuple[int, ...]
    sources: tuple[str, ...]
    total: int

    @property
    def name(self) -> str:
        return f"{self.stage}: {self.reason}"


def sampled_groups(corpus: PublishedCorpus, most: int, seed: int) -> list[RemovedGroup]:
    """Draw `most` documents of each stage and reason, with the smallest hashes of their ids and the seed."""
    drawn = dict[tuple[str, str], pa.Table]()
    totals = dict[tuple[str, str], int]()
    for table in corpus.tables("removed", COLUMNS):
        hashes = hashes_of(table.column("doc_id").to_numpy(), seed)
        table = table.select(COLUMNS).append_column("hash", pa.array(hashes))
        for part in table.group_by(["stage", "reason"]).aggregate([([], "count_all")]).to_pylist():
            key = part["stage"], part["reason"]
            rows = table.filter((pc.field("stage") == key[0]) & (pc.field("reason") == key[1]))
            totals[key] = totals.get(key, 0) + part["count_all"]
            together = pa.concat_tables(
                [*([drawn[key]] if key in drawn else []), rows], promote_options="permissive"
            )
            drawn[key] = together.sort_by([("hash", "ascending")])[:most]
    return [
        RemovedGroup(stage, reason, *columns_of(drawn[stage, reason]), total)
        for (stage, reason), total in sorted(totals.items())
    ]


def columns_of(sample: pa.Table) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the ids and the sources of sampled documents."""
    return tuple(sample.column("doc_id").to_pylist()), tuple(sample.column("source").to_pylist())


def texts_of_removed(
    recipe: Recipe, groups: Sequence[RemovedGroup], say: Callable[[str], object]
) -> dict[int, str]:
    """Return the texts of sampled documents, by id. Raises BadInput for a source that has changed."""
    wanted = np.unique(np.array([doc_id for group in groups for doc_id in group.ids], np.uint64))
    say("reading the texts of removed documents in the work folder")
    texts = texts_by_id(recipe.folder, wanted, ingested(recipe.folder))
    missing = [doc_id for doc_id in wanted.tolist() if not texts.get(doc_id)]  # "" if a rule removed it
    by_file = dict[tuple[int, int], list[int]]()
    for doc_id in missing:
        by_file.setdefault(split(doc_id)[:2], []).append(doc_id)
    if by_file:
        reader = DocumentReader.of(recipe)
        for number, ids in enumerate(by_file.values(), 1):
            say(f"reading removed documents in their sources, file {number:,} of {len(by_file):,}")
            texts |= texts_in_source(reader, ids)
    return texts


def texts_in_source(reader: DocumentReader, ids: Sequence[int]) -> dict[int, str]:
    """Read documents of a file as the build did. Raises BadInput if the file has changed or lacks a document."""
    source, file, _ = reader.file_of(ids[0])
    column, texts = reader.source_of(ids[0]).text, dict[int, str]()
    rows = {split(doc_id)[2]: doc_id for doc_id in ids}
    steps = tuple(step for step in plan_documents(reader.recipe, source).steps if step.changes_text)
    for chunk in chunks_with(reader, ids[0], {*rows}):
        places = [place for place, row in enumerate(chunk.rows.tolist()) if row in rows]
        if not places:
            continue
        table = chunk.table.take(places)
        read = as_one_array(table.column(column)).cast(pa.large_string())
        changed = (
            run_steps(DocumentPlan(steps=steps), read, table.drop_columns([column])).text if steps else read
        )
        names = [rows[row] for row in chunk.rows[places].tolist()]
        texts |= dict(zip(names, changed.to_pylist(), strict=True))
    if lost := [doc_id for doc_id in ids if doc_id not in texts]:
        row = split(lost[0])[2]
        raise BadInput(
            f"source {source}, file {file.url}, row {row}: the source has no document there any more"
        )
    return texts
