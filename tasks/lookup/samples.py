"""Draw a random sample of a corpus for people to review: removed documents, kept documents, or pairs of a cluster.

A sample consists of the documents with the smallest hashes of the seed and the document's id.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import sources_of, split
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.document_texts import text_of
from zyda_flows.tasks.publish.differences import Segment, side_by_side
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import in_words

SampleKind = Literal["removed", "kept", "clusters"]
SHOWN_CHARACTERS = 20_000  # characters of a text that is shown without another text
MOST_MEMBERS = 1000  # of a cluster; a member is shown beside the first document
QUESTIONS = {
    "removed": "Was it right to remove it?",
    "kept": "Was it right to keep it?",
    "clusters": "Are these duplicates?",
}


class SampleOptions(Record):
    """The options of a sample.

    stage, reason, source: None means all. round: the round whose clusters are sampled.
    """

    what: SampleKind = "removed"
    stage: str | None = None
    reason: str | None = None
    source: str | None = None
    round: int = 1
    items: int = 30
    seed: int = 1


class SampleItem(Record):
    """A document to review, with the document that was kept instead, or another document of its cluster, if any.

    facts: about the document, a line each. left, right: the texts, in segments that are common or differ.
    """

    doc_id: int
    other: int | None = None
    source: str
    stage: str | None = None
    reason: str | None = None
    facts: tuple[str, ...] = ()
    left: tuple[Segment, ...] = ()
    right: tuple[Segment, ...] = ()


def sample_of(recipe: Recipe, options: SampleOptions) -> list[SampleItem]:
    """Draw documents of the published corpus, with their texts. Raises BadInput if no document matches."""
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    check_options(corpus, options)
    chosen = {"removed": removed_rows, "kept": kept_rows, "clusters": cluster_rows}[options.what](
        corpus, options
    )
    items = [with_texts(reader, row) for row in chosen]
    if not items:
        raise BadInput(f"no document matches: {described(options)}")
    return items


def described(options: SampleOptions) -> str:
    """Return the options as text."""
    fields = {"stage": options.stage, "reason": options.reason, "source": options.source}
    return ", ".join([options.what, *(f"{name} {value}" for name, value in fields.items() if value)])


def check_options(corpus: PublishedCorpus, options: SampleOptions) -> None:
    """Raise BadInput for a stage, reason, source or round that the corpus does not have."""
    ledger = corpus.manifest.ledger
    if options.source is not None and options.source not in ledger.sources:
        raise BadInput(f"--source {options.source}: the corpus has the sources {', '.join(ledger.sources)}")
    if options.round != 1 and (options.what != "clusters" or place_of(options) not in corpus.folders()):
        raise BadInput(f"--round {options.round}: no clusters of this round are published")
    if options.what != "removed" and (options.stage or options.reason):
        raise BadInput(f"--stage and --reason choose removed documents, not {options.what}")
    stages = [stage for stage in ledger.stages if ledger.removed(stage).documents]
    reasons = {reason for stage in stages for reason in ledger.removed_by(stage)}
    expect_known("--stage", options.stage, stages, "documents were removed by")
    expect_known("--reason", options.reason, sorted(reasons), "documents were removed for")


def expect_known(option: str, value: str | None, known: Sequence[str], beginning: str) -> None:
    """Raise BadInput if an option has a value that is not in `known`. beginning: of the list in the message."""
    if value is not None and value not in known:
        raise BadInput(f"{option} {value}: {beginning} {', '.join(known) or 'nothing'}")


def place_of(options: SampleOptions) -> str:
    """Return the published folder of the clusters of a round."""
    return "clusters" if options.round == 1 else f"clusters{options.round}"


def hashes_of(ids: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a hash of each id with a seed, (n,) to (n,): SplitMix64's last steps."""
    with np.errstate(over="ignore"):
        x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(seed + 1)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def smallest_hashes(tables: Iterable[pa.Table], column: str, options: SampleOptions) -> list[dict[str, Any]]:
    """Return the rows with the smallest hashes of a column, one row for each value, sorted by hash."""
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
    """Draw removed documents, except documents that a request removed."""
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
    rows = smallest_hashes(tables(), "doc_id", options)
    for row in rows:
        why = reasons.get(row["stage"], {}).get(row["reason"], "")
        facts = [f"removed by {in_words(row['stage'])}: {row['reason']}{why and ', '}{why}"]
        facts += [f"{name} {row[name]:.4g}" if isinstance(row[name], float) else f"{name} {row[name]}"
                  for name in evidence if row.get(name) is not None]  # fmt: skip
        row["other"], row["facts"] = row.get("kept_doc_id"), [*facts, f"{row['n_tokens']:,} tokens"]
    return rows


def kept_rows(corpus: PublishedCorpus, options: SampleOptions) -> list[dict[str, Any]]:
    """Draw kept documents."""
    rows = list[dict[str, Any]]()
    for source in [options.source] if options.source else corpus.manifest.ledger.sources:
        drawn = smallest_hashes(corpus.row_groups(str(source), ["doc_id", "n_tokens"]), "doc_id", options)
        rows += [{**row, "source": source, "facts": [f"{row['n_tokens']:,} tokens"]} for row in drawn]
    ids = np.array([row["doc_id"] for row in rows], np.uint64)
    order = np.argsort(hashes_of(ids, options.seed), kind="stable")[: options.items]
    return [rows[place] for place in order.tolist()]


def cluster_rows(corpus: PublishedCorpus, options: SampleOptions) -> list[dict[str, Any]]:
    """Draw clusters: of each its first document and another document."""
    sources, folder = corpus.source_names, place_of(options)

    def tables() -> Iterator[pa.Table]:
        numbers = [number for number, name in sources.items() if options.source in (None, name)]
        for table in corpus.row_groups(folder, ["doc_id", "cluster_id", "cluster_size"]):
            is_chosen = np.isin(sources_of(table.column("doc_id").to_numpy()), numbers)
            yield table.filter(pa.array(is_chosen))

    sizes = {
        row["cluster_id"]: row["cluster_size"] for row in smallest_hashes(tables(), "cluster_id", options)
    }
    members = members_of(corpus, folder, sizes)
    rows = []
    for cluster_id, size in sizes.items():
        others = np.array([doc_id for doc_id in members[cluster_id] if doc_id != cluster_id], np.uint64)
        other = int(others[hashes_of(others, options.seed).argmin()])
        counts = Counter(sources[split(doc_id)[0]] for doc_id in members[cluster_id])
        by_source = ", ".join(f"{name} {counts[name]:,}" for name in sources.values() if counts[name])
        facts = [f"cluster {cluster_id} of {size:,} documents: {by_source}"]
        rows.append(
            {"doc_id": cluster_id, "other": other, "source": sources[split(cluster_id)[0]], "facts": facts}
        )
    return rows


def members_of(corpus: PublishedCorpus, folder: str, clusters: Collection[int]) -> dict[int, list[int]]:
    """Return the first MOST_MEMBERS documents of some clusters, by the id of the cluster."""
    members, wanted = dict[int, list[int]](), np.array([*clusters], np.uint64)
    for table in corpus.row_groups(folder, ["doc_id", "cluster_id"]) if clusters else ():
        ids, cluster_ids = (column.to_numpy() for column in table.columns)
        for place in np.flatnonzero(np.isin(cluster_ids, wanted)).tolist():
            documents = members.setdefault(int(cluster_ids[place]), [])
            if len(documents) < MOST_MEMBERS:
                documents.append(int(ids[place]))
    return members


def with_texts(reader: DocumentReader, row: dict[str, Any]) -> SampleItem:
    """Return an item with the texts of a document and of its other document."""
    doc_id, other = row["doc_id"], row.get("other")
    places = [reader.place(shown) for shown in (doc_id, other) if shown is not None]
    facts = [
        *row["facts"],
        *(
            f"{side}{place.doc_id} of {place.source}, {place.file}, row {place.row}"
            for side, place in zip(("left: " if other else "", "right: "), places, strict=False)
        ),
    ]
    text, left, right = text_of(reader, doc_id), tuple[Segment, ...](), tuple[Segment, ...]()
    if other is None:
        left = (
            Segment(text=text[:SHOWN_CHARACTERS]),
            *([Segment(text=" …")] if len(text) > SHOWN_CHARACTERS else []),
        )
    else:
        left, right = side_by_side(text, text_of(reader, other))
    return SampleItem(
        doc_id=doc_id, other=other, source=row["source"], stage=row.get("stage"), reason=row.get("reason"),
        facts=tuple(facts), left=left, right=right,
    )  # fmt: skip
