"""Read from Megatron's index files which documents a trainer read in a sample.

Megatron's GPTDataset shuffles documents and samples once more. The documents of a sample follow from the files in
its cache (`--data-cache-path`): `document_index`, `sample_index` and `shuffle_index` of each file prefix, and
`dataset_index` and `dataset_sample_index` for several prefixes, as megatron-core 0.16 writes them. Its
datasets/readme.md defines them.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, Denied

DESCRIPTION = "description.txt"


class SamplePiece(NamedTuple):
    """The tokens of a document that are in a sample.

    prefix: index files of the document's file. document: number of the document in that file. first: first token in
    the document. tokens: number of tokens; None for all tokens to the end of the document.
    """

    prefix: "Prefix"
    document: int
    first: int
    tokens: int | None


class Prefix:
    """The index files of a file prefix. beginning: the part of their paths that they have in common."""

    def __init__(self, beginning: Path, description: dict[str, Any]) -> None:
        self.beginning, self.description = beginning, description
        self.path = str(description["dataset_path"])

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the document index (d,), the sample index (s + 1, 2) and the shuffle index (s,).

        Raises Denied if a file cannot be read, or if an array has another shape or dtype.
        """
        documents, samples, shuffle = (
            load(Path(f"{self.beginning}-{name}_index.npy")) for name in ("document", "sample", "shuffle")
        )
        is_form = documents.ndim == shuffle.ndim == 1 and samples.ndim == 2 and samples.shape[1] == 2
        if not is_form or any(array.dtype.kind not in "iu" for array in (documents, samples, shuffle)):
            raise Denied(f"{self.beginning}-*_index.npy: their arrays are not as Megatron writes them")
        return documents, samples, shuffle

    def check(self, lengths: NDArray[np.int64]) -> None:
        """Raise Denied if the arrays do not belong to a file with sequences of these lengths: (n,).

        Each epoch contains all documents of the split, and each sample begins at the end of the sample before it.
        """
        documents, samples, shuffle = self.arrays
        fault = f"{self.beginning}-*_index.npy: these index files are not of this mixture: "
        numbers = np.unique(documents)
        first, end = self.split(len(lengths))
        if not len(numbers) or (numbers[0], numbers[-1], len(numbers)) != (first, end - 1, end - first):
            raise Denied(
                f"{fault}they have {len(numbers):,} documents of {self.path}, and this mixture {len(lengths):,}"
            )
        sizes = lengths[documents]
        places, offsets = (column.astype(np.int64) for column in samples.T)
        if len(places) < 2 or min(places.min(), offsets.min()) < 0 or places.max() >= len(sizes):
            raise Denied(f"{fault}a sample lies beyond the documents")
        steps = np.diff((np.cumsum(sizes) - sizes)[places] + offsets)
        size = self.description.get("sequence_length", steps[0])
        if (steps != size).any() or (offsets > sizes[places]).any():
            raise Denied(f"{fault}the documents of {self.path} have other lengths")
        if not len(shuffle) or shuffle.min() < 0 or shuffle.max() >= len(steps):
            raise Denied(f"{fault}the shuffle index names samples that do not exist")

    def split(self, count: int) -> tuple[int, int]:
        """Return the first document of the split and the end (exclusive), of `count` documents."""
        matrix: Any = self.description.get("split_matrix")
        try:
            begin, end = matrix[("train", "valid", "test").index(self.description["index_split"])]
            return round(float(begin) * count), round(float(end) * count)
        except (TypeError, ValueError, LookupError):  # a run with a blend for each split reads whole files
            return 0, count

    def __len__(self) -> int:
        return len(self.arrays[2])

    def pieces(self, sample: int) -> Iterator[SamplePiece]:
        """Yield the pieces of a sample in order, with the token after the sample, which is its last label."""
        documents, samples, shuffle = self.arrays
        try:
            (begin, first), (end, last) = samples[shuffle[sample] : shuffle[sample] + 2].tolist()
            numbers = [int(documents[place]) for place in range(begin, end + 1)]
        except (IndexError, ValueError) as error:
            raise Denied(f"{self.beginning}-*_index.npy: there is no sample {sample:,} in them") from error
        for place, number in enumerate(numbers, begin):
            start = first if place == begin else 0
            tokens = last + 1 - start if place == end else None
            yield SamplePiece(self, number, start, tokens)


class Samples:
    """All samples of a training run, in the order in which the run reads them."""

    def __init__(self, cache: str, split: str = "train") -> None:
        """Find the index files of a run in a local folder. Raises Denied if they are missing or of several runs."""
        folder = Path(cache)
        descriptions = {path: described_in(path) for path in sorted(folder.glob(f"*-{split}-{DESCRIPTION}"))}
        datasets = {
            path: description
            for path, description in descriptions.items()
            if description.get("class") != "BlendedDataset"
        }
        blends = {path: description for path, description in descriptions.items() if path not in datasets}
        if not datasets:
            raise Denied(
                f"{cache}: no index files of {split} are there; Megatron writes them to its --data-cache-path"
            )
        if len(blends) > 1 or (not blends and len(datasets) > 1):
            raise Denied(
                f"{cache}: index files of several runs are there; give a folder with the files of a single run"
            )
        known = {
            json.dumps(description, sort_keys=True): Prefix(beginning_of(path), description)
            for path, description in datasets.items()
        }
        self.order: tuple[NDArray[Any], NDArray[Any]] | None = None
        self.prefixes = list(known.values())
        for path, blend in blends.items():
            keys = [json.dumps(description, sort_keys=True) for description in blend["datasets"]]
            if missing := [key for key in keys if key not in known]:
                raise Denied(
                    f"{cache}: the index files of {json.loads(missing[0]).get('dataset_path')} are not there"
                )
            self.prefixes = [known[key] for key in keys]
            beginning = beginning_of(path)
            self.order = (
                load(Path(f"{beginning}-dataset_index.npy")), load(Path(f"{beginning}-dataset_sample_index.npy"))
            )  # fmt: skip
            if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in self.order):
                raise Denied(f"{beginning}-dataset_index.npy: it is not what Megatron writes")
            if len(self.order[0]) != len(self.order[1]):
                raise Denied(f"{beginning}-dataset_index.npy: it has not as many samples as its companion")

    def __len__(self) -> int:
        return len(self.prefixes[0]) if self.order is None else len(self.order[0])

    def pieces(self, sample: int) -> Iterator[SamplePiece]:
        """Yield the pieces of a sample. Raises BadInput if no sample has this number."""
        if not 0 <= sample < len(self):
            raise BadInput(f"there are the samples 0 to {len(self) - 1:,}, and not {sample:,}")
        if self.order is None:
            yield from self.prefixes[0].pieces(sample)
        else:
            prefixes, samples = self.order
            yield from self.prefix(int(prefixes[sample])).pieces(int(samples[sample]))

    def prefix(self, number: int) -> Prefix:
        if not 0 <= number < len(self.prefixes):
            raise Denied(f"the dataset index names prefix {number}, and the blend has {len(self.prefixes)}")
        return self.prefixes[number]


def beginning_of(description: Path) -> Path:
    return description.with_name(description.name.removesuffix(f"-{DESCRIPTION}"))


def described_in(path: Path) -> dict[str, Any]:
    """Read the description of a set of index files. Raises Denied if it is not a description by Megatron."""
    try:
        description = json.loads(path.read_text())
        is_blend = description.get("class") == "BlendedDataset"
        description["datasets" if is_blend else "dataset_path"]
        return dict(description)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise Denied(f"{path}: it cannot be read: it is not what Megatron writes") from error


def load(path: Path) -> NDArray[Any]:
    """Open an array of an index file. Raises Denied if it cannot be read."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Denied(f"{path}: it cannot be read: {error}") from error
    return array
