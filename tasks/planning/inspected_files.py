"""Inspect files on workers, and return the columns of inspected files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import InspectedFile, inspect
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.stage.fan_out import fan_out


@dataclass(frozen=True)
class Inspection:
    """A file to inspect on a worker."""

    source: Source
    file: InputFile
    shard_bytes: int
    may_be_bad: bool

    def __call__(self) -> InspectedFile | ZydaError:
        try:
            return inspect(
                self.source.name,
                self.file,
                self.source.text,
                self.shard_bytes,
                selection_of(self.source),
                may_be_bad=self.may_be_bad,
            )
        except BadInput as error:
            return error


def empty_tables(
    source: Source, jobs: Sequence[Inspection], outcomes: Sequence[InspectedFile | ZydaError]
) -> Iterator[tuple[Inspection, pa.Table]]:
    """Yield tables without rows, with the columns of each readable file of a source."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.source == source and isinstance(outcome, InspectedFile) and outcome.table_schema is not None:
            yield job, outcome.table_schema.empty_table()


def names_in(outcomes: Sequence[InspectedFile | ZydaError]) -> list[str]:
    """Return the names of all columns of inspected files, each once."""
    readable = [outcome.names or () for outcome in outcomes if isinstance(outcome, InspectedFile)]
    return [*dict.fromkeys(chain.from_iterable(readable))]


def inspect_others(
    source: Source, files: Sequence[InputFile], jobs: Sequence[Inspection]
) -> list[InspectedFile | ZydaError]:
    """Inspect the files of a source that were not inspected: they may have columns that the others lack."""
    own = [job for job in jobs if job.source == source]
    seen = {job.file.url for job in own}
    unseen = [replace(own[0], file=file) for file in files if file.url not in seen]
    return fan_out(Inspection.__call__, unseen, stage="prepare", source=None) if unseen else []


def selection_of(source: Source) -> Selection:
    """Return the columns of a source to carry."""
    return Selection(only=source.columns, without=source.without)
