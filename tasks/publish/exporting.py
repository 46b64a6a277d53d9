"""Export the documents of a published corpus to files of another format, with a choice of columns.

Finished files of an equal export are kept. `README.md` has the configurations for `datasets`. `exported.parquet`
lists the files with their SHA-256, and has the options of the export; it is written last. Then the files of an
earlier or an interrupted export that are not part of this export are removed.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from zyda_flows.tasks.accounts.published_files import as_parquet, folder_of
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, NotConserved
from zyda_flows.tasks.publish.export_card import CARD, MADE_BY, export_card
from zyda_flows.tasks.publish.export_files import FileToExport
from zyda_flows.tasks.publish.export_places import (
    EXPORTED,
    OPTIONS,
    TABLE,
    ExportedFile,
    ExportOf,
    expect_elsewhere,
    expect_no_corpus,
    listed_before,
)
from zyda_flows.tasks.publish.export_planning import NAME, ExportOptions, planned_files, schemas_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.scratch import SCRATCH
from zyda_flows.tasks.words import counted


class Export:
    """An export of the present version of a corpus.

    verify: read existing files and compare them with their digests. replace: remove an export with other options
    from the same folder. jobs: the files to write. done: existing files that are kept. refused: existing files that
    are damaged.

    Raises BadInput for columns or sources that the corpus does not have, and for a folder with another export;
    Denied if nothing is published.
    """

    def __init__(
        self,
        recipe: Recipe,
        to: Folder,
        options: ExportOptions,
        *,
        verify: bool = False,
        replace: bool = False,
    ) -> None:
        self.corpus = PublishedCorpus.of(recipe)
        self.to, self.options = to, options
        expect_elsewhere(recipe, to)
        to.check_writable()
        files = self.files_to_read()
        with self.corpus.reading():
            planned = planned_files(self.corpus.folder, to, files, options)
            self.schemas = schemas_of(planned)
        expect_no_corpus(to, {folder_of(job.path) for job in planned})
        self.of = ExportOf(
            corpus=self.corpus.root.url, format=options.format, columns=options.columns,
            as_strings=options.as_strings, sources=options.sources, where=options.where,
        )  # fmt: skip
        self.before = self.exported_before(replace=replace)
        existing = self.existing_files(planned)
        self.done = [
            file
            for file in existing
            if not verify or to.difference(file.path, file.size, file.sha256) is None
        ]
        self.refused = [file.path for file in existing if file not in self.done]
        done = {file.path for file in self.done}
        self.jobs = [job for job in planned if job.path not in done]

    def files_to_read(self) -> dict[str, list[Artifact]]:
        """Return the published files of each chosen source. Raises BadInput for an unknown source."""
        known = self.corpus.manifest.ledger.sources
        for name in self.options.sources:
            if name not in known:
                raise BadInput(
                    f"--source {name}: the corpus has no such source; its sources are {', '.join(known)}"
                )
        return {name: self.corpus.artifacts(f"{name}/") for name in self.options.sources or known}

    def exported_before(self, *, replace: bool) -> dict[str, ExportedFile]:
        """Return the files of an earlier export in the same folder, by path. Raises BadInput for another export."""
        listed, options = listed_before(self.to)
        if listed and not replace and not (options and self.of.keeps(options)):
            raise BadInput(
                f"--to {self.to.url}: the folder has {counted(len(listed), 'file')} of another export "
                f"({options or 'unknown'}); choose another folder, or give --replace, which removes them"
            )
        return {file.path: file for file in listed}

    def existing_files(self, planned: Sequence[FileToExport]) -> list[ExportedFile]:
        """Return the planned files that an earlier export wrote and that still have their sizes."""
        listed = self.to.listed("") if self.before else {}
        sizes = {path: int(info["size"]) for path, info in listed.items()}
        files = [self.before[job.path] for job in planned if job.path in self.before]
        return [file for file in files if sizes.get(file.path) == file.size]

    def write(
        self, run_jobs: Callable[[Sequence[FileToExport]], Iterable[ExportedFile]]
    ) -> list[ExportedFile]:
        """Write the missing files, then the table.

        Remove files of an earlier export that this export does not have.

        run_jobs: calls each job, on any worker. Raises NotConserved if rows are missing, and Denied if another
        version of the corpus was published meanwhile; finished files are kept for the next export.
        """
        for path in self.refused:
            self.to.remove(path)
        with self.corpus.reading():
            files = [*self.done, *run_jobs(self.jobs)]
        files.sort(key=lambda file: file.path)
        self.check(files)
        self.write_card(files)
        rows = [file.model_dump() for file in files]
        schema = EXPORTED.with_metadata({OPTIONS: self.of.model_dump_json()})
        self.to.write(TABLE, as_parquet(pa.Table.from_pylist(rows, schema)))
        others = {*self.before, *self.interrupted()} - {file.path for file in files}
        for path in others:
            self.to.remove(path)
        emptied = {*map(folder_of, others)} - {folder_of(file.path) for file in files}
        for place in (SCRATCH, *sorted(emptied, reverse=True)) if self.to.is_local else ():
            with suppress(OSError):  # the folder has other files, or another process writes to it
                Path(self.to.path(place)).rmdir()
        return files

    def interrupted(self) -> list[str]:
        """List the files of exports in the folders of the sources, also of an export that was not finished."""
        places = self.options.sources or self.corpus.manifest.ledger.sources
        paths = (path for place in places for path in self.to.files(place))
        return [path for path in paths if NAME.fullmatch(path.rpartition("/")[2])]

    def write_card(self, files: Sequence[ExportedFile]) -> None:
        """Write README.md, unless there is a README.md that no export has written."""
        before = self.to.read_if_there(CARD)
        if before is None or MADE_BY.encode() in before:
            nested = sorted({file.source for file in files if file.path.count("/") > 1})
            documents = sum(file.rows for file in files)
            card = export_card(
                self.corpus.manifest.corpus, documents, self.options.format, self.schemas, nested
            )
            self.to.write(CARD, card.encode())

    def check(self, files: Sequence[ExportedFile]) -> None:
        """Raise NotConserved if exported rows and rows that are not selected are not all published documents."""
        ledger = self.corpus.manifest.ledger
        for source in self.options.sources or ledger.sources:
            own = [file for file in files if file.source == source]
            rows, others = sum(file.rows for file in own), sum(file.not_selected for file in own)
            if rows + others != (expected := ledger.of(ledger.stages[-1], source).documents):
                raise NotConserved(
                    f"source {source}: {rows:,} documents were exported, {others:,} were not selected, and "
                    f"{expected:,} are published"
                )
