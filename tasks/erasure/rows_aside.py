"""Find the rows set aside that a removal request matches: by their ids, and by their stored content."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from zyda_flows.tasks.documents.deny_list import DenyList, Request
from zyda_flows.tasks.documents.deny_rows import CONTENTS, RowJudge, parse_row_aside, request_for_row
from zyda_flows.tasks.erasure.in_shards import ingest_manifests
from zyda_flows.tasks.ids import first_id
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.quality.ingested import IngestFacts
from zyda_flows.tasks.signatures.letters import letters_in
from zyda_flows.tasks.sources.input_files import load_listing
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import tables_of

PART_BYTES = 48  # bytes of consecutive letters that identify a text: about ten words
LEAST_BYTES = (
    24  # bytes of letters; a text with fewer than PART_BYTES and at least LEAST_BYTES is searched as a whole
)


@dataclass(frozen=True)
class MatchedRow:
    """A row that a request matches. entry: an entry that matches its content; None if no content is stored."""

    doc_id: int
    source: str
    file: str
    row: int
    entry: Request | None


class TextParts:
    """Parts of texts, to find the texts in rows with truncated content."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.parts, self.wholes = set[bytes](), list[bytes]()
        for letters in map(bytes, letters_in(pa.array(texts, pa.large_string()))):
            places = [*range(0, len(letters) - PART_BYTES, PART_BYTES), max(0, len(letters) - PART_BYTES)]
            if len(letters) >= PART_BYTES:
                self.parts.update(letters[place : place + PART_BYTES] for place in places)
            elif len(letters) >= LEAST_BYTES:
                self.wholes.append(letters)

    def are_in(self, texts: Sequence[str]) -> bool:
        """Return whether a text of `texts` contains a part."""
        if not (self.parts or self.wholes):
            return False
        encoded = [text.encode(errors="replace") for text in texts]
        letters_of_texts = map(
            bytes, letters_in(pa.array(encoded, pa.large_binary()).cast(pa.large_string()))
        )
        return any(
            any(whole in letters for whole in self.wholes)
            or any(
                letters[place : place + PART_BYTES] in self.parts
                for place in range(len(letters) - PART_BYTES + 1)
            )
            for letters in letters_of_texts
        )


def rows_set_aside(
    folder: Folder, register: Register, ids: set[int], denied: DenyList, texts: Sequence[str]
) -> Iterator[MatchedRow]:
    """Yield the rows set aside with an id of `ids`, with a denied address or value, or with a part of a text."""
    judge, parts = RowJudge(denied), TextParts(texts)
    for source, table in tables_set_aside(folder):
        first_ids = first_ids_of_files(folder, register, source)
        contents = zip(*(table.column(name).to_pylist() for name in CONTENTS.names), strict=True)
        places = zip(table.column("file").to_pylist(), table.column("row").to_pylist(), strict=True)
        for (file, row), (content, columns) in zip(places, contents, strict=True):
            doc_id = first_ids[file] + row
            is_stored = bool(content or columns)
            if (
                doc_id in ids
                or judge.is_denied(content, columns)
                or (is_stored and parts.are_in(parse_row_aside(content, columns).texts))
            ):
                entry = request_for_row(content, columns) if is_stored else None
                yield MatchedRow(doc_id, source, file, row, entry)


def tables_set_aside(folder: Folder) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables of rows that ingest set aside, with their source; null for content that is not stored."""
    for manifest in ingest_manifests(folder):
        for artifact in manifest.facts_as(IngestFacts).set_aside:
            for table in tables_of(folder, artifact):
                for missing in [field for field in CONTENTS if field.name not in table.column_names]:
                    table = table.append_column(missing, pa.nulls(len(table), missing.type))
                yield str(manifest.source), table


def first_ids_of_files(folder: Folder, register: Register, source: str) -> dict[str, int]:
    """Return the doc_id of row 0 of each file of a source in the last build."""
    built, number = last_build(folder), register.sources[source]
    files = load_listing(folder, built.listings[source]) if built else ()
    return {file.url: first_id(number, file.number) for file in files}
