"""The corpus: the published folder, put in place at the end of a build, and mended where it is broken."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from zyda_flows.tasks.accounts.components import counted_tables
from zyda_flows.tasks.accounts.ledger_formats import as_json
from zyda_flows.tasks.accounts.published import File, Published, TableFile, checked
from zyda_flows.tasks.accounts.published_files import ROWS, as_parquet, file_table
from zyda_flows.tasks.accounts.published_stamps import save_stamps
from zyda_flows.tasks.accounts.readings import moment
from zyda_flows.tasks.publish.built_corpus import BuiltCorpus
from zyda_flows.tasks.publish.card import card
from zyda_flows.tasks.publish.one_copy import keep_one_copy, remove_replaced
from zyda_flows.tasks.publish.placing import Texts, publish_by_rename, publish_objects, unlisted_files
from zyda_flows.tasks.publish.provenance import source_files
from zyda_flows.tasks.publish.published_before import PublishedBefore, published_before, whole_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task


@task(task_run_name="corpus", **ONCE_A_BUILD)
def publish_corpus(recipe: Recipe, built: BuiltCorpus) -> bool:
    """Put the published folder in place; return False where it is there already, whole.

    Raises Damaged where a file that is to be published is not as it was made.
    """
    folder, files, manifest = recipe.folder, built.files, built.manifest
    texts = accounts(built, manifest, files)
    # Before any file is read, so that what changes while it is read is in doubt at the next build.
    before, now = published_before(folder), moment()
    whole = whole_files(recipe, before) if before is not None else dict[str, str]()
    is_there = before is not None and before.is_same(manifest, files, texts) and before.is_whole(whole)
    if before is not None and is_there:
        save_stamps(folder, whole, before.manifest.written(), before.stamps)
    else:
        whole = {file.path: whole[file.path] for file in files if file.path in whole}
        put_in_place(built, files, texts, whole, before, now)
    if not (folder.is_local or recipe.work_copies):
        keep_one_copy(folder, files, built.receipts)
    return not is_there


def put_in_place(
    built: BuiltCorpus,
    files: Sequence[TableFile],
    texts: Texts,
    whole: dict[str, str],
    before: PublishedBefore | None,
    now: str,
) -> None:
    """Publish the files that are not whole, and all accounts. whole: when each whole file was read, by its path."""
    folder = built.recipe.folder
    checked_at = {file.path: whole.get(file.path, now) for file in files}
    manifest, texts = with_tables(built.manifest, checked(files, checked_at), texts, now)
    put = publish_by_rename if folder.is_local else publish_objects
    put(folder, manifest, files, texts, whole.keys())
    if not folder.is_local:
        listed = [*(file.path for file in files), *texts]
        remove_replaced(folder, unlisted_files(folder, listed), built.receipts)
    stamps = {path: stamp for path, stamp in before.stamps.items() if path in whole} if before else {}
    save_stamps(folder, checked_at | dict.fromkeys(texts, now), manifest.written(), stamps)


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


def accounts(built: BuiltCorpus, manifest: Published, files: Sequence[TableFile]) -> Texts:
    """Write the ledger, the list of the sources' files and the card."""
    ledger, places = manifest.ledger, {file.path.rpartition("/")[0] for file in files}
    optional = {
        "cleaned.parquet": ledger.cleaned(),
        "skipped.parquet": ledger.skipped(),
        "special_tokens.parquet": ledger.special_tokens(),
    }
    tables = {path: table for path, table in optional.items() if len(table)}
    return {
        "ledger.parquet": as_parquet(ledger.table()),
        "reasons.parquet": as_parquet(ledger.reasons()),
        **{path: as_parquet(table) for path, table in (tables | counted_tables(built.counted_by)).items()},
        "ledger.json": as_json(ledger).encode(),
        "sources.parquet": as_parquet(source_files(built.recipe, built.plans)),
        "README.md": card(built, manifest, places).encode(),
    }
