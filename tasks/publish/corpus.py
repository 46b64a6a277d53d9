"""The corpus: the published folder, put in place at the end of a build, and mended where it is broken."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256

import pyarrow as pa

from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.accounts.components import (
    COMPONENTS_FILE,
    LANGUAGES_FILE,
    LICENSES_FILE,
    ComponentCounts,
    component_table,
)
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.ledger_formats import as_json
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import (
    NO_TABLE,
    File,
    NamedDigest,
    Published,
    PublishedKeys,
    TableFile,
    checked,
)
from zyda_flows.tasks.accounts.published_files import ROWS, as_parquet, file_table
from zyda_flows.tasks.accounts.published_stamps import save_stamps
from zyda_flows.tasks.accounts.readings import moment
from zyda_flows.tasks.dedup.audit import minhash_round_of
from zyda_flows.tasks.dedup.reference.corpora import ReferenceCorpus
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.ingest.plan import SourcePlan
from zyda_flows.tasks.publish.audits import by_index_of, count_unlike, removed_in
from zyda_flows.tasks.publish.card import card
from zyda_flows.tasks.publish.files import PublishedSource
from zyda_flows.tasks.publish.one_copy import keep_one_copy, published_name, remove_replaced
from zyda_flows.tasks.publish.placing import Texts, publish_by_rename, publish_objects, unlisted_files
from zyda_flows.tasks.publish.provenance import origins, software, source_files, tokenizer_of
from zyda_flows.tasks.publish.published_before import published_before, whole_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.storage.artifacts import Artifact, Receipt, load_manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table


@task(task_run_name="corpus", **ONCE_A_BUILD)
def publish_corpus(
    recipe: Recipe,
    ledger: Ledger,
    plans: list[SourcePlan],
    references: dict[str, ReferenceCorpus],
    corpus_receipts: dict[str, Receipt],
    publish_receipts: list[Receipt],
    reasons: dict[str, dict[str, str]],
) -> bool:
    """Put the published folder in place; return False where it is there already, whole.

    references: corpora that a round is against, by their URLs. corpus_receipts: those of clusters,
    audits and band keys, by their folders. reasons: of each stage that lets documents go, with a sentence about
    one.

    Raises Damaged where a file that is to be published is not as it was made.
    """
    folder = recipe.folder
    files = corpus_files(folder, corpus_receipts, publish_receipts)
    named = {other.label: other.digest for other in references.values()}
    manifest = new_manifest(
        recipe,
        ledger,
        plans,
        reasons,
        headlines(recipe, corpus_receipts),
        keys(recipe, corpus_receipts),
    ).model_copy(
        update={
            "against": tuple(NamedDigest(name=name, sha256=digest) for name, digest in named.items()),
            "lists": lists_of(plans),
        }
    )
    places = {file.path.rpartition("/")[0] for file in files}
    facts = {
        str(one.source): load_manifest(folder, one).facts_as(PublishedSource) for one in publish_receipts
    }
    components = {source: of.components for source, of in facts.items() if of.components is not None}
    licenses = {source: of.licenses for source, of in facts.items() if of.licenses is not None}
    languages = {source: of.languages for source, of in facts.items() if of.languages is not None}
    texts = accounts(
        recipe, plans, manifest, places, overlaps(recipe, corpus_receipts), components, licenses, languages,
        evaluation_sets(recipe, corpus_receipts),
    )  # fmt: skip
    # Before any file is read, so that what changes while it is read is in doubt at the next build.
    before, now = published_before(folder), moment()
    whole = whole_files(recipe, before) if before is not None else dict[str, str]()
    receipts = [*corpus_receipts.values(), *publish_receipts]
    is_there = before is not None and before.is_same(manifest, files, texts) and before.is_whole(whole)
    if before is not None and is_there:
        save_stamps(folder, whole, before.manifest.written(), before.stamps)
    else:
        # The accounts are written anew.
        whole = {file.path: whole[file.path] for file in files if file.path in whole}
        checked_at = {file.path: whole.get(file.path, now) for file in files}
        manifest, texts = with_tables(manifest, checked(files, checked_at), texts, now)
        put = publish_by_rename if folder.is_local else publish_objects
        put(folder, manifest, files, texts, whole.keys())
        if not folder.is_local:
            remove_replaced(
                folder, unlisted_files(folder, [*(file.path for file in files), *texts]), receipts
            )
        stamps = {path: stamp for path, stamp in before.stamps.items() if path in whole} if before else {}
        save_stamps(folder, checked_at | dict.fromkeys(texts, now), manifest.written(), stamps)
    if not (folder.is_local or recipe.work_copies):
        keep_one_copy(folder, files, receipts)
    return not is_there


def with_tables(
    manifest: Published, files: Iterable[TableFile], texts: Texts, now: str
) -> tuple[Published, Texts]:
    """Return the manifest with what it names, and the texts with the table of files."""
    entries = file_table(files)
    content = as_parquet(entries, ROWS)
    path = f"files-{sha256(content).hexdigest()[:8]}.parquet"
    footer = int.from_bytes(content[-8:-4], "little") + 8  # its size, and four bytes that say Parquet
    by_need = {"rows": len(entries), "footer": footer, "footer_sha256": sha256(content[-footer:]).hexdigest()}
    accounts = tuple(file_of(path, text, now) for path, text in texts.items())
    table = TableFile(**file_of(path, content, now).model_dump(), **by_need)
    return manifest.model_copy(update={"table": table, "accounts": accounts}), {path: content, **texts}


def file_of(path: str, content: bytes, now: str) -> File:
    """Return the entry of a file that a manifest names."""
    return File(path=path, sha256=sha256(content).hexdigest(), size=len(content), checked_at=now)


def corpus_files(folder: Folder, of_all: dict[str, Receipt], published: Sequence[Receipt]) -> list[TableFile]:
    """List the Parquet files of the corpus, by path. of_all: what is about all sources, by its place."""
    files = [
        file(place, "", shard)
        for place, receipt in of_all.items()
        for shard in load_manifest(folder, receipt).artifacts
        if shard.rows
    ]
    for receipt in published:
        manifest = load_manifest(folder, receipt)
        files += [file(str(receipt.source), "", shard) for shard in manifest.artifacts]
        facts = manifest.facts_as(PublishedSource)
        files += [file("removed", f"{receipt.source}-", shard) for shard in facts.removed]
        files += [file("set_aside", f"{receipt.source}-", shard) for shard in facts.set_aside]
    return sorted(files, key=lambda file: file.path)


def file(place: str, prefix: str, shard: Artifact) -> TableFile:
    path = f"{place}/{prefix}{published_name(shard)}"
    return TableFile(
        path=path, sha256=shard.digest, size=shard.size, rows=shard.rows, footer=shard.footer,
        footer_sha256=shard.footer_digest, made_as=shard,
    )  # fmt: skip


def accounts(
    recipe: Recipe,
    inputs: Sequence[SourcePlan],
    manifest: Published,
    places: Collection[str],
    overlaps: Sequence[tuple[int, Overlap]],
    components: Mapping[str, Sequence[ComponentCounts]],
    licenses: Mapping[str, Sequence[ComponentCounts]],
    languages: Mapping[str, Sequence[ComponentCounts]],
    sets: pa.Table | None,
) -> Texts:
    """Write the ledger, the list of the sources' files and the card.

    places: the folders of the corpus. overlaps: of each round. components, licenses,
    languages: of the sources that have any.
    sets: the evaluation sets that were looked for.
    """
    ledger = manifest.ledger
    cleaned, skipped, special_tokens = ledger.cleaned(), ledger.skipped(), ledger.special_tokens()
    return {
        "ledger.parquet": as_parquet(ledger.table()),
        "reasons.parquet": as_parquet(ledger.reasons()),
        **({"cleaned.parquet": as_parquet(cleaned)} if len(cleaned) else {}),
        **({"skipped.parquet": as_parquet(skipped)} if len(skipped) else {}),
        **({"special_tokens.parquet": as_parquet(special_tokens)} if len(special_tokens) else {}),
        **({COMPONENTS_FILE: as_parquet(component_table(components))} if components else {}),
        **({LICENSES_FILE: as_parquet(component_table(licenses, "license"))} if licenses else {}),
        **({LANGUAGES_FILE: as_parquet(component_table(languages, "language"))} if languages else {}),
        "ledger.json": as_json(ledger).encode(),
        "sources.parquet": as_parquet(source_files(recipe, inputs)),
        "README.md": card(recipe, manifest, places, overlaps, components, sets, licenses, languages).encode(),
    }


def lists_of(inputs: Sequence[SourcePlan]) -> tuple[NamedDigest, ...]:
    """Return the lists of terms that rules counted, by the set and their name there."""
    steps = [step for plan in inputs for step in plan.parameters.documents.steps]
    lists = {listed for step in steps for listed in step.term_files().items()}
    return tuple(NamedDigest(name=name, sha256=digest) for name, digest in sorted(lists))


def headlines(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> dict[str, AuditCounts]:
    """Return what the audit of each round found."""
    audits = dict[str, AuditCounts]()
    for of_round in rounds_of(recipe):
        if receipt := corpus_receipts.get(of_round.name_of("audit")):
            audit = load_manifest(recipe.folder, receipt)
            pairs = read_table(recipe.folder, audit.artifacts[0])
            audits[of_round.name_of("audit")] = count_unlike(
                pairs, minhash_round_of(of_round), by_index_of(audit), removed_in(audit)
            )
    return audits


def overlaps(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> list[tuple[int, Overlap]]:
    """Return what sources have of each other and of themselves, with the number of each round."""
    found = list[tuple[int, Overlap]]()
    for number, of_round in enumerate(rounds_of(recipe), 1):
        if receipt := corpus_receipts.get(of_round.name_of("overlap")):
            artifact = load_manifest(recipe.folder, receipt).artifacts[0]
            if overlap := Overlap.of_table(read_table(recipe.folder, artifact)):
                found.append((number, overlap))
    return found


def evaluation_sets(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> pa.Table | None:
    """Return the evaluation sets that were looked for, None where there were none."""
    receipt = corpus_receipts.get("contamination")
    return read_table(recipe.folder, load_manifest(recipe.folder, receipt).artifacts[0]) if receipt else None


def keys(recipe: Recipe, corpus_receipts: dict[str, Receipt]) -> dict[str, PublishedKeys]:
    """Return what the published band keys of each round were made with."""
    places = [of_round.name_of("bands") for of_round in rounds_of(recipe)]
    return {
        place: load_manifest(recipe.folder, corpus_receipts[place]).facts_as(PublishedKeys)
        for place in places
        if place in corpus_receipts
    }


def new_manifest(
    recipe: Recipe,
    ledger: Ledger,
    inputs: Sequence[SourcePlan],
    reasons: dict[str, dict[str, str]],
    audits: dict[str, AuditCounts],
    bands: dict[str, PublishedKeys],
) -> Published:
    """Make the manifest, still without the table of files and the accounts, which are written from it."""
    return Published(
        name=recipe.name,
        sample=recipe.sample,
        software=software(),
        tokenizer=tokenizer_of(recipe, inputs),
        recipe=recipe.as_written,
        made_of=origins(recipe, inputs),
        id_bits=BITS,
        table=NO_TABLE,
        ledger=ledger,
        reasons=reasons,
        audits=audits,
        bands=bands,
        accounts=(),
    )
