"""Compare the text that `passages` cut out of kept documents with kept text of the same lengths.

A cut span is compared with a random window of a kept document: both are read without what is before them. The
documents that own the kept copies, and the documents of the windows, are left out of the training.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.ablation.removed_texts import RemovedGroup
from zyda_flows.tasks.corpus.documents import rows_with
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.in_shards import ingested, texts_by_id
from zyda_flows.tasks.lookup.samples import hashes_of
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Manifest
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.storage.tables import read_table

STAGE, REASON = "passages", "cut text"
LEAST_BYTES = 50  # of a compared span
SPARE = 4  # times the spans of a source, kept documents are read for windows


@dataclass
class CutTexts:
    """Cut spans and windows of kept documents by source, and texts to leave out of the training.

    total: kept documents that are cut. spans, windows: texts.
    """

    total: int = 0
    spans: dict[str, list[str]] = field(default_factory=dict)
    windows: dict[str, list[str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def group(self) -> RemovedGroup:
        sources = tuple(source for source, texts in self.spans.items() for _ in texts)
        return RemovedGroup(STAGE, REASON, (), sources, self.total)


def cut_texts(corpus: PublishedCorpus, most: int, seed: int) -> CutTexts | None:
    """Draw a span of each of at most `most` cut documents, by hashes of their ids; None if nothing is cut."""
    found, drawn = CutTexts(), list[pa.Table]()
    for source, table in cuts_of(corpus):
        found.total += len(table)
        hashes = hashes_of(table.column("doc_id").to_numpy(), seed)
        names = pa.array([source] * len(table))
        table = table.append_column("source", names).append_column("hash", pa.array(hashes))
        drawn = [pa.concat_tables([*drawn, table]).sort_by("hash")[:most]]
    if not found.total:
        return None
    rows = drawn[0].sort_by("doc_id")
    ids = rows.column("doc_id").to_numpy()
    texts = texts_by_id(corpus.root, ids, ingested(corpus.root))
    chance = np.random.default_rng(seed)
    for row in rows.to_pylist():
        data = texts.get(row["doc_id"], "").encode()
        spans = [
            (start, end) for start, end in zip(row["cut_start"], row["cut_end"], strict=True)
            if end - start >= LEAST_BYTES
        ]  # fmt: skip
        if data and spans:
            start, end = spans[chance.integers(len(spans))]
            found.spans.setdefault(row["source"], []).append(data[start:end].decode())
    found.left_out += texts_of_owners(corpus, ids.tolist())
    for source, own in found.spans.items():
        found.windows[source], read = windows_of(corpus, source, [len(span) for span in own], seed)
        found.left_out += read
    return found


def cuts_of(corpus: PublishedCorpus) -> Iterator[tuple[str, pa.Table]]:
    """Yield the cuts of kept documents, with the name of their source."""
    build = last_build(corpus.root)
    for path in build.manifests if build else ():
        if not path.startswith(f"{MANIFESTS}/cuts-"):
            continue
        manifest = read_record(corpus.root, path, Manifest)
        if manifest is None or manifest.source is None:
            continue
        for shard in manifest.artifacts:
            table = read_table(corpus.root, shard)
            is_kept = pc.is_null(table.column("reason"))
            rows = table.filter(pc.and_(is_kept, pc.greater(pc.list_value_length(table["cut_start"]), 0)))
            yield manifest.source, rows.select(["doc_id", "cut_start", "cut_end"])


def texts_of_owners(corpus: PublishedCorpus, ids: list[int]) -> list[str]:
    """Return the published texts of the documents with the kept copies of passages of documents."""
    owners = rows_with(corpus, corpus.files("passages/"), "doc_id", ids, ["doc_id", "owner_id"])
    if not len(owners):
        return []
    wanted = pc.unique(owners.column("owner_id")).to_pylist()
    texts = list[str]()
    for source in corpus.manifest.ledger.sources:
        rows = rows_with(corpus, corpus.files(f"{source}/"), "doc_id", wanted, ["doc_id", "text"])
        texts += rows.column("text").to_pylist() if len(rows) else []
    return texts


def windows_of(
    corpus: PublishedCorpus, source: str, lengths: list[int], seed: int
) -> tuple[list[str], list[str]]:
    """Return a window of a kept document for each length, in characters, and the texts of these documents.

    A window begins after a space, or at the begin of a text.
    """
    pool = pa.table({"text": pa.array([], pa.large_string()), "hash": pa.array([], pa.uint64())})
    for table in corpus.row_groups(source, ["doc_id", "text"]):
        hashes = pa.array(hashes_of(table.column("doc_id").to_numpy(), seed))
        rows = pa.table({"text": table.column("text").cast(pa.large_string()), "hash": hashes})
        pool = pa.concat_tables([pool, rows]).sort_by("hash")[: SPARE * len(lengths)]
    texts = sorted(pool.column("text").to_pylist(), key=len)
    chance, windows, read = np.random.default_rng(seed), list[str](), list[str]()
    for length in sorted(lengths, reverse=True):  # the longest documents are for the longest spans
        if not texts or len(texts[-1]) < length:
            continue
        longer = next(place for place, text in enumerate(texts) if len(text) >= length)
        text = texts.pop(int(chance.integers(longer, len(texts))))
        start = text.find(" ", int(chance.integers(len(text) - length + 1))) + 1
        windows.append(text[min(start, len(text) - length) :][:length])
        read.append(text)
    return windows, read
