"""Read the text of a document: the published text, or the ingested text, or the text of its source."""

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from zyda_flows.tasks.corpus.documents import published_row
from zyda_flows.tasks.errors import Damaged, ZydaError
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Manifest
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.storage.tables import rows_of


def text_of(reader: DocumentReader, doc_id: int) -> str:
    """Return a document's text: the published text, or else the ingested text, or else the text of its source."""
    try:
        if len(published := published_row(reader.corpus, doc_id)):
            return str(published.column("text")[0])
        return text_ingested(reader, doc_id) or reader.text(doc_id)
    except ZydaError as error:
        return f"(the text cannot be read: {error})"


def text_ingested(reader: DocumentReader, doc_id: int) -> str:
    """Return a document's text from the work folder; "" if it is missing there or damaged."""
    return next((str(rows.column("text")[0]) for rows in rows_in_work(reader, "ingest", doc_id)), "")


def rows_in_work(reader: DocumentReader, stage: str, doc_id: int) -> Iterator[pa.Table]:
    """Yield the rows that a stage of the last build wrote for a document, without tables that are damaged."""
    folder, build = reader.corpus.root, last_build(reader.corpus.root)
    source, number = reader.file_of(doc_id)[0], split(doc_id)[1]
    for path in build.manifests if build else ():
        if path.startswith(f"{MANIFESTS}/{stage}-{source}-"):
            with suppress(Damaged):
                manifest = read_record(folder, path, Manifest)
                for shard in manifest.artifacts if manifest else ():
                    if numbers_in_name(shard)[0] == number and len(
                        rows := rows_of(folder, shard, doc_id, doc_id)
                    ):
                        yield rows
