"""Divide the kept documents of shards by the folders of their components, so that each shard is read once.

The rows are kept in a local file of Arrow, in the order of the shards; each of its batches is of a single folder.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.stage.verdicts import ShardHistory

COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

ReadRows = Callable[[ShardHistory, Ids], Iterator[pa.Table]]  # tables of one schema


def divide_rows(
    kept: Mapping[ShardHistory, Mapping[str, Ids]], read: ReadRows, scratch: Path
) -> dict[str, Iterator[pa.Table]]:
    """Return the rows of each folder, which are read from `scratch`.

    kept: the kept documents of each shard by folder, (n,) each, ascending; shards ascend by their documents.
    read: reads the rows of documents of a shard. scratch: the path of a new file.
    """
    numbers, writer, batches = dict[str, list[int]](), None, 0
    for history, by_folder in kept.items():
        if not by_folder:
            continue
        folders, ids = [*by_folder], np.concatenate([*by_folder.values()])
        place = np.repeat(np.arange(len(folders)), [len(own) for own in by_folder.values()])
        order = np.argsort(ids)
        ids, place = ids[order], place[order]
        for table in read(history, ids):
            writer = writer or pa.ipc.new_file(str(scratch), table.schema, options=COMPRESSED)
            places = place[np.searchsorted(ids, table.column("doc_id").to_numpy())]
            for number in np.unique(places).tolist():
                for batch in table.filter(pa.array(places == number)).combine_chunks().to_batches():
                    writer.write_batch(batch)
                    numbers.setdefault(folders[number], []).append(batches)
                    batches += 1
    if writer is None:
        return {}
    writer.close()
    return {folder: batches_of(scratch, own) for folder, own in numbers.items()}


def batches_of(path: Path, numbers: list[int]) -> Iterator[pa.Table]:
    """Read some batches of a file of Arrow, each as a table."""
    with pa.memory_map(str(path)) as mapped:
        reader = pa.ipc.open_file(mapped)
        for number in numbers:
            yield pa.Table.from_batches([reader.get_batch(number)])
