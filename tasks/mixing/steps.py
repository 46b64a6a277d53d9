"""What a trainer read in a step, by the index files that Megatron has left in its cache.

Megatron's GPTDataset shuffles documents and samples once more. Which documents a sample has, the files in its cache
say (`--data-cache-path`): `document_index`, `sample_index` and `shuffle_index` of each file prefix, and for several
prefixes `dataset_index` and `dataset_sample_index`, as megatron-core 0.16 writes them; its datasets/readme.md has
their definitions.
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
    """What a sample has of a document: of which file, the document's number there, and its tokens from `first` on.

    tokens: how many; None for all up to its end.
    """

    prefix: "Prefix"
    document: int
    first: int
    tokens: int | None


class Prefix:
    """The index files of one file prefix, by the beginning of their names."""

    def __init__(self, beginning: Path, description: dict[str, Any]) -> None:
        self.beginning, self.description = beginning, description
        self.path = str(description["dataset_path"])

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The document index, (d,), the sample index, (s + 1, 2), and the shuffle index, (s,). Raises Denied."""
        documents, samples, shuffle = (
            load(Path(f"{self.beginning}-{name}_index.npy")) for name in ("document", "sample", "shuffle")
        )
        is_form = documents.ndim == shuffle.ndim == 1 and samples.ndim == 2 and samples.shape[1] == 2
        if not is_form or any(one.dtype.kind not in "iu" for one in (documents, samples, shuffle)):
            raise Denied(f"{self.beginning}-*_index.npy: their arrays are not those that Megatron writes")
        return documents, samples, shuffle

    def check(self, lengths: NDArray[np.int64]) -> None:
        """Raise Denied where the arrays do not belong to a file with sequences of these lengths, (n,).

        All epochs hold all documents of the split, and each sample begins where the one before ends.
        """
        documents, samples, shuffle = self.arrays
        fault = f"{self.beginning}-*_index.npy: these index files are not of this mixture: "
        found = np.unique(documents)
        first, end = self.split(len(lengths))
        if not len(found) or (found[0], found[-1], len(found)) != (first, end - 1, end - first):
            raise Denied(
                f"{fault}they have {len(found):,} documents of {self.path}, and this mixture {len(lengths):,}"
            )
        own = lengths[documents]
        places, offsets = (column.astype(np.int64) for column in samples.T)
        if len(places) < 2 or min(places.min(), offsets.min()) < 0 or places.max() >= len(own):
            raise Denied(f"{fault}a sample lies beyond the documents")
        steps = np.diff((np.cumsum(own) - own)[places] + offsets)
        size = self.description.get("sequence_length", steps[0])
        if (steps != size).any() or (offsets > own[places]).any():
            raise Denied(f"{fault}the documents of {self.path} have other lengths")
        if not len(shuffle) or shuffle.min() < 0 or shuffle.max() >= len(steps):
            raise Denied(f"{fault}the shuffle index names samples that do not exist")

    def split(self, count: int) -> tuple[int, int]:
        """Return which of so many documents the split has: the first, and the one after the last."""
        matrix: Any = self.description.get("split_matrix")
        try:
            begin, end = matrix[("train", "valid", "test").index(self.description["index_split"])]
            return round(float(begin) * count), round(float(end) * count)
        except (TypeError, ValueError, LookupError):  # a run with a blend for each split reads whole files
            return 0, count

    def __len__(self) -> int:
        return len(self.arrays[2])

    def pieces(self, sample: int) -> Iterator[SamplePiece]:
        """Yield the pieces of a sample, in their order; with the token after them, which is its last label."""
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
    """All samples of a training run, in the order in which it reads them."""

    def __init__(self, cache: str, split: str = "train") -> None:
        """Find the index files of one run in a folder of this machine. Raises Denied."""
        folder = Path(cache)
        described = {path: described_in(path) for path in sorted(folder.glob(f"*-{split}-{DESCRIPTION}"))}
        of_prefixes = {path: one for path, one in described.items() if one.get("class") != "BlendedDataset"}
        blends = {path: one for path, one in described.items() if path not in of_prefixes}
        if not of_prefixes:
            raise Denied(
                f"{cache}: no index files of {split} are there; Megatron writes them to its --data-cache-path"
            )
        if len(blends) > 1 or (not blends and len(of_prefixes) > 1):
            raise Denied(f"{cache}: index files of several runs are there; give a folder with those of one")
        known = {
            json.dumps(one, sort_keys=True): Prefix(beginning_of(path), one)
            for path, one in of_prefixes.items()
        }
        self.order: tuple[NDArray[Any], NDArray[Any]] | None = None
        self.prefixes = list(known.values())
        for path, blend in blends.items():
            names = [json.dumps(one, sort_keys=True) for one in blend["datasets"]]
            if missing := [one for one in names if one not in known]:
                raise Denied(
                    f"{cache}: the index files of {json.loads(missing[0]).get('dataset_path')} are not there"
                )
            self.prefixes = [known[one] for one in names]
            beginning = beginning_of(path)
            self.order = (
                load(Path(f"{beginning}-dataset_index.npy")), load(Path(f"{beginning}-dataset_sample_index.npy"))
            )  # fmt: skip
            if any(one.ndim != 1 or one.dtype.kind not in "iu" for one in self.order):
                raise Denied(f"{beginning}-dataset_index.npy: it is not what Megatron writes")
            if len(self.order[0]) != len(self.order[1]):
                raise Denied(f"{beginning}-dataset_index.npy: it has not as many samples as its companion")

    def __len__(self) -> int:
        return len(self.prefixes[0]) if self.order is None else len(self.order[0])

    def pieces(self, sample: int) -> Iterator[SamplePiece]:
        """Yield the pieces of a sample. Raises BadInput where there is none of this number."""
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
    """Read what Megatron says of some index files. Raises Denied."""
    try:
        found = json.loads(path.read_text())
        is_blend = found.get("class") == "BlendedDataset"
        found["datasets" if is_blend else "dataset_path"]
        return dict(found)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise Denied(f"{path}: it cannot be read: it is not what Megatron writes") from error


def load(path: Path) -> NDArray[Any]:
    """Open an array that Megatron has left. Raises Denied."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Denied(f"{path}: it cannot be read: {error}") from error
    return found
