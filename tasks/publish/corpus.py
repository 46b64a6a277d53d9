"""The corpus: the published folder, put in place at the end of a build, and mended where it is broken."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.accounts.audited import AuditCounts
from tasks.accounts.ledger import Ledger
from tasks.accounts.ledger_formats import as_json
from tasks.accounts.published import (
    PUBLISHED,
    File,
    NamedDigest,
    Published,
    PublishedKeys,
    published_manifest,
    saved_stamps,
)
from tasks.accounts.published_stamps import current_stamps, difference, possibly_changed, save_stamps
from tasks.accounts.readings import due, moment, times_checked
from tasks.dedup.audit import near
from tasks.dedup.reference.corpora import ReferenceCorpus
from tasks.ids import BITS
from tasks.ingest.plan import SourcePlan
from tasks.log import warn
from tasks.publish.audits import by_index_of, count_unlike
from tasks.publish.card import card
from tasks.publish.files import PublishedSource
from tasks.publish.placing import Texts, publish_by_rename, publish_objects, text_of, unlisted_files
from tasks.publish.provenance import origins, software, source_files, tokenizer_of
from tasks.quality.ingested import Ingested
from tasks.recipe.fields import Recipe
from tasks.recipe.rounds import rounds_of
from tasks.recipe.values import in_time
from tasks.stage.fan_out import fan_out
from tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from tasks.storage.artifacts import Artifact, Receipt, load_manifest
from tasks.storage.folder import Folder
from tasks.storage.tables import read_table


@task(task_run_name="corpus", **ONCE_A_BUILD)
def publish_corpus(
    recipe: Recipe,
    ledger: Ledger,
    inputs: list[SourcePlan],
    others: dict[str, ReferenceCorpus],
    ingested: list[Receipt],
    corpus_receipts: dict[str, Receipt],
    published: list[Receipt],
    reasons: dict[str, dict[str, str]],
) -> bool:
    """Put the published folder in place; return False where it is there already, whole.

    others: corpora that a round is against, by their URLs. corpus_receipts: those of clusters,
    audits and band keys, by their folders. reasons: of each stage that lets documents go, with a sentence about
    one.

    Raises Damaged where a file that is to be published is not as it was made.
    """
    folder = recipe.folder
    files = corpus_files(folder, ingested, corpus_receipts, published)
    manifest = new_manifest(
        recipe,
        ledger,
        inputs,
        reasons,
        headlines(recipe, corpus_receipts),
        keys(recipe, corpus_receipts),
        files,
    )
    named = {other.label: other.digest for other in others.values()}
    against = tuple(NamedDigest(name=name, sha256=digest) for name, digest in named.items())
    manifest = manifest.model_copy(update={"against": against, "lists": lists_of(inputs)})
    texts = accounts(recipe, inputs, manifest)
    account_files = [
        File(path=path, sha256=sha256(text).hexdigest(), size=len(text)) for path, text in texts.items()
    ]
    manifest = manifest.model_copy(update={"accounts": tuple(account_files)})
    before = published_manifest(folder)
    # Before any file is read, so that what changes while it is read is in doubt at the next build.
    seen, now = current_stamps(folder), moment()
    whole = whole_files(recipe, before, seen) if before is not None else dict[str, str]()
    is_same = before is not None and as_if_unread(before) == as_if_unread(manifest)
    if (
        before is not None
        and is_same
        and len(whole) == len(before.everything)
        and not unlisted_files(folder, manifest)
    ):
        save_stamps(folder, manifest.everything, text_of(before), seen, whole)
        return False
    if before is not None:  # the accounts are written anew
        whole = {file.path: whole[file.path] for file in before.files if file.path in whole}
    manifest = manifest.checked({file.path: whole.get(file.path, now) for file in manifest.everything})
    put = publish_by_rename if folder.is_local else publish_objects
    put(folder, manifest, texts, whole.keys())
    stamps = {path: stamp for path, stamp in seen.items() if path in whole}
    checked = {file.path: str(file.checked_at) for file in manifest.everything}
    save_stamps(folder, manifest.everything, text_of(manifest), stamps, checked)
    return True


def as_if_unread(manifest: Published) -> bytes:
    """Return the text of a manifest without the times at which its files were read."""
    return text_of(manifest.checked({}))


def whole_files(recipe: Recipe, before: Published, seen: dict[str, str]) -> dict[str, str]:
    """Return when the published files that are as they were have been compared last, and say which are not.

    Those are read of which storage does not say what it said, and those that nobody has read for too long.
    """
    folder, now = recipe.folder, moment()
    checked = times_checked(folder, before, saved_stamps(folder), seen)
    gone_files, changed_files = possibly_changed(folder, before, seen)
    in_doubt = {file.path for file in (*gone_files, *changed_files)}
    aged_files = due(
        [file for file in before.everything if file.path not in in_doubt],
        checked,
        in_time(recipe.reread_after),
    )
    read_files = [*changed_files, *aged_files]
    differences = fan_out(lambda file: difference(folder, file), read_files, stage="corpus", source=None)
    faults = {file.path: "is gone" for file in gone_files}
    faults |= {file.path: fault for file, fault in zip(read_files, differences, strict=True) if fault}
    for path, fault in faults.items():
        warn(f"{folder.url}/{PUBLISHED}/{path} {fault}; it is published again")
    checked |= {file.path: now for file in read_files}
    return {file.path: checked[file.path] for file in before.everything if file.path not in faults}


def corpus_files(
    folder: Folder, ingested: Sequence[Receipt], of_all: dict[str, Receipt], published: Sequence[Receipt]
) -> list[File]:
    """List the Parquet files of the corpus, by path. of_all: what is about all sources, by its place."""
    files = [
        file(place, "", shard)
        for place, receipt in of_all.items()
        for shard in load_manifest(folder, receipt).artifacts
        if shard.rows
    ]
    for receipt in ingested:
        set_aside = load_manifest(folder, receipt).facts_as(Ingested).set_aside
        files += [file("set_aside", f"{receipt.source}-", shard) for shard in set_aside]
    for receipt in published:
        manifest = load_manifest(folder, receipt)
        files += [file(str(receipt.source), "", shard) for shard in manifest.artifacts]
        removed = manifest.facts_as(PublishedSource).removed
        files += [file("removed", f"{receipt.source}-", shard) for shard in removed]
    return sorted(files, key=lambda file: file.path)


def file(place: str, prefix: str, shard: Artifact) -> File:
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


def lists_of(inputs: Sequence[SourcePlan]) -> tuple[NamedDigest, ...]:
    """Return the lists of terms that rules counted, by the set and their name there."""
    measures = [m for plan in inputs for step in plan.parameters.documents.steps for m in step.measures]
    lists = {(f"{m.of}.{name}", digest) for m in measures for name, digest in m.digests.items()}
    return tuple(NamedDigest(name=name, sha256=digest) for name, digest in sorted(lists))


def headlines(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> dict[str, AuditCounts]:
    """Return what the audit of each round found."""
    audits = dict[str, AuditCounts]()
    for of_round in rounds_of(recipe):
        if receipt := corpus_receipts.get(of_round.name_of("audit")):
            audit = load_manifest(recipe.folder, receipt)
            pairs = read_table(recipe.folder, audit.artifacts[0])
            audits[of_round.name_of("audit")] = count_unlike(pairs, near(of_round), by_index_of(audit))
    return audits


def keys(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> dict[str, PublishedKeys]:
    """Return what the published band keys of each round were made with."""
    places = [of_round.name_of("bands") for of_round in rounds_of(recipe)]
    return {
        place: load_manifest(recipe.folder, corpus_receipts[place]).facts_as(PublishedKeys)
        for place in places
        if place in corpus_receipts
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
    audits: dict[str, AuditCounts],
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
