"""The columns that every document of every source has from ingest on."""

import pyarrow as pa

DOCUMENT_COUNTS = pa.schema(
    [("doc_id", pa.uint64()), ("n_tokens", pa.uint32()), ("n_bytes", pa.uint32())]
)  # fmt: skip
