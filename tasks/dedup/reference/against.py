"""Against: which documents go because another corpus, which stays as it is, has them already.

A document goes for one of another corpus with which it shares a bucket: of the first corpus of the recipe's list
that has one, for that with which it shares most. With `verify` the texts decide, by the recipe's shingles, and it
goes for the one that holds most of it. Documents that are protected or exempt stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup.contested import first_and_last
from tasks.dedup.reference.compare import compared, places_of
from tasks.dedup.reference.corpora import ReferenceCorpus, content_of, texts_of
from tasks.dedup.reference.texts import TextsByPart, in_groups, write_wanted
from tasks.dedup.verify import SIMILARITIES, rule_of
from tasks.recipe.dedup import Dedup
from tasks.recipe.fields import Recipe
from tasks.stage.fan_out import fan_out
from tasks.stage.stage import stage
from tasks.stage.verdict_jobs import VerdictJob, run_jobs
from tasks.stage.verdicts import REASON, Trail, load_histories
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.parts import read_part
from tasks.storage.tables import rows_between, tables_of

VERSION = 2
REASONS = {
    "in_other_corpus": "another corpus, which stays as it is, has it or a near-duplicate of it",
    "text_in_other_corpus": "another corpus, which stays as it is, has its text",
    "words_in_other_corpus": "another corpus, which stays as it is, has its words in the same order",
}
OF_EXACT = {None: "in_other_corpus", "text": "text_in_other_corpus", "normalised": "words_in_other_corpus"}
EVIDENCE = pa.schema([("matched_corpus", pa.string()), ("matched_doc_id", pa.uint64())])


@dataclass(frozen=True)
class AgainstOfShard(VerdictJob):
    """Which documents of one shard go for a document of another corpus, and for which.

    matched: MATCHES of the source. of_texts: with `verify`, hashes of what the others' files hold. gathered: with
    `verify`, the others' texts, of which this shard's are a part; they follow from all else.
    """

    stage, version = "against", VERSION

    matched: tuple[Shard, ...]
    others: tuple[ReferenceCorpus, ...]
    dedup: Dedup
    of_texts: tuple[str, ...] = ()
    gathered: tuple[Shard, ...] = ()
    part: int = 0

    reasons = REASONS

    @cached_property
    def matches(self) -> pa.Table:
        """MATCHES of this shard."""
        return rows_between(self.folder, self.matched, *first_and_last(self.folder, self.history.shard))

    @property
    def params(self) -> list[Any]:
        content = sha256(b"".join(column.to_numpy().tobytes() for column in self.matches.columns)).hexdigest()
        rule = rule_of(self.dedup) if self.dedup.verify else None
        return [OF_EXACT[self.dedup.exact], [other.label for other in self.others], content, rule]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.history.digests, *self.of_texts)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("doc_id", pa.uint64()), *evidence_for(self.dedup), REASON])

    def wanted(self) -> pa.Table | None:
        """Return the documents of other corpora whose texts are needed, `corpus` and `matched_doc_id`."""
        if self.made_before():
            return None
        return self.matches.group_by(["corpus", "matched_doc_id"]).aggregate([])

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        is_remaining = np.isin(
            self.matches.column("doc_id").to_numpy(), remaining.column("doc_id").to_numpy()
        )
        pairs = self.matches.filter(pa.array(is_remaining))
        if self.dedup.verify:
            pairs = self.verified(pairs)
        doc_ids = pairs.column("doc_id").to_numpy()
        pairs = pairs.filter(pa.array(np.append(True, doc_ids[1:] != doc_ids[:-1])[: len(pairs)]))
        labels = pa.array([other.label for other in self.others], pa.string())
        columns = {
            **{name: pairs.column(name) for name in pairs.column_names},
            "matched_corpus": labels.take(pairs.column("corpus").combine_chunks()),
            REASON.name: pa.array([OF_EXACT[self.dedup.exact]] * len(pairs), pa.string()),
        }
        return pa.table({name: columns[name] for name in self.schema.names})

    def verified(self, pairs: pa.Table) -> pa.Table:
        """Return the pairs of which ours may go, with SIMILARITIES, of each document the best pair first."""
        verify = self.dedup.verify
        assert verify is not None
        with self.folder.scratch_file() as scratch:
            reading = read_part(self.folder, self.gathered, self.part, scratch)
            with reading as (rows, texts):
                places = places_of(pairs, rows, self.others)
                tables = [
                    compared(pairs, ours, places, texts, self.dedup)
                    for ours in tables_of(self.folder, self.history.shard, ["doc_id", "text"])
                ]
        measure = "containment" if verify.jaccard is None else "jaccard"
        order = [("doc_id", "ascending"), ("corpus", "ascending"), (measure, "descending")]
        return pa.concat_tables(tables).sort_by([*order, ("matched_doc_id", "ascending")])


def with_texts(
    source: str, jobs: Sequence[AgainstOfShard], others: Sequence[ReferenceCorpus], stage: str
) -> list[AgainstOfShard]:
    """Have the texts of other corpora read that some jobs need, and tell those where they are."""
    found = fan_out(AgainstOfShard.wanted, jobs, stage=stage, source=source)
    tables = [
        table.append_column("part", pa.array(np.full(len(table), part, np.uint32)))
        for part, table in enumerate(found)
        if table is not None and len(table)
    ]
    if not tables:
        return list(jobs)
    folder, wanted = jobs[0].folder, pa.concat_tables(tables)
    reading = list[TextsByPart]()
    for number, other in enumerate(others):
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


def evidence_for(dedup: Dedup) -> pa.Schema:
    return pa.schema([*EVIDENCE, *SIMILARITIES]) if dedup.verify else EVIDENCE


def evidence_of(recipe: Recipe) -> pa.Schema:
    """Return what is published of a document that goes: the one that it goes for."""
    return evidence_for(recipe.dedup)


def contents(recipe: Recipe, others: Sequence[ReferenceCorpus]) -> tuple[str, ...]:
    """Return hashes of what the files of other corpora hold, where their texts are compared."""
    return tuple(content_of(texts_of(other)) for other in others) if recipe.dedup.verify else ()


def key(recipe: Recipe, trail: Trail, matched: Receipt, others: Sequence[ReferenceCorpus]) -> str:
    rule = rule_of(recipe.dedup) if recipe.dedup.verify else OF_EXACT[recipe.dedup.exact]
    params = [rule, [other.label for other in others], contents(recipe, others), recipe.may_go(trail.source)]
    return stage_key("against", VERSION, params, *trail.identities, matched.identity)


def is_compared(recipe: Recipe, source: str) -> bool:
    return bool(recipe.dedup.against) and recipe.may_go(source)


def reasons_of(recipe: Recipe) -> dict[str, str]:
    """Return why documents go in a round: for one reason, where it has corpora to be against."""
    reason = OF_EXACT[recipe.dedup.exact]
    return {reason: REASONS[reason]} if recipe.dedup.against else {}


@stage(
    "against",
    key,
    inputs=("trail", "matches", "references"),
    enabled=is_compared,
    reasons=reasons_of,
    evidence=evidence_of,
)
def against(recipe: Recipe, trail: Trail, matched: Receipt, others: Sequence[ReferenceCorpus]) -> Manifest:
    """Find which documents of a source another corpus has already."""
    folder, name = recipe.folder, recipe.name_in_round("against")
    groups, of_texts = load_manifest(folder, matched).shards, contents(recipe, others)
    jobs = [
        AgainstOfShard(folder, trail.source, history, groups, tuple(others), recipe.dedup, of_texts)
        for history in load_histories(folder, trail)
    ]
    if recipe.dedup.verify:
        jobs = with_texts(trail.source, jobs, others, name)
    return run_jobs(name, trail, jobs)
