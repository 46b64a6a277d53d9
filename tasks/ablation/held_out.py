"""Choose the held-out documents of an experiment, and find their near-duplicates among drawn documents."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import DRAWN, clusters_of_documents
from zyda_flows.tasks.ablation.drawing import Drawn
from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.records import HELD_OUT_RECORD
from zyda_flows.tasks.ablation.variants import OpenedVariant
from zyda_flows.tasks.storage.records import Record, read_record

LARGEST_SHARE = 10  # of the documents of a source, at most a document of so many is held out


class HeldOutSet(Record):
    """The hashes of the held-out documents of each source, which later preparations hold out again."""

    hashes: dict[str, tuple[int, ...]]


def held_out_set(
    experiment: Experiment, variants: Sequence[OpenedVariant], drawn: Mapping[int, Drawn]
) -> dict[str, pa.Table]:
    """Return the held-out documents by source: DRAWN, a document of each cluster.

    The stored set is held out again if all variants still publish all of it. Raises BadRecipe if no document can be
    held out.
    """
    stored = read_record(experiment.folder, HELD_OUT_RECORD, HeldOutSet)
    held_out = dict[str, pa.Table]()
    for source in dict.fromkeys(chain.from_iterable(found.candidates for found in drawn.values())):
        draws_with = [found for found in drawn.values() if source in found.candidates]
        wanted = np.array(stored.hashes.get(source, ()) if stored is not None else (), np.uint64)
        kept = [found.kept.get(source, DRAWN.empty_table()) for found in draws_with]
        if len(wanted) and all(np.isin(wanted, table.column("hash").to_numpy()).all() for table in kept):
            table = common(kept)
        else:
            table = common([found.candidates[source] for found in draws_with])
            table = table[: min(experiment.held_out, most_documents(variants, source))]
        clusters = clusters_of_documents(table)
        table = table.take(np.unique(clusters, return_index=True)[1])
        if len(table):
            held_out[source] = table.sort_by([("hash", "descending")])
    if not held_out:
        raise experiment.fault("held_out: no document is published by all variants", "held_out")
    return held_out


def common(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the documents that all tables have, each once, by descending hash."""
    hashes = tables[0].column("hash").to_numpy()
    is_common = np.logical_and.reduce([np.isin(hashes, table.column("hash").to_numpy()) for table in tables])
    places = np.unique(hashes, return_index=True)[1]
    return tables[0].take(places[is_common[places]][::-1])


def most_documents(variants: Sequence[OpenedVariant], source: str) -> int:
    """Return how many documents of a source are held out at most."""
    counts = [
        sum(file.rows for file in corpus.files(f"{source}/"))
        for variant in variants
        for corpus in variant.corpora
    ]
    return max(1, min(count for count in counts if count) // LARGEST_SHARE)


def near_held_out(held_out: Sequence[pa.Table], drawn: Mapping[int, Drawn]) -> NDArray[np.uint64]:
    """Return the hashes of drawn documents in a cluster with a held-out document."""
    tables = [
        table
        for found in {id(each): each for each in drawn.values()}.values()
        for table in found.parts.values()
    ]
    everything = pa.concat_tables([*held_out, *tables])
    clusters = clusters_of_documents(everything)
    number = sum(map(len, held_out))
    is_near = np.isin(clusters[number:], clusters[:number])
    return np.unique(everything.column("hash").to_numpy()[number:][is_near])
