"""Preference: the order in which documents have the right to stay."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.ids import FILE_SHIFT, MAX_ROWS, MAX_SOURCES, SOURCE_SHIFT, files_of, sources_of
from tasks.sources.listing import NumberedSource, load_listing
from tasks.storage.folder import Folder

Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class Preference:
    """The order in which documents are preferred: by source, file and row.

    rank: (256,) uint64, the place of each source number in the recipe. file_places: for each source
    number, (files,) uint64, the place of each of its file numbers in the order of their URLs.
    """

    rank: Ids
    file_places: dict[int, Ids]

    def priority(self, doc_ids: Ids) -> Ids:
        """Return a number for each document that is smaller the better it is: (n,) uint64 to (n,)."""
        sources, files = sources_of(doc_ids), files_of(doc_ids)
        places = np.zeros(len(doc_ids), np.uint64)
        for number, places_of_files in self.file_places.items():
            is_of_source = sources == number
            places[is_of_source] = places_of_files[files[is_of_source]]
        rows = doc_ids & np.uint64(MAX_ROWS - 1)
        # Laid out as a doc_id is, with the source's rank and the file's place where their numbers stand.
        return self.rank[sources] << np.uint64(SOURCE_SHIFT) | places << np.uint64(FILE_SHIFT) | rows


def preference_of(folder: Folder, sources: Sequence[NumberedSource]) -> Preference:
    """Return the order of the recipe's sources and of the files in each."""
    rank = np.zeros(MAX_SOURCES, np.uint64)
    file_places = dict[int, Ids]()
    for i, source in enumerate(sources):
        rank[source.number] = i
        numbers = [file.number for file in load_listing(folder, source.listing)]
        places = np.zeros(max(numbers) + 1, np.uint64)
        places[numbers] = np.arange(len(numbers))
        file_places[source.number] = places
    return Preference(rank, file_places)
