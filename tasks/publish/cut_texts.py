"""Cut the repeated passages from the texts of a shard, as `tasks.passages` decided."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.passages.cutting import without_spans
from zyda_flows.tasks.passages.spans import Spans
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.stage.verdicts import REASON, ShardHistory
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table
from zyda_flows.textkernels.buffers import text_buffers


def load_cuts(folder: Folder, history: ShardHistory) -> pa.Table | None:
    """Read CUTS of the kept documents of a shard; None if nothing is cut."""
    for output in history.outputs:
        if output.artifact.cut.bytes:
            table = read_table(folder, output.artifact)
            return table.filter(pc.is_null(table.column(REASON.name)))
    return None


def with_cut_counts(documents: pa.Table, cuts: pa.Table | None) -> pa.Table:
    """Return documents with the counts of their cut texts. Both ascend by doc_id."""
    if cuts is None:
        return documents
    ids, cut_ids = documents.column("doc_id").to_numpy(), cuts.column("doc_id").to_numpy()
    is_cut = np.isin(ids, cut_ids, assume_unique=True)
    rows = np.isin(cut_ids, ids, assume_unique=True)
    for name, left in (("n_tokens", "tokens_left"), ("n_bytes", "bytes_left")):
        counts = documents.column(name).to_numpy().copy()
        counts[is_cut] = cuts.column(left).to_numpy()[rows]
        documents = documents.set_column(documents.schema.get_field_index(name), name, pa.array(counts))
    return documents


def with_cut_texts(documents: pa.Table, cuts: pa.Table | None) -> pa.Table:
    """Return documents without the passages that are cut. Both ascend by doc_id."""
    if cuts is None:
        return documents
    ids = documents.column("doc_id").to_numpy()
    chosen = cuts.filter(pa.array(np.isin(cuts.column("doc_id").to_numpy(), ids, assume_unique=True)))
    if not len(chosen):
        return documents
    texts = as_one_array(documents.column("text"))
    offsets = text_buffers(texts)[1]
    starts = offsets[np.searchsorted(ids, chosen.column("doc_id").to_numpy())] - offsets[0]
    bases = np.repeat(starts, pc.list_value_length(chosen.column("cut_start")).to_numpy())
    begins, ends = (
        pc.list_flatten(chosen.column(name)).to_numpy().astype(np.int64) + bases
        for name in ("cut_start", "cut_end")
    )
    cut_texts = without_spans(texts, Spans(begins, ends))
    return documents.set_column(documents.schema.get_field_index("text"), "text", cut_texts)
