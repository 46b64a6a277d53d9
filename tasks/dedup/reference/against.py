"""Against: which documents go because another corpus, which stays as it is, has them already.

A document goes for one of another corpus with which it shares a bucket: of the first corpus of the recipe's list
that has one, for that with which it shares most. With `verify` the texts decide, by the recipe's shingles, and it
goes for the one that holds most of it. Documents that are protected or exempt stay.
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
class AgainstOfShard(VerdictJob):
    """Which documents of one shard go for a document of another corpus, and for which: by their buckets alone.

    matched: MATCHES of the source.
    """

    stage, version = "against", VERSION

    matched: Annotated[
        tuple[Artifact, ...], NotInKey("only the matches of this shard count, which `also_in_key` has")
    ]
    others: Annotated[tuple[PublishedCorpus, ...], NotInKey("only their labels and matches count")]
    comparison: Annotated[Comparison, NotInKey("its reason and rule are in the key")]

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
    def rule(self) -> list[Any] | None:
        """By what texts are compared, if they are."""
        return None

    @property
    def also_in_key(self) -> list[Any]:
        content = sha256(b"".join(column.to_numpy().tobytes() for column in self.matches.columns)).hexdigest()
        return [self.reason, [other.label for other in self.others], content, self.rule]

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
        """Return the pairs of which ours may go, of each document the best pair first."""
        return pairs


@dataclass(frozen=True)
class AgainstByTexts(AgainstOfShard):
    """The same, by their texts.

    of_texts: hashes of what the others' files hold. gathered: the others' texts, of which this shard's are a part;
    they follow from all else.
    """

    comparison: Annotated[TextComparison, NotInKey("its reason and rule are in the key")]
    of_texts: tuple[str, ...] = ()
    gathered: Annotated[tuple[Artifact, ...], NotInKey("`of_texts` and the matches decide it")] = ()
    part: Annotated[int, NotInKey("`of_texts` and the matches decide it")] = 0

    @property
    def rule(self) -> list[Any]:
        return self.comparison.rule

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
    source: str, jobs: Sequence[AgainstByTexts], references: Sequence[PublishedCorpus], stage: str
) -> list[AgainstByTexts]:
    """Have the texts of other corpora read that some jobs need, and tell those where they are."""
    wanted_ids = fan_out(AgainstByTexts.wanted, jobs, stage=stage, source=source)
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
        of_corpus = wanted.filter(pa.array(wanted.column("corpus").to_numpy() == number))
        if len(of_corpus):
            ids, parts = (of_corpus.column(name).to_numpy() for name in ("matched_doc_id", "part"))
            listed = write_wanted(folder, source, ids, parts)
            reading += [
                TextsByPart(folder, source, other, number, files, listed)
                for files in in_groups(texts_of(other))
            ]
    gathered = tuple(fan_out(TextsByPart.__call__, reading, stage=f"{stage} texts", source=source))
    return [replace(job, gathered=gathered, part=part) for part, job in enumerate(jobs)]


def contents(references: Sequence[PublishedCorpus]) -> tuple[str, ...]:
    """Return hashes of what the files of other corpora hold."""
    return tuple(content_of(texts_of(other)) for other in references)


def evidence_for(comparison: Comparison) -> pa.Schema:
    return pa.schema([*EVIDENCE, *comparison.evidence])


def evidence_of(dedup_round: Round) -> pa.Schema:
    """Return what is published of a document that goes: the one that it goes for."""
    return evidence_for(comparison_of(dedup_round.dedup))


def key(dedup_round: Round, trail: Trail, matched: Receipt, references: Sequence[PublishedCorpus]) -> str:
    comparison, labels = comparison_of(dedup_round.dedup), [other.label for other in references]
    how: tuple[Any, ...] = dedup_round.dedup.sentences.reference_reason.name, labels, ()
    if isinstance(comparison, TextComparison):
        how = comparison.rule, labels, contents(references)
    params = [*how, dedup_round.recipe.is_removable(trail.source)]
    return stage_key("against", VERSION, params, *trail.identities, matched.identity)


def is_compared(dedup_round: Round, source: str) -> bool:
    return bool(dedup_round.dedup.against) and dedup_round.recipe.is_removable(source)


def reasons_of(dedup_round: Round) -> dict[str, str]:
    """Return why documents go in a round: for one reason, where it has corpora to be against."""
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
    """Find which documents of a source another corpus has already."""
    folder, name = dedup_round.folder, dedup_round.name_of("against")
    groups, comparison = load_manifest(folder, matched).artifacts, comparison_of(dedup_round.dedup)
    histories = load_histories(folder, trail)
    if isinstance(comparison, TextComparison):
        of_texts = contents(references)
        by_texts = [
            AgainstByTexts(
                folder=folder,
                source=trail.source,
                history=history,
                matched=groups,
                others=tuple(references),
                comparison=comparison,
                of_texts=of_texts,
            )
            for history in histories
        ]
        return run_jobs(name, trail, with_texts(trail.source, by_texts, references, name))
    jobs = [
        AgainstOfShard(folder, trail.source, history, groups, tuple(references), comparison)
        for history in histories
    ]
    return run_jobs(name, trail, jobs)
