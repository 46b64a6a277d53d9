"""The corpus: the published folder, put in place at the end of a build, and mended where it is broken.

On a local disk the files are linked into a new folder, which then takes the place of the old one by two
renames. An object store has no folders to swap: there `manifest.json` comes after the files that it
lists, and files of the corpus before go after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.accounts.audited import Audited
from tasks.accounts.ledger import Ledger, as_json
from tasks.accounts.published import (
    MANIFEST,
    PUBLISHED,
    STAMPS,
    File,
    Named,
    Published,
    PublishedKeys,
    difference,
    doubts,
    keep_stamps,
    published_manifest,
    stamps_now,
)
from tasks.errors import Damaged
from tasks.ids import BITS
from tasks.intake.plan import SourcePlan
from tasks.log import warn
from tasks.others.corpora import OtherCorpus
from tasks.publish.audits import audited
from tasks.publish.card import card
from tasks.publish.origins import origins, software, source_files, tokenizer_of
from tasks.recipe.fields import Recipe
from tasks.stage.spread import fan_out
from tasks.stage.task import ONCE_A_BUILD, task
from tasks.storage.artifacts import Receipt, Shard, load_manifest
from tasks.storage.folder import Folder
from tasks.storage.scratch import SCRATCH, scratch_name
from tasks.storage.tables import read_table

Texts = dict[str, bytes]


@task(task_run_name="corpus", **ONCE_A_BUILD)
def publish_corpus(
    recipe: Recipe,
    ledger: Ledger,
    inputs: list[SourcePlan],
    others: dict[str, OtherCorpus],
    ingested: list[Receipt],
    about_all: dict[str, Receipt],
    published: list[Receipt],
    reasons: dict[str, dict[str, str]],
) -> bool:
    """Put the published folder in place; return False where it is there already, whole.

    others: corpora that a round is against, by their URLs. about_all: clusters, audits and band keys, by their
    folders. reasons: of each stage that lets documents go, with a sentence about a document.

    Raises Damaged where a file that is to be published is not as it was made.
    """
    folder = recipe.folder
    files = corpus_files(folder, ingested, about_all, published)
    manifest = new_manifest(
        recipe, ledger, inputs, reasons, headlines(recipe, about_all), keys(recipe, about_all), files
    )
    named = {other.label: other.digest for other in others.values()}
    against = tuple(Named(name=name, sha256=digest) for name, digest in named.items())
    manifest = manifest.model_copy(update={"against": against, "lists": lists_of(inputs)})
    texts = accounts(recipe, inputs, manifest)
    account_files = [
        File(path=path, sha256=sha256(text).hexdigest(), size=len(text)) for path, text in texts.items()
    ]
    manifest = manifest.model_copy(update={"accounts": tuple(account_files)})
    before = published_manifest(folder)
    # Before any file is read, so that what changes while it is read is in doubt at the next build.
    seen = stamps_now(folder)
    broken = broken_files(folder, before, seen) if before is not None else set[str]()
    is_same = before is not None and text_of(before) == text_of(manifest)
    if is_same and not broken and not strangers(folder, manifest):
        keep_stamps(folder, manifest.everything, text_of(manifest), seen)
        return False
    whole_paths = {file.path for file in before.files} - broken if before is not None else set[str]()
    put = swap_in if folder.is_local else put_over
    put(folder, manifest, texts, whole_paths)
    stamps = {path: stamp for path, stamp in seen.items() if path in whole_paths}
    keep_stamps(folder, manifest.everything, text_of(manifest), stamps)
    return True


def broken_files(folder: Folder, before: Published, seen: dict[str, str]) -> set[str]:
    """Return the paths of published files that are not as they were, and say so."""

    def look(file: File) -> str | None:
        return difference(folder, file)

    gone_files, changed_files = doubts(folder, before, seen)
    differences = fan_out(look, changed_files, stage="corpus", source=None)
    faults = [(file, "is gone") for file in gone_files]
    faults += [(file, fault) for file, fault in zip(changed_files, differences, strict=True) if fault]
    for file, fault in faults:
        warn(f"{folder.url}/{PUBLISHED}/{file.path} {fault}; it is published again")
    return {file.path for file, _ in faults}


def strangers(folder: Folder, manifest: Published) -> list[str]:
    """List the files in the published folder that its manifest does not."""
    wanted = {f"{PUBLISHED}/{file.path}" for file in manifest.everything} | {f"{PUBLISHED}/{MANIFEST}"}
    return [path for path in folder.files(PUBLISHED) if path not in wanted]


def corpus_files(
    folder: Folder, ingested: Sequence[Receipt], of_all: dict[str, Receipt], published: Sequence[Receipt]
) -> list[File]:
    """List the Parquet files of the corpus, by path. of_all: what is about all sources, by its place."""
    files = [
        file(place, "", shard)
        for place, receipt in of_all.items()
        for shard in load_manifest(folder, receipt).shards
        if shard.rows
    ]
    for receipt in ingested:
        set_aside = load_manifest(folder, receipt).facts["set_aside"]
        files += [file("set_aside", f"{receipt.source}-", Shard.model_validate(shard)) for shard in set_aside]
    for receipt in published:
        manifest = load_manifest(folder, receipt)
        files += [file(str(receipt.source), "", shard) for shard in manifest.shards]
        removed = [Shard.model_validate(shard) for shard in manifest.facts["removed"]]
        files += [file("removed", f"{receipt.source}-", shard) for shard in removed]
    return sorted(files, key=lambda file: file.path)


def file(place: str, prefix: str, shard: Shard) -> File:
    path = f"{place}/{prefix}{shard.name}-{shard.digest[:8]}.parquet"
    return File(
        path=path, sha256=shard.digest, size=shard.size, rows=shard.rows, footer=shard.footer,
        footer_sha256=shard.footer_digest, made_as=shard,
    )  # fmt: skip


def accounts(recipe: Recipe, inputs: Sequence[SourcePlan], manifest: Published) -> Texts:
    """Write the ledger, the list of the sources' files and the card."""
    ledger = manifest.ledger
    cleaned = ledger.cleaned()
    return {
        "ledger.parquet": as_parquet(ledger.table()),
        "reasons.parquet": as_parquet(ledger.reasons()),
        **({"cleaned.parquet": as_parquet(cleaned)} if len(cleaned) else {}),
        "ledger.json": as_json(ledger).encode(),
        "sources.parquet": as_parquet(source_files(recipe, inputs)),
        "README.md": card(recipe, manifest).encode(),
    }


def lists_of(inputs: Sequence[SourcePlan]) -> tuple[Named, ...]:
    """Return the lists of terms that rules counted, by the set and their name there."""
    measures = [m for plan in inputs for step in plan.parameters.documents.steps for m in step.measures]
    lists = {(f"{m.of}.{name}", digest) for m in measures for name, digest in m.digests.items()}
    return tuple(Named(name=name, sha256=digest) for name, digest in sorted(lists))


def headlines(recipe: Recipe, about_all: dict[str, Receipt]) -> dict[str, Audited]:
    """Return what the audit of each round found."""
    found = dict[str, Audited]()
    for of_round in recipe.each_round():
        if receipt := about_all.get(of_round.called("audit")):
            (pairs,) = load_manifest(recipe.folder, receipt).shards
            found[of_round.called("audit")] = audited(read_table(recipe.folder, pairs), of_round.dedup)
    return found


def keys(recipe: Recipe, about_all: dict[str, Receipt]) -> dict[str, PublishedKeys]:
    """Return what the published band keys of each round were made with."""
    places = [of_round.called("bands") for of_round in recipe.each_round()]
    return {
        place: PublishedKeys.model_validate(load_manifest(recipe.folder, about_all[place]).facts)
        for place in places
        if place in about_all
    }


def as_parquet(table: pa.Table) -> bytes:
    content = BytesIO()
    pq.write_table(table, content, write_page_checksum=True)
    return content.getvalue()


def new_manifest(
    recipe: Recipe,
    ledger: Ledger,
    inputs: Sequence[SourcePlan],
    reasons: dict[str, dict[str, str]],
    audits: dict[str, Audited],
    bands: dict[str, PublishedKeys],
    files: Iterable[File],
) -> Published:
    """Make the manifest, still without the accounts, which are written from it."""
    return Published(
        name=recipe.name,
        sample=recipe.sample,
        software=software(),
        tokenizer=tokenizer_of(recipe, inputs),
        recipe=recipe.as_written,
        made_of=origins(recipe, inputs),
        id_bits=BITS,
        ledger=ledger,
        reasons=reasons,
        audits=audits,
        bands=bands,
        files=tuple(files),
        accounts=(),
    )


def text_of(manifest: Published) -> bytes:
    return manifest.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"


@dataclass(frozen=True)
class Proof:
    """A file that was made, to be read before it is published: its disk may have changed it since."""

    folder: Folder
    made: Shard

    def __call__(self) -> str | None:
        made = self.made
        return made.path if self.folder.difference(made.path, made.size, made.digest) else None


@dataclass(frozen=True)
class Copy:
    """A file to copy inside an object store, on whichever worker. Returns its path where it is damaged."""

    folder: Folder
    made: Shard
    path: str

    def __call__(self) -> str | None:
        if self.folder.size_of(self.made.path) != self.made.size:
            return self.made.path
        self.folder.copy(self.made.path, self.path)
        return None


def all_sound(folder: Folder, jobs: Sequence[Proof | Copy]) -> None:
    """Do some work on made files over the cluster. Raises Damaged with those that are not as they were."""
    paths = fan_out(lambda job: job(), jobs, stage="corpus", source=None)
    if damaged := [path for path in paths if path]:
        raise Damaged(
            f"{folder.url}/{damaged[0]} was cut or changed, or went away, after it was made", *damaged
        )


def swap_in(folder: Folder, manifest: Published, texts: Texts, whole_paths: set[str]) -> None:
    """Make the folder beside the old one, of whose files those at `whole_paths` stay good; then swap."""
    new_shards = [file.made_as for file in manifest.files if file.made_as and file.path not in whole_paths]
    all_sound(folder, [Proof(folder, shard) for shard in new_shards])
    staging = f"{SCRATCH}/{scratch_name()}"
    for file in manifest.files:
        path = (
            f"{PUBLISHED}/{file.path}"
            if file.path in whole_paths
            else str(file.made_as and file.made_as.path)
        )
        folder.copy(path, f"{staging}/{file.path}")
    for path, text in {**texts, MANIFEST: text_of(manifest)}.items():
        folder.write(f"{staging}/{path}", text, read_only=True)
    folder.replace_folder(staging, PUBLISHED)


def put_over(folder: Folder, manifest: Published, texts: Texts, whole_paths: set[str]) -> None:
    """Add what is new, then the manifest, the accounts, and delete what is in no manifest any more."""
    new_files = [file for file in manifest.files if file.made_as and file.path not in whole_paths]
    copies = [Copy(folder, file.made_as, f"{PUBLISHED}/{file.path}") for file in new_files if file.made_as]
    # Names have digests in them: the corpus before stays whole beside these until its manifest is replaced.
    all_sound(folder, copies)
    folder.delete(STAMPS)  # until it is written again, whoever is in doubt reads the files
    for path, text in {MANIFEST: text_of(manifest), **texts}.items():
        folder.write(f"{PUBLISHED}/{path}", text)
    for path in strangers(folder, manifest):
        folder.delete(path)
