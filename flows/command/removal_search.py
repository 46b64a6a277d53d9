"""Print the results of a removal request, and search other folders for its documents."""

from typing import TYPE_CHECKING

from zyda_flows.flows.command.terminal import as_size, as_time, console, say, table_of
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.erasure.dependents import Search
    from zyda_flows.tasks.erasure.requested_documents import RequestedDocuments
    from zyda_flows.tasks.erasure.search_cost import SearchCost
    from zyda_flows.tasks.recipe.fields import Recipe

MOST_SHOWN = 20


def print_documents(requested: "RequestedDocuments", *, is_dry: bool) -> None:
    """Print the requested documents by source. is_dry: nothing is removed, and no deny list is written."""
    from zyda_flows.tasks.erasure.certified_removal import count_by_source  # late

    if not requested.documents:
        later = "" if is_dry else "; the deny list removes matching documents that are added later"
        say(f"no document of the corpus matches the request, or all are removed already{later}")
    for line in requested.notes:
        say(line)
    if not requested.documents:
        return
    columns = ("source", "documents", "only similar", "tokens", "now")
    table = table_of(*columns, words=["source", "now"])
    for row in count_by_source(requested.documents):
        table.add_row(row.source, f"{row.documents:,}", f"{row.by_likeness:,}", f"{row.tokens:,}", row.was)
    console().print(table)
    for document in requested.documents[:MOST_SHOWN]:
        similar = "" if document.likeness is None else f", similarity {document.likeness:.2f}"
        say(
            f"  {document.doc_id}  source {document.source}, file {document.file}, row {document.row}{similar}"
        )
    if len(requested.documents) > MOST_SHOWN:
        say(f"  and {len(requested.documents) - MOST_SHOWN:,} more")


def print_cost(cost: "SearchCost", search: "Search") -> None:
    """Print the estimated cost of a search."""
    err = console(stderr=True, soft_wrap=True)
    err.print(
        f"to search: {counted(cost.files, 'shard')}, {as_size(round(cost.size))}, about {as_time(cost.seconds)} "
        f"of a core; for copies of matching documents at most {as_size(round(cost.text_size))} and "
        f"{as_time(cost.text_seconds)} more"
        + (f"; and {counted(search.files, 'file')} of other folders" if search.files else "")
    )


def folders_to_search(among: list[str]) -> "Search":
    """List folders in which other corpora and mixtures are searched."""
    from zyda_flows.tasks.erasure.dependents import Search  # late
    from zyda_flows.tasks.storage.folder import absolute  # late

    search = Search()
    with console(stderr=True).status("listing"):
        for url in among:
            search.look_into(absolute(url))
    return search


def search_dependents(recipe: "Recipe", requested: "RequestedDocuments", search: "Search") -> None:
    """Search the listed folders for other corpora and mixtures with the requested documents."""
    import numpy as np  # late

    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late
    from zyda_flows.tasks.erasure.dependent_kinds import Subject  # late
    from zyda_flows.tasks.erasure.requested_documents import listed_requests  # late

    ids = np.array([document.doc_id for document in requested.documents], np.uint64)
    if (search.searched or search.not_searched) and not len(ids):
        listed = (line.id for line in listed_requests(recipe) if line.id is not None)
        ids = np.array(sorted(listed), np.uint64)
        say(f"searching for all documents removed from the corpus on request: {len(ids):,}")
    search.follow(Subject(PublishedCorpus.at(recipe.folder.url), ids))


def print_search(search: "Search") -> None:
    for dependent in search.dependents:
        pieces = f" in {counted(dependent.pieces, 'piece')}" if dependent.pieces else ""
        note = f" ({dependent.note})" if dependent.note else ""
        documents = counted(dependent.documents, "document")
        say(f"{dependent.kind}: {dependent.url} has {documents}{pieces} of {dependent.of}{note}")
        say(f"  to do: {dependent.todo}")
        for at in dependent.positions[:MOST_SHOWN]:
            say(f"  {at.output}, tokens {at.start:,} to {at.start + at.tokens - 1:,}: document {at.doc_id}")
        if dependent.pieces > MOST_SHOWN:
            say(f"  and {dependent.pieces - MOST_SHOWN:,} more; the certificate lists them")
    for line in search.not_searched:
        say(f"not searched: {line}")
