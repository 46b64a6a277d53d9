"""The manifest of a mixture, `mixture.json`: its corpora, its parts with their counts, and its files.

A mixture is complete when its manifest exists. The manifest lists each file with its size and SHA-256.
"""

from typing import Any

from zyda_flows.tasks.log import warn
from zyda_flows.tasks.mixing.gathering import Output
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

MIXTURE = "mixture.json"


class MixedCorpus(Record):
    """A corpus of a mixture: its URL, its name, the SHA-256 of its manifest, and its sources by number."""

    url: str
    label: str
    digest: str
    sources: dict[int, str]


class MixedPart(Record):
    """The counts of a part. Tokens include those that are added around documents.

    Args:
        documents, tokens: Of one epoch, with each document once.
        repeated: Tokens of the further copies of documents in one epoch.
        epochs: Number of epochs.
        planned: Planned tokens.
        copies, written: Written documents, with their copies, and written tokens.
        held_out, held_out_tokens: Documents that are held out, and their tokens.
        special_documents, special_tokens: Documents, with those held out, whose text contains the characters of
            special tokens, and the number of these special tokens.
    """

    name: str
    documents: int
    tokens: int
    repeated: int
    weight: float | None = None
    epochs: float
    planned: int
    copies: int
    written: int
    held_out: int
    held_out_tokens: int
    special_documents: int
    special_tokens: int


class MixtureManifest(Record):
    """The manifest of a complete mixture.

    Args:
        place: Folder of its files, relative to the mixture's folder.
        left_out: Documents of the corpora that belong to no part.
        not_compared: Pairs of corpora whose near-duplicates cannot be found, so that a held-out document of one
            may have a near-duplicate in the other.
        recall: Share of the near-duplicates with similarity `mixing.SIMILARITY` that is found.
        outputs: Token files: training files, then held-out files.
        texts: Text files in the same order.
    """

    name: str
    place: str
    mixture: dict[str, Any]
    tokenizer: dict[str, str]
    corpora: tuple[MixedCorpus, ...]
    width: int
    parts: tuple[MixedPart, ...]
    left_out: int
    not_compared: tuple[tuple[str, str], ...] = ()
    recall: float | None = None
    outputs: tuple[Output, ...]
    texts: tuple[Output, ...] = ()

    @property
    def tokens(self) -> int:
        """Written tokens in all token files."""
        return sum(output.tokens for output in self.outputs)

    def as_json(self) -> bytes:
        """Return the content of `mixture.json`."""
        return self.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def manifest_at(folder: Folder, path: str) -> MixtureManifest | None:
    """Return the manifest at a path, or None if it is missing or invalid."""
    content = folder.read_if_there(path)
    try:
        return MixtureManifest.model_validate_json(content) if content is not None else None
    except ValueError:
        return None


def read_complete(folder: Folder, place: str) -> MixtureManifest | None:
    """Return the manifest in `place`, or None if it is invalid or a file is missing or has another size."""
    manifest = manifest_at(folder, f"{place}/{MIXTURE}")
    if manifest is None:
        return None
    sizes = {path: int(info["size"]) for path, info in folder.listed(place).items()}
    files = [file for output in (*manifest.outputs, *manifest.texts) for file in output.files]
    return manifest if all(sizes.get(file.path) == file.size for file in files) else None


def remove_damaged(folder: Folder, manifest: MixtureManifest) -> None:
    """Compare all files of a mixture with their SHA-256. Delete files that differ, with a warning for each."""
    for output in (*manifest.outputs, *manifest.texts):
        for file in output.files:
            if (difference := folder.difference(file.path, file.size, file.sha256)) is not None:
                warn(f"{folder.url}/{file.path} {difference}; it is written again")
                folder.delete(file.path)
