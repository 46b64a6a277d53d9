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

from tasks.errors import BadInput, Denied

DESCRIPTION = "description.txt"


class SamplePiece(NamedTuple):
    """What a sample has of a document: of which file, the document's number there, and its tokens from `first` on.

    tokens: how many; None for all up to its end.
    """

    prefix: str
    document: int
    first: int
    tokens: int | None


class Prefix:
    """The index files of one file prefix, by the beginning of their names."""

    def __init__(self, beginning: Path, description: dict[str, Any]) -> None:
        self.beginning, self.path = beginning, str(description["dataset_path"])

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The document index, (d,), the sample index, (s + 1, 2), and the shuffle index, (s,)."""
        documents, samples, shuffle = (
            load(Path(f"{self.beginning}-{name}_index.npy")) for name in ("document", "sample", "shuffle")
        )
        return documents, samples, shuffle

    def __len__(self) -> int:
        return len(self.arrays[2])

    def pieces(self, sample: int) -> Iterator[SamplePiece]:
        """Yield the pieces of a sample, in their order; with the token after them, which is its last label."""
        documents, samples, shuffle = self.arrays
        (begin, first), (end, last) = samples[shuffle[sample] : shuffle[sample] + 2].tolist()
        for place in range(begin, end + 1):
            start = first if place == begin else 0
            tokens = last + 1 - start if place == end else None
            yield SamplePiece(self.path, int(documents[place]), start, tokens)


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
            yield from self.prefixes[int(prefixes[sample])].pieces(int(samples[sample]))


def beginning_of(description: Path) -> Path:
    return description.with_name(description.name.removesuffix(f"-{DESCRIPTION}"))


def described_in(path: Path) -> dict[str, Any]:
    """Read what Megatron says of some index files. Raises Denied."""
    try:
        found = json.loads(path.read_text())
        return dict(found)
    except (OSError, ValueError, TypeError) as error:
        raise Denied(f"{path}: it cannot be read: it is not what Megatron writes") from error


def load(path: Path) -> NDArray[Any]:
    """Open an array that Megatron has left. Raises Denied."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Denied(f"{path}: it cannot be read: {error}") from error
    return found
