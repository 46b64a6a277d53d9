"""Write the published folder at the end of a build, and repair it if files are missing or damaged."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from zyda_flows.tasks.accounts.components import counted_tables
from zyda_flows.tasks.accounts.judged import judges_table
from zyda_flows.tasks.accounts.ledger_formats import as_json
from zyda_flows.tasks.accounts.published import File, Published, TableFile, with_check_times
from zyda_flows.tasks.accounts.published_files import GROUP_ROWS, as_parquet, make_file_table
from zyda_flows.tasks.accounts.published_stamps import save_stamps
from zyda_flows.tasks.accounts.readings import utc_now
from zyda_flows.tasks.publish.built_corpus import BuiltCorpus
from zyda_flows.tasks.publish.card import card
from zyda_flows.tasks.publish.one_copy import keep_one_copy, remove_replaced
from zyda_flows.tasks.publish.placing import Texts, publish_by_rename, publish_objects, unlisted_files
from zyda_flows.tasks.publish.provenance import source_files
from zyda_flows.tasks.publish.published_before import PublishedBefore, read_published_before, whole_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task


@task(task_run_name="corpus", **ONCE_A_BUILD)
def publish_corpus(recipe: Recipe, built: BuiltCorpus) -> bool:
    """Write the published folder. Return False if an equal, undamaged corpus was published already.

    Raises Damaged if a file to publish has changed since it was made.
    """
    folder, files, manifest = recipe.folder, built.files, built.manifest
    texts = accounts(built, manifest, files)
    # Stamps are listed before files are read: a file that changes meanwhile is read again at the next build.
    before, now = read_published_before(folder), utc_now()
    whole = whole_files(recipe, before) if before is not None else dict[str, str]()
    is_published = before is not None and before.is_same(manifest, files, texts) and before.is_whole(whole)
    if before is not None and is_published:
        save_stamps(folder, whole, before.manifest.written(), before.stamps)
    else:
        whole = {file.path: whole[file.path] for file in files if file.path in whole}
        put_in_place(built, files, texts, whole, before, now)
    if not (folder.is_local or recipe.work_copies):
        keep_one_copy(folder, files, built.receipts)
    return not is_published


def put_in_place(
    built: BuiltCorpus,
    files: Sequence[TableFile],
    texts: Texts,
    whole: dict[str, str],
    before: PublishedBefore | None,
    now: str,
) -> None:
    """Publish the files that are missing or damaged, and all accounts.

    whole: the time of reading of other files.
    """
    folder = built.recipe.folder
    checked_at = {file.path: whole.get(file.path, now) for file in files}
    manifest, texts = with_tables(built.manifest, with_check_times(files, checked_at), texts, now)
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
    """Return the manifest with the table of files and the accounts, and the texts with the table."""
    entries = make_file_table(files)
    content = as_parquet(entries, GROUP_ROWS)
    path = f"files-{sha256(content).hexdigest()[:8]}.parquet"
    footer = (
        int.from_bytes(content[-8:-4], "little") + 8
    )  # the footer ends with its size and four bytes of magic
    entry = {"rows": len(entries), "footer": footer, "footer_sha256": sha256(content[-footer:]).hexdigest()}
    accounts = tuple(file_of(path, text, now) for path, text in texts.items())
    table = TableFile(**file_of(path, content, now).model_dump(), **entry)
    return manifest.model_copy(update={"table": table, "accounts": accounts}), {path: content, **texts}


def file_of(path: str, content: bytes, now: str) -> File:
    """Return the entry of a file in the manifest."""
    return File(path=path, sha256=sha256(content).hexdigest(), size=len(content), checked_at=now)


def accounts(built: BuiltCorpus, manifest: Published, files: Sequence[TableFile]) -> Texts:
    """Return the contents of the accounts: the ledger, the list of the sources' files and the card."""
    ledger, places = manifest.ledger, {file.path.rpartition("/")[0] for file in files}
    optional = {
        "cleaned.parquet": ledger.cleaned(),
        "skipped.parquet": ledger.skipped(),
        "special_tokens.parquet": ledger.special_tokens(),
        "judges.parquet": judges_table(ledger),
    }
    tables = {path: table for path, table in optional.items() if len(table)}
    return {
        "ledger.parquet": as_parquet(ledger.table()),
        "reasons.parquet": as_parquet(ledger.reasons()),
        **{path: as_parquet(table) for path, table in (tables | counted_tables(built.counted_by)).items()},
        "ledger.json": as_json(ledger).encode(),
        "sources.parquet": as_parquet(source_files(built.recipe, built.plans, built.documents)),
        "README.md": card(built, manifest, places).encode(),
    }
