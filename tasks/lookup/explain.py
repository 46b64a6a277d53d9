"""Collect the origin of a document and all decisions about it."""

import re
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.documents import published_row, published_texts, removal_row, rows_with
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.facts import lacking
from zyda_flows.tasks.dedup.reference.corpora import corpora_of
from zyda_flows.tasks.errors import BadRequest, ZydaError
from zyda_flows.tasks.ids import parse
from zyda_flows.tasks.lookup.document_pairs import OtherOfPair, pairs_of
from zyda_flows.tasks.lookup.document_passages import RepeatedPassage, passages_of
from zyda_flows.tasks.lookup.document_reader import DocumentPlace, DocumentReader
from zyda_flows.tasks.publish.differences import Segment, diff
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.quality.conditions import Condition, condition_of_stage
from zyda_flows.tasks.quality.filter import KEEP
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import Record

SHOWN_AS_TEXT = re.compile("rules|filter|keep_.*")  # stages that remove a document for its own text
MOST_MEMBERS = 100  # of a cluster, which may have millions of documents
MOST_LOOKED_UP = 20
MOST_COMPARED = 1_000_000  # characters of texts whose facts are compared, which takes up to 3 seconds


class Explanation(Record):
    """A document's place, its cluster, and the decisions about it.

    stage, reason: of its removal. sentence: an explanation of the reason. condition: the SQL condition of the
    stage, which is not true for the document; "" for other stages. evidence: the evidence of the removal, and the
    scores, labels and columns of the source that the condition reads, by column. members: the first MOST_MEMBERS of
    the `cluster_size` documents of its cluster. members_removed_by: the stages that removed the first
    MOST_LOOKED_UP members, by id. kept: the document that was kept instead of this one. kept_removed_by: the stage
    that removed that document later, if any. diff: to that document, or to the matched document of another corpus.
    lacks: the facts of this document that the other document lacks, by their kind; empty for texts of more than
    MOST_COMPARED characters. is_too_long: whether they are empty for this reason.
    text: if the document was removed for its own text, the text of the source, or the text that `extractor` made of
    it. passages: the first MOST_PASSAGES of its repeated passages. passage_count: all of them. cut_characters: the
    characters that are cut for them; None if unknown. cut_text: its text before the cut, as kept and cut segments;
    long segments are shortened, and the text after the first MOST_CUT cut segments is missing. similar: of a
    published document, the first MOST_PAIRS of its `similar_count` pairs in semantic rounds.
    """

    place: DocumentPlace
    is_published: bool
    stage: str | None = None
    reason: str | None = None
    cluster_id: int | None = None
    cluster_size: int = 0
    sentence: str = ""
    condition: str = ""
    evidence: dict[str, Any] = {}
    members: tuple[DocumentPlace, ...] = ()
    members_removed_by: dict[int, str] = {}
    kept: DocumentPlace | None = None
    kept_removed_by: str | None = None
    diff: tuple[str, ...] = ()
    lacks: dict[str, tuple[str, ...]] = {}
    is_too_long: bool = False
    text: str = ""
    extractor: str = ""
    passages: tuple[RepeatedPassage, ...] = ()
    passage_count: int = 0
    cut_characters: int | None = None
    cut_text: tuple[Segment, ...] = ()
    similar: tuple[OtherOfPair, ...] = ()
    similar_count: int = 0


def explain(recipe: Recipe, doc_id: str) -> Explanation:
    """Look a document up in the published corpus. Raises BadRequest if the corpus has no document of this id."""
    wanted = parse(doc_id)
    if wanted is None:
        raise BadRequest(f"{doc_id!r} is not a document id; expected a number, decimal or as 0x...")
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    place = reader.place(wanted)
    removed = removal_row(corpus, wanted)
    published = published_row(corpus, wanted)
    if not len(removed) and not len(published):
        why = reason_set_aside(corpus, place) or "is no document of this corpus"
        raise BadRequest(f"{wanted}: row {place.row} of {place.file} {why}")
    removal = removed.to_pylist()[0] if len(removed) else {}
    condition = condition_of(corpus, place.source, removal)
    folder, cluster_id, size = cluster_of(corpus, wanted, removal)
    cluster_members = members(reader, folder, cluster_id, min(size, MOST_MEMBERS))
    kept = reader.place(removal["kept_doc_id"]) if removal.get("kept_doc_id") is not None else None
    return Explanation(
        place=place,
        is_published=bool(len(published)),
        stage=removal.get("stage"),
        reason=removal.get("reason"),
        sentence=corpus.manifest.reasons.get(str(removal.get("stage")), {}).get(
            str(removal.get("reason")), ""
        ),
        condition=condition.expression if condition else "",
        evidence={n: v for n, v in removal.items() if n not in REMOVED.names and v not in (None, [])}
        | (source_values(reader, wanted, condition) if condition else {}),
        cluster_id=cluster_id,
        cluster_size=size,
        members=cluster_members,
        members_removed_by={
            member.doc_id: stage
            for member in cluster_members[:MOST_LOOKED_UP]
            if (stage := removed_by(corpus, member))
        },
        kept=kept,
        kept_removed_by=removed_by(corpus, kept),
        **difference(reader, wanted, kept, removal),
        **passages_of(reader, wanted),
        **(pairs_of(reader, wanted) if len(published) else {}),
        **(text_of(reader, wanted) if SHOWN_AS_TEXT.fullmatch(removal.get("stage", "")) else {}),
    )


def reason_set_aside(corpus: PublishedCorpus, place: DocumentPlace) -> str:
    """Return why a row was set aside; "" if it was not."""
    for table in corpus.row_groups("set_aside", ["file", "row", "reason"]):
        rows = table.filter((pc.field("file") == place.file) & (pc.field("row") == place.row))
        if len(rows):
            return f"was set aside: {rows.column('reason')[0].as_py()}"
    return ""


def difference(
    reader: DocumentReader, doc_id: int, kept: DocumentPlace | None, removal: dict[str, Any]
) -> dict[str, Any]:
    """Compare a removed document with its kept document, of this corpus or of another one.

    Returns the fields `diff`, `lacks` and `is_too_long` of an Explanation.
    """
    if kept:
        return compared(reader.text(doc_id), reader.text(kept.doc_id), "kept")
    if removal.get("matched_doc_id") is None:
        return {}
    named, matched_id = removal["matched_corpus"], int(removal["matched_doc_id"])
    digests = {other.name: other.sha256 for other in reader.corpus.manifest.against}
    try:
        references = corpora_of(reader.recipe).values()
        matched = next(other for other in references if other.digest == digests.get(named))
        other_text = published_texts(matched, [matched_id])[matched_id]
    except (ZydaError, StopIteration, KeyError):  # the other corpus may be deleted, or published again
        return {"diff": (f"(the corpus {named} is missing or has changed since this build)",)}
    found = compared(reader.text(doc_id), other_text, named)
    return found | {"diff": found["diff"] or ("(no difference)",)}


def compared(text: str, other: str, name: str) -> dict[str, Any]:
    """Return the fields `diff`, `lacks` and `is_too_long` of an Explanation. name: of the other text."""
    is_too_long = max(len(text), len(other)) > MOST_COMPARED
    lacks = {} if is_too_long else lacking(text, other)
    return {"diff": diff(text, other, kept=name), "lacks": lacks, "is_too_long": is_too_long}


def condition_of(corpus: PublishedCorpus, source: str, removal: dict[str, Any]) -> Condition | None:
    """Return the condition of the build that removed a document; None if another decision removed it."""
    if removal.get("reason") != KEEP:
        return None
    built = Recipe.model_validate({**corpus.manifest.recipe, "storage": corpus.folder.url})
    return condition_of_stage(built, source, removal["stage"])


def source_values(reader: DocumentReader, doc_id: int, condition: Condition) -> dict[str, Any]:
    """Read the columns of the source that a condition reads, if they can still be read."""
    with suppress(ZydaError):  # the recipe and the source may have changed since
        row = reader.source_row(doc_id)
        return {
            name: row[name] for name in condition.columns if name in row and name != condition.source.text
        }
    return {}


def text_of(reader: DocumentReader, doc_id: int) -> dict[str, str]:
    """Read the text that a rule removed, and its extractor; the error as text if it cannot be read."""
    try:
        return {"text": reader.text(doc_id), "extractor": reader.extractor_of(doc_id)}
    except ZydaError as error:
        return {"text": f"({error})"}


def removed_by(corpus: PublishedCorpus, place: DocumentPlace | None) -> str | None:
    """Return the stage that removed a document, None if it was not removed."""
    rows = removal_row(corpus, place.doc_id).to_pylist() if place else []
    return str(rows[0]["stage"]) if rows else None


def cluster_of(corpus: PublishedCorpus, doc_id: int, removal: dict[str, Any]) -> tuple[str, int | None, int]:
    """Return the folder, id and size of the cluster for which a document was removed, or of its last cluster."""
    # The published folders are listed because the recipe may have other rounds now.
    files = corpus.files("clusters")
    places = sorted({file.path.partition("/")[0] for file in files}, reverse=True)
    if removal.get("kept_doc_id") is not None:
        places = [str(removal["stage"]).replace("removals", "clusters")]
    for place in places:
        rows = rows_with(corpus, corpus.files(f"{place}/"), "doc_id", [doc_id]).to_pylist()
        if rows:
            return place, int(rows[0]["cluster_id"]), int(rows[0]["cluster_size"])
    return "clusters", None, 0


def members(
    reader: DocumentReader, place: str, cluster_id: int | None, count: int
) -> tuple[DocumentPlace, ...]:
    """Return the first documents of a cluster, as many as `count`; the table is read until they are found."""
    places = list[DocumentPlace]()
    if cluster_id is None:
        return ()
    for table in reader.corpus.row_groups(place, ["doc_id", "cluster_id"]):
        ids = table.filter(pc.field("cluster_id") == pa.scalar(cluster_id, pa.uint64())).column("doc_id")
        places += [reader.place(doc_id) for doc_id in ids.slice(0, count - len(places)).to_pylist()]
        if len(places) >= count:
            break
    return tuple(places)
