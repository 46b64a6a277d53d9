"""Find the documents that share a requested text with others, or of which it was cut.

A request by a text is for whole documents. With `passages`, a build also knows the parts of texts that documents
share: the regions of a document are the characters of its repeated passages and of its cuts.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.erasure.in_shards import Shard
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages.passages import CutFacts
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.recipe.passages import LEAST_CHARACTERS
from zyda_flows.tasks.signatures.letters import as_array, letters_in
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Artifact, Manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.storage.tables import read_table, tables_of

LEAST_LETTERS = LEAST_CHARACTERS  # a shorter text is part of many texts

Tables = tuple[Artifact, Artifact]  # PASSAGES and CUTS of a shard


def tables_of_shards(folder: Folder, shards: Sequence[Shard]) -> list[tuple[Shard, Tables]]:
    """Return the tables of the shards that took part in the last build's search for passages."""
    built = last_build(folder)
    paths = [path for path in built.manifests if path.startswith(f"{MANIFESTS}/passages-")] if built else []
    manifest = read_record(folder, paths[0], Manifest) if paths else None
    if manifest is None:
        return []
    facts = manifest.facts_as(CutFacts)
    if facts.cuts.keys() - facts.passages.keys():
        raise Denied(
            f"{folder.url}: the last build is of another version of this software; build the corpus again"
        )
    own = {source: [shard for shard in shards if shard.source == source] for source in facts.cuts}
    return [
        (shard, (passages, cuts))
        for source, tables in facts.cuts.items()
        for shard, passages, cuts in zip(own[source], facts.passages[source], tables, strict=True)
    ]


def with_texts_in_regions(
    folder: Folder, texts: Sequence[str], alike: bool, shard_tables: tuple[Shard, Tables]
) -> tuple[Shard, Ids]:
    """Return a shard and its documents with a region that contains one of `texts`: (n,) uint64, ascending.

    alike: compare letters (`tasks.signatures.letters`) instead of characters.
    """
    shard, tables = shard_tables
    wanted = {text for text in comparable(texts, alike=alike) if len(text) >= LEAST_LETTERS}
    regions, found = Regions(folder, tables), list[int]()
    if wanted and len(regions.ids):
        for table in tables_of(folder, shard.artifact, ["doc_id", "text"]):
            chosen = table.filter(pc.is_in(table.column("doc_id"), pa.array(regions.ids)))
            for doc_id, text in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
                own = comparable(regions.texts(doc_id, text), alike=alike)
                if any(part in region for region in own for part in wanted):
                    found.append(doc_id)
    return shard, np.array(found, np.uint64)


def comparable(texts: Sequence[str], *, alike: bool) -> list[bytes]:
    """Return texts in the form in which they are compared: their letters, or their characters."""
    return (
        [bytes(text) for text in letters_in(as_array(texts))] if alike else [text.encode() for text in texts]
    )


class Regions:
    """The regions of the documents of a shard. ids: of the documents, (n,) uint64."""

    def __init__(self, folder: Folder, tables: Tables) -> None:
        """Read PASSAGES and CUTS, which ascend by doc_id."""
        passages, cuts = tables
        columns = read_table(folder, passages, ["doc_id", "start", "end"]).columns
        self.passage_ids, self.starts, self.ends = (column.to_numpy() for column in columns)
        self.cuts = read_table(folder, cuts, ["doc_id", "cut_start", "cut_end"])
        self.cut_ids = self.cuts.column("doc_id").to_numpy()
        self.ids = np.union1d(self.passage_ids, self.cut_ids)

    def texts(self, doc_id: int, text: str) -> list[str]:
        """Return the texts of a document's regions; passages and cuts that overlap or touch are one region."""
        rows, cut_rows = (slice(*np.searchsorted(ids, np.array([doc_id, doc_id + 1], np.uint64)))
                          for ids in (self.passage_ids, self.cut_ids))  # fmt: skip
        data, merged = text.encode(), list[tuple[int, int]]()
        cuts = [
            (len(data[:start].decode()), len(data[:end].decode()))
            for row in self.cuts[cut_rows].to_pylist()
            for start, end in zip(row["cut_start"], row["cut_end"], strict=True)
        ]
        passages = zip(self.starts[rows].tolist(), self.ends[rows].tolist(), strict=True)
        for start, end in sorted([*passages, *cuts]):
            if merged and start <= merged[-1][1]:
                start, end = merged[-1][0], max(end, merged.pop()[1])
            merged.append((start, end))
        return [text[start:end] for start, end in merged]
