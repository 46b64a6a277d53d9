"""The results of a build, from which the published folder is made."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from zyda_flows.tasks.accounts.agreed import ScoreAgreement, agreement_of
from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.accounts.bucketed import ScorePercentiles
from zyda_flows.tasks.accounts.components import COUNTED_BY, CountsBySource, of_category
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.paired import ConfirmedCounts, PairAccount
from zyda_flows.tasks.accounts.published import (
    NO_TABLE,
    NamedDigest,
    Published,
    PublishedKeys,
    PublishedVectors,
    TableFile,
)
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.audit import minhash_round_of
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.publish.audits import by_index_of, count_unlike, removed_in
from zyda_flows.tasks.publish.files import PublishedSource
from zyda_flows.tasks.publish.one_copy import published_name
from zyda_flows.tasks.publish.provenance import origins, software, tokenizer_of
from zyda_flows.tasks.quality.stored_vectors import STAGE as VECTORS
from zyda_flows.tasks.quality.vectors import VectorFacts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round, rounds_of
from zyda_flows.tasks.semantic.confirm import lowest_cosine
from zyda_flows.tasks.semantic.models import semantic_of
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest
from zyda_flows.tasks.storage.tables import read_table


@dataclass(frozen=True)
class BuiltCorpus:
    """The results of the stages of a build.

    references: corpora that a round is against, by their URLs. corpus_receipts: receipts of clusters, audits and
    band keys, by their folders. publish_receipts: of each source. reasons: for each stage that removes documents
    its reasons, each with a sentence about a document.
    """

    recipe: Recipe
    ledger: Ledger
    plans: list[SourcePlan]
    references: dict[str, PublishedCorpus]
    corpus_receipts: dict[str, Receipt]
    publish_receipts: list[Receipt]
    reasons: dict[str, dict[str, str]]

    @property
    def receipts(self) -> list[Receipt]:
        return [*self.corpus_receipts.values(), *self.publish_receipts]

    @cached_property
    def manifest(self) -> Published:
        """The manifest without the table of files and the accounts, which are written from it."""
        digests = {other.label: other.digest for other in self.references.values()}
        return Published(
            name=self.recipe.name,
            sample=self.recipe.sample,
            software=software(),
            tokenizer=tokenizer_of(self.recipe, self.plans),
            recipe=self.recipe.as_written,
            made_of=origins(self.recipe, self.plans),
            id_bits=BITS,
            ledger=self.ledger,
            reasons=self.reasons,
            audits=dict(self.audits()),
            bands=dict(self.band_keys()),
            table=NO_TABLE,
            accounts=(),
            against=tuple(NamedDigest(name=name, sha256=digest) for name, digest in digests.items()),
            lists=self.lists,
            joins=tuple(account for facts in self.facts.values() for account in facts.joins),
            percentiles=self.percentiles,
            vectors=self.vectors,
            semantic=dict(self.semantic_rounds()) or None,
        )

    @property
    def files(self) -> list[TableFile]:
        """The Parquet files of the corpus, by path."""
        files = [
            table_file(f"{place}/{band_of(shard)}" if place in self.manifest.bands else place, shard)
            for place, receipt in self.corpus_receipts.items()
            for shard in self.load(receipt).artifacts
            if shard.rows
        ]
        for receipt in self.publish_receipts:
            facts, source = self.facts[str(receipt.source)], str(receipt.source)
            files += [table_file(source, shard) for shard in self.load(receipt).artifacts]
            files += [table_file(f"removed/{source}", shard) for shard in facts.removed]
            files += [table_file(f"set_aside/{source}", shard) for shard in facts.set_aside]
        return sorted(files, key=lambda file: file.path)

    @cached_property
    def facts(self) -> dict[str, PublishedSource]:
        """The facts of each source's published files."""
        return {
            str(receipt.source): self.load(receipt).facts_as(PublishedSource)
            for receipt in self.publish_receipts
        }

    @property
    def documents(self) -> dict[str, dict[int, int]]:
        """The number of published documents of each input file, by source and number of the file."""
        return {source: dict(facts.documents) for source, facts in self.facts.items()}

    @cached_property
    def counted_by(self) -> dict[str, CountsBySource]:
        """The documents of each component, licence and language, by COUNTED_BY and source."""
        tables = {
            source: read_table(self.recipe.folder, facts.counted)
            for source, facts in self.facts.items()
            if facts.counted
        }
        return {
            category: {
                source: ends
                for source, counted in tables.items()
                if len(ends := of_category(counted, category))
            }
            for category in COUNTED_BY
        }

    @property
    def percentiles(self) -> tuple[ScorePercentiles, ...]:
        """The percentiles of scores, each once."""
        found = [each for facts in self.facts.values() for each in facts.percentiles]
        return tuple(each for place, each in enumerate(found) if each not in found[:place])

    @property
    def vectors(self) -> tuple[PublishedVectors, ...] | None:
        """The accounts of the published vectors; None if there are none."""
        receipt = self.corpus_receipts.get(VECTORS)
        return self.load(receipt).facts_as(VectorFacts).accounts if receipt else None

    @property
    def overlaps(self) -> Iterator[tuple[int, Overlap]]:
        """The overlaps of the sources, each with the number of its round; 0 if there is only one round."""
        for dedup_round, receipt in self.rounds_with("overlap"):
            table = read_table(self.recipe.folder, self.load(receipt).artifacts[0])
            if overlap := Overlap.of_table(table):
                yield dedup_round.number if self.recipe.rounds[1:] else 0, overlap

    @property
    def agreements(self) -> Iterator[ScoreAgreement]:
        """The agreement of scores within the clusters of each round."""
        for _, receipt in self.rounds_with("agreement"):
            yield from agreement_of(read_table(self.recipe.folder, self.load(receipt).artifacts[0]))

    @property
    def evaluation_sets(self) -> pa.Table | None:
        """The evaluation sets of decontamination, None if there are none."""
        receipt = self.corpus_receipts.get("contamination")
        return read_table(self.recipe.folder, self.load(receipt).artifacts[0]) if receipt else None

    @property
    def lists(self) -> tuple[NamedDigest, ...]:
        """The lists of terms that rules counted, by rule set and name."""
        steps = [step for plan in self.plans for step in plan.parameters.documents.steps]
        lists = {entry for step in steps for entry in step.term_files().items()}
        return tuple(NamedDigest(name=name, sha256=digest) for name, digest in sorted(lists))

    def audits(self) -> Iterator[tuple[str, AuditCounts]]:
        """Yield the name and the result of the audit of each round."""
        for dedup_round, receipt in self.rounds_with("audit"):
            audit = self.load(receipt)
            pairs = read_table(self.recipe.folder, audit.artifacts[0])
            dedup = minhash_round_of(dedup_round)
            counts = count_unlike(pairs, dedup, by_index_of(audit), removed_in(audit))
            yield dedup_round.name_of("audit"), counts

    def band_keys(self) -> Iterator[tuple[str, PublishedKeys]]:
        """Yield the folder and the parameters of the published band keys of each round."""
        for dedup_round, receipt in self.rounds_with("bands"):
            yield dedup_round.name_of("bands"), self.load(receipt).facts_as(PublishedKeys)

    def semantic_rounds(self) -> Iterator[tuple[str, PairAccount]]:
        """Yield the folder of the pairs and the account of each semantic round."""
        for dedup_round, receipt in self.rounds_with("pairs"):
            contradictions = self.load(self.corpus_receipts[dedup_round.name_of("contradictions")])
            removed = self.ledger.removed(dedup_round.name_of("removals")).documents
            account = PairAccount(
                confirmed=self.load(receipt).facts_as(ConfirmedCounts),
                lowest=lowest_cosine(dedup_round),
                contradictions=sum(file.rows for file in contradictions.artifacts),
                removed=removed if semantic_of(dedup_round).semantic.remove else None,
            )
            yield dedup_round.name_of("pairs"), account

    def rounds_with(self, place: str) -> Iterator[tuple[Round, Receipt]]:
        """Yield the rounds that publish tables in a folder, each with its receipt."""
        for dedup_round in rounds_of(self.recipe):
            if receipt := self.corpus_receipts.get(dedup_round.name_of(place)):
                yield dedup_round, receipt

    def load(self, receipt: Receipt) -> Manifest:
        return load_manifest(self.recipe.folder, receipt)


def band_of(keys: Artifact) -> str:
    """Return the folder of a file of band keys: its band."""
    return keys.name.partition("-")[0]


def table_file(place: str, shard: Artifact) -> TableFile:
    """Return the entry of a published table. place: its folder."""
    path = f"{place}/{published_name(shard)}"
    return TableFile(
        path=path, sha256=shard.digest, size=shard.size, rows=shard.rows, footer=shard.footer,
        footer_sha256=shard.footer_digest, text=shard.counts.bytes or None, made_as=shard,
    )  # fmt: skip
