"""Explain: everything that is known about one document."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.documents import published_row, published_texts, removal_row, rows_with
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.reference.corpora import corpora_of
from zyda_flows.tasks.errors import BadRequest, ZydaError
from zyda_flows.tasks.ids import parse
from zyda_flows.tasks.lookup.document_reader import DocumentReader, Place
from zyda_flows.tasks.publish.differences import diff
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import Record

SHOWN_AS_TEXT = ("rules", "filter")  # stages that let a document go for itself, and for no other one
MOST_MEMBERS = 100  # of a cluster, which may have millions
MOST_LOOKED_UP = 20


class Explanation(Record):
    """A document's place, its cluster, and what was decided about it.

    members: of its cluster, the first MOST_MEMBERS of `cluster_size`. went_by: the stage by which one of the first
    of these went, by its id.
    sentence: what its reason means. evidence: what the stage that let it go found. kept_went_by: the stage by which
    the one that was kept for it went itself, if it did. diff: to the one kept for it, or to that of another corpus.
    text: of one that went for itself, as its source has it, or as an extractor of ours made it.
    """

    place: Place
    is_published: bool
    stage: str | None = None
    reason: str | None = None
    cluster_id: int | None = None
    cluster_size: int = 0
    sentence: str = ""
    evidence: dict[str, Any] = {}
    members: tuple[Place, ...] = ()
    went_by: dict[int, str] = {}
    kept: Place | None = None
    kept_went_by: str | None = None
    diff: tuple[str, ...] = ()
    text: str = ""
    extractor: str = ""


def explain(recipe: Recipe, doc_id: str) -> Explanation:
    """Look a document up in the published corpus. Raises BadInput for an id that it never had."""
    wanted = parse(doc_id)
    if wanted is None:
        raise BadRequest(f"{doc_id!r} is not a document id; expected a number, in decimals or as 0x...")
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    place = reader.place(wanted)
    removed = removal_row(corpus, wanted)
    published = published_row(corpus, wanted)
    if not len(removed) and not len(published):
        why = reason_set_aside(corpus, place) or "is no document of this corpus"
        raise BadRequest(f"{wanted}: row {place.row} of {place.file} {why}")
    removal = removed.to_pylist()[0] if len(removed) else {}
    place_of_clusters, cluster_id, size = cluster_of(corpus, wanted, removal)
    of_cluster = members(reader, place_of_clusters, cluster_id, min(size, MOST_MEMBERS))
    kept = reader.place(removal["kept_doc_id"]) if removal.get("kept_doc_id") is not None else None
    return Explanation(
        place=place,
        is_published=bool(len(published)),
        stage=removal.get("stage"),
        reason=removal.get("reason"),
        sentence=corpus.manifest.reasons.get(str(removal.get("stage")), {}).get(
            str(removal.get("reason")), ""
        ),
        evidence={n: v for n, v in removal.items() if n not in REMOVED.names and v not in (None, [])}
        | values_of_keep(reader, wanted, removal),
        cluster_id=cluster_id,
        cluster_size=size,
        members=of_cluster,
        went_by={one.doc_id: stage for one in of_cluster[:MOST_LOOKED_UP] if (stage := went_by(corpus, one))},
        kept=kept,
        kept_went_by=went_by(corpus, kept),
        diff=difference(reader, wanted, kept, removal),
        **(text_of(reader, wanted) if removal.get("stage") in SHOWN_AS_TEXT else {}),
    )


def reason_set_aside(corpus: PublishedCorpus, place: Place) -> str:
    """Say why a row was set aside, if it was."""
    for table in corpus.row_groups("set_aside", ["file", "row", "reason"]):
        of_row = table.filter((pc.field("file") == place.file) & (pc.field("row") == place.row))
        if len(of_row):
            return f"was set aside: {of_row.column('reason')[0].as_py()}"
    return ""


def difference(
    reader: DocumentReader, doc_id: int, kept: Place | None, removal: dict[str, Any]
) -> Sequence[str]:
    """Compare a document with the one that it went for, of this corpus or of another one."""
    if kept:
        return diff(reader.text(doc_id), reader.text(kept.doc_id))
    if removal.get("matched_doc_id") is None:
        return ()
    named, matched_id = removal["matched_corpus"], int(removal["matched_doc_id"])
    digests = {other.name: other.sha256 for other in reader.corpus.manifest.against}
    try:
        references = corpora_of(reader.recipe).values()
        matched = next(other for other in references if other.digest == digests.get(named))
        other_text = published_texts(matched, [matched_id])[matched_id]
    except (
        ZydaError,
        StopIteration,
        KeyError,
    ):  # it is no part of this corpus: it may be gone, or published anew
        return (f"(the corpus {named} is not there any more as it was then)",)
    return diff(reader.text(doc_id), other_text, kept=named) or ("(no difference)",)


def values_of_keep(reader: DocumentReader, doc_id: int, removal: dict[str, Any]) -> dict[str, Any]:
    """Read the columns that a source's `keep` names of a document that went for it, where they can be had."""
    if (removal.get("stage"), removal.get("reason")) != ("filter", "keep"):
        return {}
    from zyda_flows.tasks.quality.keep import columns_of  # DuckDB and sqlglot take a third of a second

    with suppress(ZydaError, ValueError):  # the recipe may say something else by now
        names, row = columns_of(reader.source_of(doc_id).keep or ""), reader.source_row(doc_id)
        return {name: row[name] for name in names if name in row}
    return {}


def text_of(reader: DocumentReader, doc_id: int) -> dict[str, str]:
    """Read a text that a rule let go, and its extractor, or say that it cannot be had any more."""
    try:
        return {"text": reader.text(doc_id), "extractor": reader.extractor_of(doc_id)}
    except ZydaError as error:
        return {"text": f"({error})"}


def went_by(corpus: PublishedCorpus, place: Place | None) -> str | None:
    """Return the stage that let a document go, if one did."""
    rows = removal_row(corpus, place.doc_id).to_pylist() if place else []
    return str(rows[0]["stage"]) if rows else None


def cluster_of(corpus: PublishedCorpus, doc_id: int, removal: dict[str, Any]) -> tuple[str, int | None, int]:
    """Return the cluster by which a document went, or the last that has it: its table's folder, id and size."""
    # As published: the recipe may have other rounds by now.
    files = corpus.files("clusters")
    places = sorted({file.path.partition("/")[0] for file in files}, reverse=True)
    if removal.get("kept_doc_id") is not None:
        places = [str(removal["stage"]).replace("removals", "clusters")]
    for place in places:
        rows = rows_with(corpus, corpus.files(f"{place}/"), "doc_id", [doc_id]).to_pylist()
        if rows:
            return place, int(rows[0]["cluster_id"]), int(rows[0]["cluster_size"])
    return "clusters", None, 0


def members(reader: DocumentReader, place: str, cluster_id: int | None, count: int) -> tuple[Place, ...]:
    """Return the first documents of a cluster, as many as `count`; the table is read until they are found."""
    places = list[Place]()
    if cluster_id is None:
        return ()
    for table in reader.corpus.row_groups(place, ["doc_id", "cluster_id"]):
        ids = table.filter(pc.field("cluster_id") == pa.scalar(cluster_id, pa.uint64())).column("doc_id")
        places += [reader.place(doc_id) for doc_id in ids.slice(0, count - len(places)).to_pylist()]
        if len(places) >= count:
            break
    return tuple(places)
