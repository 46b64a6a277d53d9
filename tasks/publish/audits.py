"""Summarise an audit: by source, by length, and the least similar pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.audited import AuditCounts, DecisionFacts, IndexCounts
from zyda_flows.tasks.dedup.audit import AuditedRound, audit
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.verdicts import trail_of
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Manifest, load_manifest
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.storage.tables import read_table

SIMILARITIES = (0.2, 0.4, 0.6, 0.8, 0.9)
LENGTHS = 10  # groups with equal numbers of pairs
WORST = 20
DISTRIBUTED = ("jaccard", "containment", "edit", "levenshtein")
CHARACTERS = np.logspace(1, 6, 26).round()


def count_unlike(
    table: pa.Table, dedup: MinHashRound, by_index: IndexCounts | None, removed: int
) -> AuditCounts:
    """Count the pairs of AUDIT below the threshold. removed: the documents that the pairs are a sample of."""
    measure, threshold = dedup.measure, dedup.threshold
    unlike = int(np.count_nonzero(table.column(measure).to_numpy() < np.float32(threshold)))
    return AuditCounts(
        pairs=len(table),
        unlike=unlike,
        threshold=round(threshold, 4),
        measure=measure,
        by_index=by_index,
        removed=removed,
    )


def by_index_of(manifest: Manifest) -> IndexCounts | None:
    """Return the counts of clusters judged by an index from an audit's manifest, None if there are none."""
    return manifest.facts_as(DecisionFacts).by_index


def removed_in(manifest: Manifest) -> int:
    """Return the number of documents that the round of an audit's manifest removed."""
    return sum(trail[-1].removed.documents for trail in manifest.facts_as(AuditedRound).trails)


@dataclass(frozen=True)
class SharesBelow:
    """The shares of pairs below each of SIMILARITIES, and last below the threshold."""

    name: str
    pairs: int
    below: tuple[float, ...]


def count_shares_below(name: str, likeness: NDArray[np.float32], threshold: float) -> SharesBelow:
    places = (*SIMILARITIES, np.float32(threshold))
    return SharesBelow(name, len(likeness), tuple(float(np.mean(likeness < place)) for place in places))


def by_source(table: pa.Table, headline: AuditCounts) -> list[SharesBelow]:
    """Return the shares of each source with removed documents, and of all sources."""
    likeness, names = table.column(headline.measure).to_numpy(), table.column("source").to_pylist()
    source_shares = [
        count_shares_below(name, likeness[np.array([n == name for n in names])], headline.threshold)
        for name in dict.fromkeys(names)
    ]
    if len(source_shares) <= 1:
        return source_shares
    return [*source_shares, count_shares_below("all", likeness, headline.threshold)]


def by_length(table: pa.Table, headline: AuditCounts) -> list[tuple[int, float]]:
    """Return for LENGTHS lengths the share of unlike pairs among all pairs up to the length: (characters, share).

    It is the cumulative rate of false positives of the paper on Zyda (arXiv 2406.01981).
    """
    if not len(table):
        return []
    ordered = table.sort_by([("characters", "ascending"), ("doc_id", "ascending")])
    is_unlike = ordered.column(headline.measure).to_numpy() < np.float32(headline.threshold)
    lengths = ordered.column("characters").to_numpy()
    ends = np.unique(np.linspace(0, len(table), LENGTHS + 1).round().astype(int))[1:]
    return [(int(lengths[end - 1]), float(np.mean(is_unlike[:end]))) for end in ends]


class Histogram(NamedTuple):
    """Counts of pairs, (n,), between neighbours of `ends`, (n + 1,). The last bin includes its end."""

    ends: tuple[float, ...]
    counts: tuple[int, ...]


def count_in_bins(table: pa.Table, column: str, ends: NDArray[np.float64]) -> Histogram:
    """Count the pairs of AUDIT by a column; values outside `ends` are counted in the first or the last bin."""
    values = np.clip(table.column(column).to_numpy().astype(float), ends[0], ends[-1])
    return Histogram(tuple(ends.tolist()), tuple(np.histogram(values, ends)[0].tolist()))


def by_similarity(table: pa.Table) -> dict[str, Histogram]:
    """Return the distribution of each similarity in the table, in steps of 0.05.

    These are figures 2a and 2b of the paper on Zyda (arXiv 2406.01981), which has the edit similarity.
    """
    ends = np.linspace(0, 1, 21).round(2)
    return {name: count_in_bins(table, name, ends) for name in DISTRIBUTED if name in table.column_names}


def lengths_of_removed(table: pa.Table) -> Histogram:
    """Return the distribution of the removed documents' characters: figure 8a of the paper on Zyda."""
    return count_in_bins(table, "characters", CHARACTERS)


class AuditedPair(NamedTuple):
    """A row of AUDIT. lines: the differences of the two texts; empty if the texts are not stored any more."""

    doc_id: int
    kept_doc_id: int
    source: str
    jaccard: float
    containment: float
    edit: float
    characters: int
    kept_characters: int
    buckets: int
    steps: int | None
    levenshtein: float = float("nan")
    lines: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return the pair as a sentence."""
        apart = "in one bucket" if self.steps == 1 else f"{self.steps or 'many'} buckets apart"
        return (
            f"{self.doc_id} ({self.source}, {self.characters:,} characters) was removed, {self.kept_doc_id} "
            f"({self.kept_characters:,}) was kept: Jaccard {self.jaccard:.2f}, containment {self.containment:.2f}, "
            f"edit {self.edit:.2f}, {apart}"
        )


def worst_pairs(folder: Folder, manifest: Manifest, table: pa.Table, measure: str) -> list[AuditedPair]:
    """Return the WORST least similar pairs of an audit, with their differences."""
    ordered = table.sort_by([(measure, "ascending"), ("doc_id", "ascending")])
    pairs = [AuditedPair(**row) for row in ordered.slice(0, WORST).to_pylist()]
    texts = texts_at_hand(folder, manifest, [i for pair in pairs for i in (pair.doc_id, pair.kept_doc_id)])
    return [
        pair._replace(lines=tuple(diff(texts[pair.doc_id], texts[pair.kept_doc_id])))
        if {pair.doc_id, pair.kept_doc_id} <= texts.keys()
        else pair
        for pair in pairs
    ]


def texts_at_hand(folder: Folder, manifest: Manifest, doc_ids: Sequence[int]) -> dict[int, str]:
    """Read texts of documents that an audit has stored, by id; missing texts are left out."""
    artifacts = [finished_artifact(folder, path) for path in manifest.intermediate]
    wanted, texts = pc.field("doc_id").isin(pa.array(doc_ids, pa.uint64())), dict[int, str]()
    for artifact in filter(None, artifacts):
        table = read_table(folder, artifact).filter(wanted)
        texts |= dict(zip(table.column("doc_id").to_pylist(), table.column("text").to_pylist(), strict=True))
    return texts


def pairs_of(folder: Folder, manifest: Manifest) -> pa.Table:
    """Read AUDIT."""
    return read_table(folder, manifest.artifacts[0])


def audit_again(dedup_round: Round, pairs: int) -> Manifest:
    """Audit a round of the last build of a corpus again, from its work files. Raises Denied if they are missing."""
    trails = [trail_of([*receipts]) for receipts in last_audit(dedup_round).facts_as(AuditedRound).trails]
    return load_manifest(dedup_round.folder, audit.receipt_for(dedup_round, trails, pairs))


def last_audit(dedup_round: Round) -> Manifest:
    """Return the manifest of the last build's audit of a round."""
    folder = dedup_round.folder
    built = last_build(folder)
    if built is None:
        raise Denied(f"{folder.url}: nothing has been built there yet; zyda build builds it")
    audits = [
        path for path in built.manifests if path.startswith(f"{MANIFESTS}/{dedup_round.name_of('audit')}-")
    ]
    if not audits:
        raise Denied(f"{folder.url}: the last build has no such round as the recipe; zyda build builds it")
    manifest = read_record(folder, audits[0], Manifest)
    if manifest is None:
        raise Denied(f"{folder.url}: work files of the last build are missing; zyda build makes them again")
    return manifest
