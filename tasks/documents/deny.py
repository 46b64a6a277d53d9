"""The stage `deny`: removes documents on deny lists, before all other stages.

A document is identified by its address (in the column `url` of its source), by a value in another column, by its
text, by the letters of its text or by its id. All texts are read only if a list has hashes of texts without
signatures, and once for the keys of letters. `tasks.documents.deny_rows` handles rows that are set aside.

Rows out: `doc_id` and `reason`. There are no columns of evidence, because new columns would change all files of
`removed/`: a request rewrites only the shards with its documents, also the first request.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.deny_list import DenyList, digests_of_lists, lists_of, load_deny_list
from zyda_flows.tasks.documents.deny_rows import RowsWithoutDenied
from zyda_flows.tasks.documents.deny_signatures import (
    LIKENESS,
    TextMatch,
    hashes_without_keys,
    letters_job,
    matches_in_shard,
    rounds_with_signatures,
    same_letters_in_shard,
    standard_error,
)
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.letters import LETTERS, LettersRound
from zyda_flows.tasks.sources.named_values import column_of, column_texts
from zyda_flows.tasks.sources.small_files import PlannedFile
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, load_manifest, stage_key
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import unpack
from zyda_flows.tasks.storage.tables import open_table, parts_of

VERSION = 1
REQUESTED, BY_LIKENESS = "requested", "requested-near"


class IngestedColumns(Facts):
    """The part of ingest's facts with the columns that the shards of a source have together."""

    packed: str

    @property
    def schema_of_all(self) -> pa.Schema:
        return unpack(self.packed)


class RowsAside(Facts):
    """The tables of rows that are set aside: as ingest stored them, or without the rows on deny lists."""

    set_aside: tuple[Artifact, ...] | None = None


@dataclass(frozen=True)
class DeniedOfShard(VerdictJob):
    """The documents of a shard to remove by deny lists.

    url: the column with their addresses. rounds: the rounds by whose keys texts are compared.
    """

    stage, version = "deny", VERSION

    lists: Annotated[tuple[PlannedFile, ...], NotInKey("their digests are in the key")]
    url: str
    rounds: Annotated[tuple[MinHashRound, ...], NotInKey("only what makes their signatures counts")] = ()

    @property
    def also_in_key(self) -> list[Any]:
        letters = (LETTERS,) if load_deny_list(self.lists).letter_hashes else ()
        keys = [dedup.key_parameters for dedup in (*self.rounds, *letters)]
        return [[file.sha256 for file in self.lists], keys]

    @property
    def schema(self) -> pa.Schema:
        return VERDICTS

    @property
    def reasons(self) -> Collection[str]:
        return (REQUESTED, BY_LIKENESS)

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        denied, remaining_ids = load_deny_list(self.lists), remaining.column("doc_id").to_numpy()
        requested, matches = denied_in_shard(
            self.folder, str(self.source), self.history.shard, denied, self.url, self.rounds
        )
        similar = [match.doc_id for match in matches]
        matching = [requested, np.array(similar, np.uint64), denied.requested_and_similar_ids[1]]
        removed = np.intersect1d(np.concatenate(matching), remaining_ids)
        reasons = np.where(np.isin(removed, requested), REQUESTED, BY_LIKENESS)
        return pa.table([removed, pa.array(reasons, pa.string())], schema=VERDICTS)


def denied_in_shard(
    folder: Folder, source: str, shard: Artifact, denied: DenyList, url: str, rounds: Sequence[MinHashRound]
) -> tuple[NDArray[np.uint64], list[TextMatch]]:
    """Return the ids of a shard's documents on deny lists, ascending, (n,), and documents with similar texts."""
    matches = [*matches_in_shard(folder, source, shard, denied, rounds)]
    requested_ids = [
        np.array([match.doc_id for match in matches if match.is_same], np.uint64),
        same_letters_in_shard(folder, source, shard, denied),
    ]
    hashes = hashes_without_keys(denied, rounds)
    with open_table(folder, shard) as parquet:
        columns = columns_to_read(denied, url, parquet.schema_arrow.names, with_texts=bool(hashes))
        requested_ids += [denied_ids(denied, table, url, hashes) for table in parts_of(parquet, columns)]
    requested = np.unique(np.concatenate(requested_ids))
    known = set(requested.tolist())
    return requested, [match for match in matches if match.doc_id not in known]


def columns_to_read(denied: DenyList, url: str, names: Sequence[str], *, with_texts: bool) -> list[str]:
    """Return the columns of a shard that the lists need."""
    paths = [*([url] if denied.has_addresses else []), *denied.columns]
    texts = ["text"] if with_texts else []
    return list(dict.fromkeys(["doc_id", *filter(None, (column_of(path, names) for path in paths)), *texts]))


def denied_ids(
    denied: DenyList, table: pa.Table, url: str, hashes: Collection[str] = ()
) -> NDArray[np.uint64]:
    """Return the ids of the documents in a table to remove: (n,) uint64. hashes: of texts to compare."""
    ids = table.column("doc_id").to_numpy()
    is_denied = np.isin(ids, denied.requested_and_similar_ids[0])
    if denied.has_addresses:
        is_denied |= denied.denies_addresses(values_in(table, url))
    for column, values in denied.values.items():
        is_denied |= np.asarray(pc.is_in(values_in(table, column), pa.array(sorted(values), pa.string())))
    for column, value_hashes in denied.value_hashes.items():
        is_denied |= are_among(value_hashes, values_in(table, column))
    if hashes:
        is_denied |= are_among(hashes, table.column("text"))
    return ids[is_denied]


def are_among(hashes: Collection[str], texts: pa.Array | pa.ChunkedArray) -> list[bool]:
    """Return for each text whether its SHA-256 is in `hashes`. An empty text, of a removed document, never is."""
    return [bool(text) and sha256(text.encode()).hexdigest() in hashes for text in texts.to_pylist()]


def values_in(table: pa.Table, path: str) -> pa.Array:
    """Return the values of a column as text: (n,) strings, null for values that a request cannot name."""
    try:
        return column_texts(table, path, "value")
    except ValueError:  # `deny` warns once of each source
        return pa.nulls(len(table), pa.string())


def has_lists(recipe: Recipe, source: str) -> bool:
    return bool(recipe.deny_lists)


def deny_key(recipe: Recipe, trail: Trail) -> str:
    keys = [dedup.key_parameters for dedup in (*rounds_asked_about(recipe), *letters_asked_about(recipe))]
    params = [
        [*digests_of_lists(recipe).values()],
        recipe.source(trail.source).url,
        keys,
        recipe.publish_set_aside,
    ]
    return stage_key("deny", VERSION, params, *trail.identities)


def rounds_asked_about(recipe: Recipe) -> tuple[MinHashRound, ...]:
    """Return the rounds by whose signatures the lists identify texts."""
    if not load_deny_list(lists_of(recipe)).signed:
        return ()
    return rounds_with_signatures(recipe.rounds)


def letters_asked_about(recipe: Recipe) -> tuple[LettersRound, ...]:
    """Return the settings of the keys of letters if the lists have hashes of letters; else an empty tuple."""
    return (LETTERS,) if load_deny_list(lists_of(recipe)).letter_hashes else ()


def reasons_of(recipe: Recipe) -> dict[str, str]:
    errors = [standard_error(dedup.values) for dedup in rounds_with_signatures(recipe.rounds)]
    error = f" to within {max(errors):.3f} (standard error)" if errors else ""
    return {
        REQUESTED: "it is on a deny list, on request",
        BY_LIKENESS: "its text is similar to one on a deny list: a Jaccard similarity of "
        f"{LIKENESS:g} or more, or it contains that share of the text, estimated by MinHash{error}",
    }


@stage(
    "deny",
    deny_key,
    enabled=has_lists,
    reasons=reasons_of,
)
def deny(recipe: Recipe, trail: Trail) -> Manifest:
    """Remove the documents of a source on the recipe's deny lists."""
    lists, url = lists_of(recipe), recipe.source(trail.source).url
    histories = load_histories(recipe.folder, trail)
    denied, ingested = load_deny_list(lists), load_manifest(recipe.folder, trail.receipts[0])
    columns = ingested.facts_as(IngestedColumns).schema_of_all
    for path in [*([url] if denied.has_addresses else []), *denied.columns]:
        if (fault := fault_of_column(path, columns)) is not None:
            is_url = path == url
            by = "an address; if another column has them, name that as its `url`" if is_url else "its value"
            warn(f"source {trail.source}: {fault}, so no document of it is removed by {by}")
    rounds = rounds_asked_about(recipe)
    if unknown := len(hashes_without_keys(denied, rounds) - denied.text_hashes):
        why = "the recipe has no round with such signatures"
        warn(
            f"source {trail.source}: {unknown:,} texts are compared for equality only, not for similarity: {why}"
        )
    jobs = [DeniedOfShard(recipe.folder, trail.source, history, lists, url, rounds) for history in histories]
    manifest = run_jobs("deny", trail, jobs)
    aside = ingested.facts_as(RowsAside).set_aside if recipe.publish_set_aside else None
    without = [RowsWithoutDenied(recipe.folder, trail.source, rows, lists) for rows in aside or ()]
    judged = fan_out(RowsWithoutDenied.__call__, without, stage="deny", source=trail.source)
    letters = [letters_job(recipe.folder, trail.source, history.shard).path for history in histories]
    return manifest.model_copy(
        update={
            "facts": RowsAside(set_aside=tuple(judged) or None).written(),
            "intermediate": tuple(letters if denied.letter_hashes else ()),
        }
    )


def fault_of_column(path: str, columns: pa.Schema) -> str | None:
    """Return why a column cannot identify documents of a source; None if it can."""
    if column_of(path, columns.names) is None:
        return f"it has no column {path}"
    try:
        column_texts(columns.empty_table(), path, "value")
    except ValueError as error:
        return str(error)
    return None
