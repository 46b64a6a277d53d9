"""The corpus: the published folder, which appears in one step.

On a local disk the files are linked into a new folder, which then takes the place of the old one.
An object store has no folders to swap: there `manifest.json` comes last and lists what belongs to
the corpus, and files of the corpus before go after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from uuid import uuid4

import pyarrow.parquet as pq
from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import Field

from tasks.artifacts import Done, Record, Shard, corpus_folder, load_manifest
from tasks.card import card
from tasks.cluster import fan_out
from tasks.ledger import Ledger, as_json
from tasks.recipe import Dedup, Recipe
from tasks.stage import RETRYING
from tasks.storage import Folder

PUBLISHED = "published"
MANIFEST = "manifest.json"


class File(Record):
    """A published file. `made_as` is where the stage that made it left it."""

    path: str
    sha256: str
    rows: int | None = None
    made_as: str = Field("", exclude=True)


class Published(Record):
    """The list of a corpus's files. It holds no time and no address: same corpus, same bytes."""

    name: str
    sample: float
    dedup: Dedup
    files: tuple[File, ...]


@task(task_run_name="corpus", cache_policy=NO_CACHE, **RETRYING)
def publish_corpus(
    recipe: Recipe, ledger: Ledger, ingested: list[Done], clustered: Done, published: list[Done]
) -> bool:
    """Put the published folder in place; return False where it was there already."""
    folder = corpus_folder(recipe)
    files = corpus_files(folder, ingested, clustered, published)
    texts = accounts(recipe, ledger)
    manifest = manifest_text(recipe, files, texts)
    if folder.read_if_there(f"{PUBLISHED}/{MANIFEST}") == manifest:
        return False
    put = swap_in if folder.is_local else put_over
    put(folder, files, {**texts, MANIFEST: manifest})
    return True


def corpus_files(
    folder: Folder, ingested: Sequence[Done], clustered: Done, published: Sequence[Done]
) -> list[File]:
    """List the Parquet files of the corpus, by path."""
    files = [file("clusters", "", shard) for shard in load_manifest(folder, clustered).shards if shard.rows]
    for done in ingested:
        set_aside = load_manifest(folder, done).facts["set_aside"]
        files += [file("set_aside", f"{done.source}-", Shard.model_validate(shard)) for shard in set_aside]
    for done in published:
        manifest = load_manifest(folder, done)
        files += [file(str(done.source), "", shard) for shard in manifest.shards]
        removed = [Shard.model_validate(shard) for shard in manifest.facts["removed"]]
        files += [file("removed", f"{done.source}-", shard) for shard in removed]
    return sorted(files, key=lambda file: file.path)


def file(place: str, prefix: str, shard: Shard) -> File:
    path = f"{place}/{prefix}{shard.name}-{shard.digest[:8]}.parquet"
    return File(path=path, sha256=shard.digest, rows=shard.rows, made_as=shard.path)


def accounts(recipe: Recipe, ledger: Ledger) -> dict[str, bytes]:
    """Write the ledger and the card."""
    parquet = BytesIO()
    pq.write_table(ledger.table(), parquet)
    return {
        "ledger.parquet": parquet.getvalue(),
        "ledger.json": as_json(ledger).encode(),
        "README.md": card(recipe, ledger).encode(),
    }


def manifest_text(recipe: Recipe, files: Sequence[File], texts: dict[str, bytes]) -> bytes:
    """Write the list of all files but itself."""
    parts = [File(path=path, sha256=sha256(text).hexdigest()) for path, text in texts.items()]
    manifest = Published(name=recipe.name, sample=recipe.sample, dedup=recipe.dedup, files=(*files, *parts))
    return manifest.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


def swap_in(folder: Folder, files: Sequence[File], texts: dict[str, bytes]) -> None:
    """Make the folder beside the old one, then let it take its place."""
    staging = f".scratch/{uuid4().hex}"
    for one in files:
        folder.copy(one.made_as, f"{staging}/{one.path}")
    for path, text in texts.items():
        folder.write(f"{staging}/{path}", text)
    folder.replace_folder(staging, PUBLISHED)


@dataclass(frozen=True)
class Copy:
    """A file to copy inside an object store, on whichever worker."""

    folder: Folder
    made_as: str
    path: str

    def __call__(self) -> None:
        self.folder.copy(self.made_as, self.path)


def put_over(folder: Folder, files: Sequence[File], texts: dict[str, bytes]) -> None:
    """Add what is new, the manifest last, then delete what is in no manifest any more."""
    there = set(folder.files(PUBLISHED))
    copies = [Copy(folder, one.made_as, f"{PUBLISHED}/{one.path}") for one in files]
    missing = [copy for copy in copies if copy.path not in there]
    fan_out(Copy.__call__, missing, stage="corpus", source=None)
    for path, text in texts.items():
        folder.write(f"{PUBLISHED}/{path}", text)
    wanted = {f"{PUBLISHED}/{path}" for path in [*(one.path for one in files), *texts]}
    for path in sorted(there - wanted):
        folder.delete(path)
