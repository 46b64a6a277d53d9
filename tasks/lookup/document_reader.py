"""Read the documents of a published corpus in the files of its sources: their places, rows and texts."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.extraction import extract_texts
from zyda_flows.tasks.errors import BadInput, BadRequest, Damaged
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.planning.last_build import last_build, whole_register
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.input_files import InputFile, load_listing
from zyda_flows.tasks.sources.reading import read
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.storage.records import Record


class DocumentPlace(Record):
    """The source file and the row of a document."""

    doc_id: int
    source: str
    file: str
    row: int


@dataclass(frozen=True)
class DocumentReader:
    """The documents of a recipe's published corpus, with their rows in the files of the sources.

    register: the files of the sources, by their numbers in doc_ids.
    """

    recipe: Recipe
    corpus: PublishedCorpus
    register: Register

    @classmethod
    def of(cls, recipe: Recipe) -> "DocumentReader":
        """Open the published corpus of a recipe. Raises Denied."""
        return cls(recipe, PublishedCorpus.of(recipe).expect_ids(), whole_register(recipe.folder))

    def file_of(self, doc_id: int) -> tuple[str, InputFile, int]:
        """Return the source, file and row of a document. Raises BadRequest if no document has this id."""
        source, number, row = split(doc_id)
        name = next((name for name, n in self.register.sources.items() if n == source), None)
        files = self.register.files.get(name, ()) if name else ()
        if name is None or number >= len(files):
            raise BadRequest(f"{doc_id}: no document of this corpus has this id")
        return name, files[number], row

    def place(self, doc_id: int) -> DocumentPlace:
        source, file, row = self.file_of(doc_id)
        return DocumentPlace(doc_id=doc_id, source=source, file=file.url, row=row)

    def text(self, doc_id: int) -> str:
        """Read a document's text from its source, extracted as in the build; as it was read if that fails.

        Raises BadInput if the source does not have the document any more.
        """
        text = str(self.source_row(doc_id)[self.source_of(doc_id).text])
        if not (name := self.extractor_of(doc_id)):
            return text
        return str(extract_texts(pa.array([text], pa.large_string()), name).texts[0].as_py()) or text

    def extractor_of(self, doc_id: int) -> str:
        """Return the name of the recipe's extractor for a document; "" if its source has none."""
        steps = self.recipe.steps_of(self.source_of(doc_id).name)
        return next((step.extractor for step in steps if step.extractor), "")

    def source_of(self, doc_id: int) -> Source:
        """Return the recipe's source of a document. Raises BadInput if the recipe does not have it any more."""
        name = self.file_of(doc_id)[0]
        source = next((source for source in self.recipe.sources if source.name == name), None)
        if source is None:
            raise BadInput(f"the recipe has no source {name} any more")
        return source

    def located(self, source: str, file: InputFile) -> InputFile:
        """Return a file at the location where the last build read it: at a commit, or a copy."""
        built = last_build(self.recipe.folder)
        if built is None or source not in built.listings:
            return file
        with suppress(Damaged):
            for listed in load_listing(self.recipe.folder, built.listings[source]):
                if listed.number == file.number:
                    return file.model_copy(update={"location": listed.location})
        return file

    def source_row(self, doc_id: int) -> dict[str, Any]:
        """Read a document's row from its source, by column. Raises BadInput if it is missing."""
        source, file, row = self.file_of(doc_id)
        file = self.located(source, file)
        column = self.source_of(doc_id).text
        for piece in file.pieces:
            for chunk in read(source, file, piece, column):
                places = (chunk.rows == row).nonzero()[0]
                if len(places):
                    return dict(chunk.table.slice(int(places[0]), 1).to_pylist()[0])
        raise BadRequest(
            f"source {source}, file {file.url}, row {row}: the source has no document there any more"
        )
