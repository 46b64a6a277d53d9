"""The stage `against`: removes the documents that a reference corpus already contains.

A document is removed if it shares a bucket with a document of a reference corpus. Its match is a document of the
first corpus in the recipe's list that has matches: the document with the most shared buckets. With `verify`, the
texts decide, by the recipe's shingles, and the match is the most similar document. Protected and exempt documents
are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.comparison import Comparison
from zyda_flows.tasks.dedup.contested import first_and_last
from zyda_flows.tasks.dedup.reference.compare import compare_pairs, places_of
from zyda_flows.tasks.dedup.reference.corpora import content_of, texts_of
from zyda_flows.tasks.dedup.reference.texts import TextsByPart, in_groups, write_wanted
from zyda_flows.tasks.dedup.verify import TextComparison, comparison_of
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import REASON, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.parts import read_part
from zyda_flows.tasks.storage.tables import rows_between, tables_of

VERSION = 1
EVIDENCE = pa.schema([("matched_corpus", pa.string()), ("matched_doc_id", pa.uint64())])


@dataclass(frozen=True)
class ReferenceRemovals(VerdictJob):
    """The removed documents of a shard, each with its match in another corpus, decided by shared buckets only.

    matched: MATCHES of the source.
    """

    stage, version = "against", VERSION

    matched: Annotated[
        tuple[Artifact, ...], NotInKey("only the matches of this shard count; `also_in_key` has their hash")
    ]
    others: Annotated[tuple[PublishedCorpus, ...], NotInKey("only their labels and matches count")]
    comparison: Annotated[Comparison, NotInKey("its reason and settings are in the key")]

    @property
    def reason(self) -> str:
        return self.comparison.dedup.sentences.reference_reason.name

    @property
    def reasons(self) -> tuple[str, ...]:
        return (self.reason,)

    @cached_property
    def matches(self) -> pa.Table:
        """MATCHES of this shard."""
        return rows_between(self.folder, self.matched, *first_and_last(self.folder, self.history.shard))

    @property
    def key_settings(self) -> list[Any] | None:
        """The settings of the comparison of texts, for the key, or None if no texts are compared."""
        return None

    @property
    def also_in_key(self) -> list[Any]:
        content = sha256(b"".join(column.to_numpy().tobytes() for column in self.matches.columns)).hexdigest()
        return [self.reason, [other.label for other in self.others], content, self.key_settings]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("doc_id", pa.uint64()), *evidence_for(self.comparison), REASON])

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        is_remaining = np.isin(
            self.matches.column("doc_id").to_numpy(), remaining.column("doc_id").to_numpy()
        )
        pairs = self.best_first(self.matches.filter(pa.array(is_remaining)))
        doc_ids = pairs.column("doc_id").to_numpy()
        pairs = pairs.filter(pa.array(np.append(True, doc_ids[1:] != doc_ids[:-1])[: len(pairs)]))
        labels = pa.array([other.label for other in self.others], pa.string())
        columns = {
            **{name: pairs.column(name) for name in pairs.column_names},
            "matched_corpus": labels.take(pairs.column("corpus").combine_chunks()),
            REASON.name: pa.array([self.reason] * len(pairs), pa.string()),
        }
        return pa.table({name: columns[name] for name in self.schema.names})

    def best_first(self, pairs: pa.Table) -> pa.Table:
        """Return the pairs whose own document may be removed, sorted by document, the best pair first."""
        return pairs


@dataclass(frozen=True)
class ReferenceRemovalsByText(ReferenceRemovals):
    """The removed documents of a shard, each with its match in another corpus, decided by a comparison of texts.

    of_texts: hashes of the content of the other corpora's files. gathered: texts of the other corpora; this shard
    reads the part `part` of them. They are determined by the other fields.
    """

    comparison: Annotated[TextComparison, NotInKey("its reason and settings are in the key")]
    of_texts: tuple[str, ...] = ()
    gathered: Annotated[tuple[Artifact, ...], NotInKey("`of_texts` and the matches decide it")] = ()
    part: Annotated[int, NotInKey("`of_texts` and the matches decide it")] = 0

    @property
    def key_settings(self) -> list[Any]:
        return self.comparison.key_settings

    def wanted(self) -> pa.Table | None:
        """Return the documents of other corpora whose texts are needed, `corpus` and `matched_doc_id`."""
        if self.made_before():
            return None
        return self.matches.group_by(["corpus", "matched_doc_id"]).aggregate([])

    def best_first(self, pairs: pa.Table) -> pa.Table:
        """Return the pairs with SIMILARITIES."""
        with self.folder.scratch_file() as scratch:
            reading = read_part(self.folder, self.gathered, self.part, scratch)
            with reading as (rows, texts):
                places = places_of(pairs, rows, self.others)
                tables = [
                    compare_pairs(pairs, ours, places, texts, self.comparison)
                    for ours in tables_of(self.folder, self.history.shard, ["doc_id", "text"])
                ]
        order = [
            ("doc_id", "ascending"),
            ("corpus", "ascending"),
            (self.comparison.verify.measure, "descending"),
        ]
        return pa.concat_tables(tables).sort_by([*order, ("matched_doc_id", "ascending")])


def with_texts(
    source: str, jobs: Sequence[ReferenceRemovalsByText], references: Sequence[PublishedCorpus], stage: str
) -> list[ReferenceRemovalsByText]:
    """Read the texts of other corpora that the jobs need, and return the jobs with the locations of their texts."""
    wanted_ids = fan_out(ReferenceRemovalsByText.wanted, jobs, stage=stage, source=source)
    tables = [
        table.append_column("part", pa.array(np.full(len(table), part, np.uint32)))
        for part, table in enumerate(wanted_ids)
        if table is not None and len(table)
    ]
    if not tables:
        return list(jobs)
    folder, wanted = jobs[0].folder, pa.concat_tables(tables)
    reading = list[TextsByPart]()
    for number, other in enumerate(references):
        in_corpus = wanted.filter(pa.array(wanted.column("corpus").to_numpy() == number))
        if len(in_corpus):
            ids, parts = (in_corpus.column(name).to_numpy() for name in ("matched_doc_id", "part"))
            listed = write_wanted(folder, source, ids, parts)
            reading += [
                TextsByPart(folder, source, other, number, files, listed)
                for files in in_groups(texts_of(other))
            ]
    gathered = tuple(fan_out(TextsByPart.__call__, reading, stage=f"{stage} texts", source=source))
    return [replace(job, gathered=gathered, part=part) for part, job in enumerate(jobs)]


def contents(references: Sequence[PublishedCorpus]) -> tuple[str, ...]:
    """Return a hash of the content of the files of each corpus."""
    return tuple(content_of(texts_of(other)) for other in references)


def evidence_for(comparison: Comparison) -> pa.Schema:
    return pa.schema([*EVIDENCE, *comparison.evidence_schema])


def evidence_of(dedup_round: Round) -> pa.Schema:
    """Return the schema of the published evidence of a removed document: its match in another corpus."""
    return evidence_for(comparison_of(dedup_round.dedup))


def key(dedup_round: Round, trail: Trail, matched: Receipt, references: Sequence[PublishedCorpus]) -> str:
    comparison, labels = comparison_of(dedup_round.dedup), [other.label for other in references]
    settings: tuple[Any, ...] = dedup_round.dedup.sentences.reference_reason.name, labels, ()
    if isinstance(comparison, TextComparison):
        settings = comparison.key_settings, labels, contents(references)
    params = [*settings, dedup_round.recipe.is_removable(trail.source)]
    return stage_key("against", VERSION, params, *trail.identities, matched.identity)


def is_compared(dedup_round: Round, source: str) -> bool:
    dedup = dedup_round.dedup
    return bool(dedup.against) and dedup.has_keys and dedup_round.recipe.is_removable(source)


def reasons_of(dedup_round: Round) -> dict[str, str]:
    """Return the reason of removals with its sentence; empty if the round has no reference corpora."""
    return dict([dedup_round.dedup.sentences.reference_reason]) if dedup_round.dedup.against else {}


@stage(
    "against",
    key,
    inputs=("trail", "matches", "references"),
    enabled=is_compared,
    reasons=reasons_of,
    evidence=evidence_of,
)
def against(
    dedup_round: Round, trail: Trail, matched: Receipt, references: Sequence[PublishedCorpus]
) -> Manifest:
    """Remove the documents of a source that a reference corpus already contains."""
    folder, name = dedup_round.folder, dedup_round.name_of("against")
    groups, comparison = load_manifest(folder, matched).artifacts, comparison_of(dedup_round.dedup)
    histories = load_histories(folder, trail)
    if isinstance(comparison, TextComparison):
        content_hashes = contents(references)
        by_texts = [
            ReferenceRemovalsByText(
                folder=folder,
                source=trail.source,
                history=history,
                matched=groups,
                others=tuple(references),
                comparison=comparison,
                of_texts=content_hashes,
            )
            for history in histories
        ]
        return run_jobs(name, trail, with_texts(trail.source, by_texts, references, name))
    jobs = [
        ReferenceRemovals(folder, trail.source, history, groups, tuple(references), comparison)
        for history in histories
    ]
    return run_jobs(name, trail, jobs)
