"""Trace a token, sequence or sample of a mixture back to its document: source, file, row and text."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.documents import published_texts
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.mixing.gathering import ORIGINS, MixedFile, Output
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE, MixtureManifest
from zyda_flows.tasks.mixing.steps import Prefix, Samples
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

MOST_NAMED = 8  # files that an error lists
VERSIONED = re.compile(r"(?:^|/)([0-9a-f]{12})/megatron/[^/]+$")  # the folder names of `Mixing.place`


class TracedPiece(Record):
    """A piece of a document in an output file of a mixture.

    output: name of the output file. start: its first token in that file. tokens: number of tokens. sequence: number
    of the sequence in the file. offset: first token in the document. file, row: position in the source; None if the
    text is not looked up. files: the `files` of the source in the recipe, because `file` is relative to the folder
    that they have in common.
    """

    output: str
    start: int
    tokens: int
    sequence: int
    doc_id: int
    corpus: str
    source: str
    part: str
    copy_number: int
    offset: int
    file: str | None = None
    files: tuple[str, ...] = ()
    row: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class MixtureTracer:
    """Traces positions in a written mixture. folder: the folder of the version of the mixture."""

    folder: Folder
    mixed: MixtureManifest

    @classmethod
    def at(cls, url: str) -> "MixtureTracer":
        """Open the mixture, or the version of a mixture, at a URL. Raises Denied if it has no valid manifest."""
        folder = Folder(url.removesuffix(f"/{MIXTURE}"))
        try:
            content = folder.read_if_there(MIXTURE)
        except Denied as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                raise
            content = None
        if content is None:
            raise Denied(f"{folder.url}: no mixture is there: there is no {MIXTURE}; zyda mix makes it")
        try:
            mixed = MixtureManifest.model_validate_json(content)
        except ValueError as error:
            raise Denied(f"{folder.url}/{MIXTURE} is cut or changed, or of another version") from error
        at = folder if not folder.exists(mixed.place) else folder.folder(mixed.place)
        return cls(at, mixed)

    @cached_property
    def outputs(self) -> list[Output]:
        if not self.mixed.outputs:
            raise BadInput("this mixture has text alone, and no tokens to trace")
        return list(self.mixed.outputs)

    def outputs_named(self, name: str | None) -> list[Output]:
        """Return the output file of this name, or all files for None. Raises BadInput for an unknown name."""
        outputs = [output for output in self.outputs if name in (None, output.name)]
        if not outputs:
            more = ", ..." * (len(self.outputs) > MOST_NAMED)
            names = ", ".join(output.name for output in self.outputs[:MOST_NAMED])
            raise BadInput(f"--file {name}: this mixture has the files {names}{more}")
        return outputs

    def output(self, name: str | None, token: int) -> tuple[Output, int]:
        """Return the output file of a token, and the position of the token in that file.

        token: position in the file `name`, or in all files in order for None. Raises BadInput if out of range.
        """
        if name is not None:
            (output,) = self.outputs_named(name)
            if not 0 <= token < output.tokens:
                raise BadInput(f"{name} has the tokens 0 to {output.tokens - 1:,}, and not {token:,}")
            return output, token
        position = token
        for output in self.outputs:
            if 0 <= position < output.tokens:
                return output, position
            position -= output.tokens
        raise BadInput(f"there are the tokens 0 to {self.mixed.tokens - 1:,}, and not {token:,}")

    def by_sequence(self, name: str | None, sequence: int) -> tuple[Output, int, int]:
        """Return the output file of a sequence, the first token of the sequence in it, and the end (exclusive).

        sequence: number in the file `name`, or in all files for None. Raises BadInput if out of range.
        """
        number, outputs = sequence, self.outputs_named(name)
        for output in outputs:
            if 0 <= number < output.sequences:
                rows = self.rows(output, "sequence", number, number + 1)
                first = int(rows.column("start")[0].as_py())
                size = self.mixed.mixture.get("packed") or int(pc.sum(rows.column("tokens")).as_py())
                return output, first if not self.mixed.mixture.get("packed") else number * size, first + size
            number -= output.sequences
        raise BadInput(
            f"there are the sequences 0 to {sum(file.sequences for file in outputs) - 1:,}, and not {sequence:,}"
        )

    def rows(self, output: Output, column: str, first: int, end: int) -> pa.Table:
        """Return the pieces of a file that overlap the range from `first` to `end` (exclusive).

        column: "start" for a range of tokens, "sequence" for a range of sequences.
        """
        minima_by_group, place = self.groups(output), ORIGINS.names.index(column)
        lows = [minima[place] for minima in minima_by_group] + [1 << 63]
        groups = [i for i in range(len(minima_by_group)) if lows[i] < end and lows[i + 1] >= first]
        table = pa.concat_tables([ORIGINS.empty_table(), *(self.group(output, i) for i in groups)])
        starts = table.column(column).to_numpy().astype(np.int64)
        ends = starts + (table.column("tokens").to_numpy() if column == "start" else 1)
        return table.filter(pa.array((starts < end) & (ends > first)))

    def groups(self, output: Output) -> list[list[int]]:
        """Return the smallest value of each column in each row group of a file's origins."""
        if output.name not in self._groups:
            with self.origins(output) as parquet:
                groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
                columns = range(len(ORIGINS.names))
                self._groups[output.name] = [[of.column(c).statistics.min for c in columns] for of in groups]
        return self._groups[output.name]

    def group(self, output: Output, number: int) -> pa.Table:
        """Return a row group of a file's origins. The last used groups are cached."""
        if (output.name, number) not in self._row_groups:
            with self.origins(output) as parquet:
                self._row_groups[output.name, number] = parquet.read_row_group(number).cast(ORIGINS)
        return self._row_groups[output.name, number]

    @contextmanager
    def origins(self, output: Output) -> Iterator[pq.ParquetFile]:
        """Open the Parquet file with the origins of a file's pieces. Raises Denied if it is missing or changed."""
        with self.open_parquet(next(file for file in output.files if "/origins/" in file.path)) as parquet:
            yield parquet

    @contextmanager
    def open_parquet(self, file: MixedFile) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file of the mixture. Raises Denied if it is missing or changed."""
        path = file.path.partition("/")[2]
        if self.folder.size_of(path) != file.size:
            raise Denied(f"{self.folder.url}/{path} is missing, or has another size than was written")
        with self.folder.open(path) as stream:
            try:
                yield pq.ParquetFile(stream, page_checksum_verification=True)
            except (pa.ArrowException, OSError) as error:
                raise Denied(f"{self.folder.url}/{path} cannot be read: it is cut or changed") from error

    def sample_pieces(self, samples: Samples, sample: int) -> Iterator[tuple[Output, int, int]]:
        """Yield the pieces of a trainer's sample: output file, first token, and end (exclusive)."""
        for piece in samples.pieces(sample):
            output = self.output_of_prefix(piece.prefix)
            _, first, end = self.by_sequence(output.name, piece.document)
            start = first + piece.first
            yield output, start, end if piece.tokens is None else min(end, start + piece.tokens)

    def output_of_prefix(self, prefix: Prefix) -> Output:
        """Return the output file of a trainer's index files. Raises Denied if they are of another mixture.

        The path contains the name of the version, a hash that determines all bytes of its files. The lengths of the
        sequences show whether the index files are older than the files under that path.
        """
        if prefix.beginning not in self._output_of_prefix:
            output = next(
                (candidate for candidate in self.outputs if candidate.name == prefix.path.rpartition("/")[2]),
                None,
            )
            if output is None:
                raise Denied(f"the run has read {prefix.path}, which is no file of this mixture")
            lengths = self.lengths(output)
            self.check_version(prefix, output, is_enough=np.unique(lengths).size > 1)
            prefix.check(lengths)
            self._output_of_prefix[prefix.beginning] = output
        return self._output_of_prefix[prefix.beginning]

    def check_version(self, prefix: Prefix, output: Output, *, is_enough: bool) -> None:
        """Raise Denied if a trainer's path is of another version, or if its version cannot be determined.

        is_enough: whether the lengths of sequences distinguish mixtures.
        """
        version = VERSIONED.search(prefix.path)
        if version and version[1] != self.mixed.place:
            raise Denied(
                f"the run has read version {version[1]} of a mixture ({prefix.path}), and this is version "
                f"{self.mixed.place}; trace the folder of that version"
            )
        if version:
            return
        recorded = {file.path.rpartition("/")[2]: file for file in output.files if "/megatron/" in file.path}
        copies = {
            Path(f"{prefix.path}{end}"): recorded.get(f"{output.name}{end}") for end in (".idx", ".bin")
        }
        if all(copy.is_file() for copy in copies):
            for copy, file in copies.items():
                copy_folder = Folder(str(copy.absolute().parent))
                if file is None or copy_folder.difference(copy.name, file.size, file.sha256) is not None:
                    raise Denied(f"{copy} is no copy of {output.name} of this mixture")
        elif not is_enough:
            raise Denied(
                f"the run has read {prefix.path}: its path names no version, and no files are there to compare; "
                f"keep the folders {self.mixed.place}/megatron in the path, or trace where these files are"
            )

    def lengths(self, output: Output) -> NDArray[np.int64]:
        """Return the number of tokens of each sequence of a file: (n,)."""
        if packed := self.mixed.mixture.get("packed"):
            return np.full(output.sequences, packed, np.int64)
        with self.origins(output) as parquet:
            return parquet.read(["tokens"]).column("tokens").to_numpy().astype(np.int64)

    def pieces(self, output: Output, first: int, end: int) -> Iterator[TracedPiece]:
        """Yield the pieces of documents in a range of a file's tokens, by position."""
        for row in self.rows(output, "start", first, end).sort_by("start").to_pylist():
            corpus = self.mixed.corpora[row["corpus"]]
            yield TracedPiece(
                output=output.name, start=row["start"], tokens=row["tokens"], sequence=row["sequence"],
                doc_id=row["doc_id"], corpus=corpus.label, source=corpus.sources[split(row["doc_id"])[0]],
                part=self.mixed.parts[row["part"]].name, copy_number=row["copy"], offset=row["offset"],
            )  # fmt: skip

    @cached_property
    def _groups(self) -> dict[str, list[list[int]]]:
        return {}

    @cached_property
    def _row_groups(self) -> LRUCache[tuple[str, int], pa.Table]:
        return LRUCache(64)

    @cached_property
    def _output_of_prefix(self) -> dict[Path, Output]:
        return {}

    def with_text(self, piece: TracedPiece) -> TracedPiece:
        """Add the file and row in the source, and the text. Raises Denied if the corpus has changed since then."""
        corpus = next(record for record in self.mixed.corpora if record.label == piece.corpus)
        published = PublishedCorpus.at(corpus.url)
        if published.digest != corpus.digest:
            raise Denied(
                f"{corpus.url}: this corpus was published anew since it was mixed, and may have other documents"
            )
        number, file, row = split(piece.doc_id)
        listed = published.source_files()
        is_file = (listed.column("source_number").to_numpy() == number) & (
            listed.column("file_number").to_numpy() == file
        )
        names = listed.filter(pa.array(is_file)).column("file").to_pylist()
        return piece.model_copy(
            update={
                "file": names[0] if names else None,
                "files": files_named(published.manifest.recipe, piece.source),
                "row": row,
                "text": published_texts(published, [piece.doc_id]).get(piece.doc_id),
            }
        )

    def composition(self, output: Output, first: int, end: int) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the number of pieces and of tokens in a range of a file's tokens, by part and source."""
        counts = dict[tuple[str, str], tuple[int, int]]()
        for piece in self.pieces(output, first, end):
            within = min(end, piece.start + piece.tokens) - max(first, piece.start)
            pieces, tokens = counts.get((piece.part, piece.source), (0, 0))
            counts[piece.part, piece.source] = pieces + 1, tokens + within
        return counts


def documents_in(tracer: MixtureTracer, labels: Sequence[str], ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the `ids` that a mixture contains of the corpora `labels`: (n,) uint64, ascending."""
    arrays = [np.empty(0, np.uint64)]
    numbers = [number for number, corpus in enumerate(tracer.mixed.corpora) if corpus.label in labels]
    for output in tracer.mixed.outputs:
        for group in range(len(tracer.groups(output))):
            table = tracer.group(output, group)
            arrays.append(matching_ids(table, pa.array(numbers, pa.uint16()), ids))
    for file in (file for output in tracer.mixed.texts for file in output.files):
        with tracer.open_parquet(file) as parquet:
            table = parquet.read(["doc_id", "corpus"])
        arrays.append(matching_ids(table, pa.array(labels, pa.string()), ids))
    return np.unique(np.concatenate(arrays))


def matching_ids(table: pa.Table, corpora: pa.Array, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the `ids` that a table contains of the given corpora."""
    doc_ids: NDArray[np.uint64] = (
        table.filter(pc.is_in(table.column("corpus"), corpora)).column("doc_id").to_numpy()
    )
    return doc_ids[np.isin(doc_ids, ids)]


def files_named(recipe: dict[str, Any], source: str) -> tuple[str, ...]:
    """Return the `files` of a source in a recipe."""
    files = next(
        (record.get("files", ()) for record in recipe.get("sources", ()) if record.get("name") == source), ()
    )
    return (files,) if isinstance(files, str) else tuple(files)
