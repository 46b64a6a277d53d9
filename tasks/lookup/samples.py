"""A random sample of a corpus for people to look at: what went, what stayed, or what shares a cluster.

Which documents are in a sample depends on its seed and on their ids alone: those whose hashes with it are the
smallest.
"""

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.documents import published_row
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Damaged, ZydaError
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.publish.differences import Segment, side_by_side
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Artifact, Manifest
from zyda_flows.tasks.storage.records import Record, read_record
from zyda_flows.tasks.storage.tables import rows_of
from zyda_flows.tasks.words import in_words

What = Literal["removed", "kept", "clusters"]
SHOWN = 20_000  # characters of a text that stands alone
MOST_MEMBERS = 1000  # of a cluster, of which one is shown beside its first
QUESTIONS = {
    "removed": "Was it right to remove it?",
    "kept": "Was it right to keep it?",
    "clusters": "Are these duplicates?",
}


class SampleOptions(Record):
    """What is sampled: `what`, of one stage, reason or source alone where they are given, so many, by a seed.

    round: of whose clusters.
    """

    what: What = "removed"
    stage: str | None = None
    reason: str | None = None
    source: str | None = None
    round: int = 1
    items: int = 30
    seed: int = 1


class Item(Record):
    """A document to look at, beside the one that was kept for it, or another one of its cluster, if there is one.

    facts: what is known of it, a line each. left, right: the texts, in segments of what both have and what one has.
    """

    doc_id: int
    other: int | None = None
    source: str
    stage: str | None = None
    reason: str | None = None
    facts: tuple[str, ...] = ()
    left: tuple[Segment, ...] = ()
    right: tuple[Segment, ...] = ()


def sample_of(recipe: Recipe, options: SampleOptions) -> list[Item]:
    """Choose documents of the published corpus, with their texts. Raises BadInput where there are none such."""
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    check_options(corpus, options)
    chosen = {"removed": removed_rows, "kept": kept_rows, "clusters": cluster_rows}[options.what](
        corpus, options
    )
    items = [with_texts(reader, row) for row in chosen]
    if not items:
        raise BadInput(f"there is nothing to look at: {described(options)}")
    return items


def described(options: SampleOptions) -> str:
    """Say what is sampled."""
    fields = {"stage": options.stage, "reason": options.reason, "source": options.source}
    return ", ".join([options.what, *(f"{name} {value}" for name, value in fields.items() if value)])


def check_options(corpus: PublishedCorpus, options: SampleOptions) -> None:
    """Raise BadInput for a stage, a reason or a source that the corpus does not have."""
    ledger = corpus.manifest.ledger
    if options.source is not None and options.source not in ledger.sources:
        raise BadInput(f"--source {options.source}: there are {', '.join(ledger.sources)}")
    if options.round != 1 and (options.what != "clusters" or place_of(options) not in corpus.folders()):
        raise BadInput(f"--round {options.round}: there are no clusters of such a round")
    if options.what != "removed" and (options.stage or options.reason):
        raise BadInput(f"--stage and --reason choose removed documents, not {options.what}")
    stages = [stage for stage in ledger.stages if ledger.removed(stage).documents]
    if options.stage is not None and options.stage not in stages:
        raise BadInput(
            f"--stage {options.stage}: documents were removed by {', '.join(stages) or 'no stage'}"
        )
    reasons = {reason for stage in stages for reason in ledger.removed_by(stage)}
    if options.reason is not None and options.reason not in reasons:
        raise BadInput(
            f"--reason {options.reason}: documents were removed for {', '.join(sorted(reasons)) or 'no reason'}"
        )


def place_of(options: SampleOptions) -> str:
    """Return the folder of the clusters of a round."""
    return "clusters" if options.round == 1 else f"clusters{options.round}"


def hashes_of(ids: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a hash of each id with a seed, (n,) to (n,): SplitMix64's last steps."""
    with np.errstate(over="ignore"):
        x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(seed + 1)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def smallest(tables: Iterable[pa.Table], column: str, options: SampleOptions) -> list[dict[str, Any]]:
    """Return the rows whose hashes of a column are the smallest, one of each value, in the order of these."""
    kept = dict[int, dict[str, Any]]()
    for table in tables:
        hashes, places = np.unique(
            hashes_of(table.column(column).to_numpy(), options.seed), return_index=True
        )
        for value, place in zip(hashes[: options.items].tolist(), places.tolist(), strict=False):
            if value not in kept:
                kept[value] = table.slice(place, 1).to_pylist()[0]
        kept = dict(heapq.nsmallest(options.items, kept.items(), key=itemgetter(0)))
    return [kept[value] for value in sorted(kept)]


def removed_rows(corpus: PublishedCorpus, options: SampleOptions) -> list[dict[str, Any]]:
    """Choose removed documents, but none whose removal was requested."""
    wanted = {"stage": options.stage, "reason": options.reason, "source": options.source}
    evidence = ["value", "threshold", "jaccard", "containment", "component"]

    def tables() -> Iterator[pa.Table]:
        for table in corpus.row_groups("removed", [*REMOVED.names, *evidence]):
            mask = np.array(table.column("stage").to_pylist(), object) != "deny"
            for name, value in wanted.items():
                if value is not None:
                    mask &= np.array(table.column(name).to_pylist(), object) == value
            yield table.filter(pa.array(mask))

    reasons = corpus.manifest.reasons
    rows = smallest(tables(), "doc_id", options)
    for row in rows:
        why = reasons.get(row["stage"], {}).get(row["reason"], "")
        facts = [f"removed by {in_words(row['stage'])}: {row['reason']}{why and ', '}{why}"]
        facts += [f"{name} {row[name]:.4g}" if isinstance(row[name], float) else f"{name} {row[name]}"
                  for name in evidence if row.get(name) is not None]  # fmt: skip
        row["other"], row["facts"] = row.get("kept_doc_id"), [*facts, f"{row['n_tokens']:,} tokens"]
    return rows


def kept_rows(corpus: PublishedCorpus, options: SampleOptions) -> list[dict[str, Any]]:
    """Choose documents that stayed."""
    rows = list[dict[str, Any]]()
    for source in [options.source] if options.source else corpus.manifest.ledger.sources:
        found = smallest(corpus.row_groups(str(source), ["doc_id", "n_tokens"]), "doc_id", options)
        rows += [{**row, "source": source, "facts": [f"{row['n_tokens']:,} tokens"]} for row in found]
    ids = np.array([row["doc_id"] for row in rows], np.uint64)
    order = np.argsort(hashes_of(ids, options.seed), kind="stable")[: options.items]
    return [rows[place] for place in order.tolist()]


def cluster_rows(corpus: PublishedCorpus, options: SampleOptions) -> list[dict[str, Any]]:
    """Choose clusters, of each its first document and another one."""
    names = ["doc_id", "cluster_id", "cluster_size"]
    sources = corpus.source_names

    def tables() -> Iterator[pa.Table]:
        for table in corpus.row_groups(place_of(options), names):
            mask = np.ones(len(table), np.bool_)
            if options.source:
                of_source = [
                    sources[split(doc_id)[0]] == options.source
                    for doc_id in table.column("doc_id").to_pylist()
                ]
                mask &= np.array(of_source, np.bool_)
            yield table.filter(pa.array(mask))

    chosen = {row["cluster_id"]: row["cluster_size"] for row in smallest(tables(), "cluster_id", options)}
    members = dict[int, list[int]]()
    for table in corpus.row_groups(place_of(options), names[:2]) if chosen else ():
        ids, of_clusters = (column.to_numpy() for column in table.columns)
        for place in np.flatnonzero(np.isin(of_clusters, np.array([*chosen], np.uint64))).tolist():
            of_one = members.setdefault(int(of_clusters[place]), [])
            if len(of_one) < MOST_MEMBERS:
                of_one.append(int(ids[place]))
    rows = []
    for cluster_id, size in chosen.items():
        others = np.array([one for one in members[cluster_id] if one != cluster_id], np.uint64)
        other = int(others[hashes_of(others, options.seed).argmin()])
        by_source = dict.fromkeys(sources.values(), 0)
        for one in members[cluster_id]:
            by_source[sources[split(one)[0]]] += 1
        of_sources = ", ".join(f"{name} {count:,}" for name, count in by_source.items() if count)
        facts = [f"cluster {cluster_id} of {size:,} documents: {of_sources}"]
        rows.append(
            {"doc_id": cluster_id, "other": other, "source": sources[split(cluster_id)[0]], "facts": facts}
        )
    return rows


def with_texts(reader: DocumentReader, row: dict[str, Any]) -> Item:
    """Read the texts of a document and of the other one."""
    doc_id, other = row["doc_id"], row.get("other")
    places = [reader.place(one) for one in (doc_id, other) if one is not None]
    facts = [
        *row["facts"],
        *(
            f"{side}{place.doc_id} of {place.source}, {place.file}, row {place.row}"
            for side, place in zip(("left: " if other else "", "right: "), places, strict=False)
        ),
    ]
    text, left, right = text_of(reader, doc_id), tuple[Segment, ...](), tuple[Segment, ...]()
    if other is None:
        left = (Segment(text=text[:SHOWN]), *([Segment(text=" …")] if len(text) > SHOWN else []))
    else:
        left, right = side_by_side(text, text_of(reader, other))
    return Item(
        doc_id=doc_id, other=other, source=row["source"], stage=row.get("stage"), reason=row.get("reason"),
        facts=tuple(facts), left=left, right=right,
    )  # fmt: skip


def text_of(reader: DocumentReader, doc_id: int) -> str:
    """Return a document's text: as it is published, as ingest has left it, or from its source."""
    try:
        if len(published := published_row(reader.corpus, doc_id)):
            return str(published.column("text")[0])
        return text_ingested(reader, doc_id) or reader.text(doc_id)
    except ZydaError as error:
        return f"(it cannot be read: {error})"


def text_ingested(reader: DocumentReader, doc_id: int) -> str:
    """Return a document's text from the work folder; nothing where it is not there, or was not kept."""
    source, number = reader.file_of(doc_id)[0], split(doc_id)[1]
    build = last_build(reader.corpus.root)
    paths = (
        [path for path in build.manifests if path.startswith(f"{MANIFESTS}/ingest-{source}-")]
        if build
        else []
    )
    try:
        manifests = [
            manifest for path in paths if (manifest := read_record(reader.corpus.root, path, Manifest))
        ]
        shards: list[Artifact] = [
            shard
            for manifest in manifests
            for shard in manifest.artifacts
            if numbers_in_name(shard)[0] == number
        ]
        for shard in shards:
            if len(rows := rows_of(reader.corpus.root, shard, doc_id, doc_id)):
                return str(rows.column("text")[0])
    except Damaged:
        pass
    return ""
