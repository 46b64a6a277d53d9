"""`zyda forget`: what somebody asked to have removed, found, removed for good, and certified."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.build import keep_prefect_off_the_screen, run_build
from zyda_flows.flows.command.find import text_of
from zyda_flows.flows.command.terminal import confirm, console, in_threads, say, table_of
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.erasure.dependents import Search
    from zyda_flows.tasks.erasure.removal_certificate import Certificate
    from zyda_flows.tasks.erasure.removal_request import RemovalRequest, RequestReader
    from zyda_flows.tasks.erasure.requested_documents import RequestedDocuments
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda forget recipe.yaml --urls requests.txt",
    "zyda forget recipe.yaml --domain example.org --among .",
    "zyda forget recipe.yaml --text page.txt --yes",
)
MOST_SHOWN = 20
Many = list[str] | None


def forget(
    recipe_path: RecipePath,
    urls: Annotated[
        Many, typer.Option(metavar="FILE", help="Addresses of pages, or a deny list of any kind of lines.")
    ] = None,
    domain: Annotated[Many, typer.Option(metavar="NAME", help="A domain, with all below it.")] = None,
    ids: Annotated[
        Many, typer.Option(metavar="ID", help="Ids of documents, as zyda explain takes them.")
    ] = None,
    column: Annotated[
        Many, typer.Option(metavar="NAME=VALUE", help="A value in a column of a source.")
    ] = None,
    text: Annotated[
        Many,
        typer.Option(metavar="FILE-OR-TEXT", help="A whole text: a file, - for standard input, or a text."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Only what is named, and not also documents that are like it.")
    ] = False,
    among: Annotated[
        Many,
        typer.Option(metavar="URL", help="A folder to search for corpora and mixtures that have it, too."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before anything is removed.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove what somebody asked to have removed, for good, with a certificate.

    Shows what it would remove: the documents in every source, those that are like them, and with --among the
    corpora and mixtures that have them, which stay as they are. Once confirmed, a deny list beside the corpus has
    every build leave them out, what they touch is built anew, and what earlier builds left is deleted. Each option
    may be given several times. Without a request, it finishes one that was interrupted.
    """
    keep_prefect_off_the_screen()
    from zyda_flows.tasks.erasure.removal_request import RequestReader  # late
    from zyda_flows.tasks.storage.claims import FORGET, expect_free, forgetting  # late

    recipe = load(recipe_path, storage, sample)
    asking = RequestReader()
    asking.add_lists(urls or ())
    asking.add_domains(domain or ())
    asking.add_ids(ids or ())
    asking.add_columns(column or ())
    texts = [text_in(one) for one in text or ()]
    if "" in (among or ()):
        raise BadInput("--among: a folder is expected")
    expect_corpus(recipe)
    request = Request(recipe_path, storage, sample, asking, texts, among or [], alike=not exact)
    if dry_run:
        expect_free(recipe.folder, (FORGET,))
        request.found_in(recipe, is_dry=True)
        return
    with forgetting(recipe.folder, "zyda forget"):
        request.carry_out(recipe, is_sure=yes)


def expect_corpus(recipe: "Recipe") -> None:
    """Raise Denied where there is no corpus, before anything is written there."""
    from zyda_flows.tasks.accounts.published import NOTHING, PUBLISHED  # late
    from zyda_flows.tasks.recipe.fields import DENIED  # late

    if not any(map(recipe.folder.exists, (PUBLISHED, DENIED))):
        raise Denied(NOTHING.format(url=recipe.folder.url))


@dataclass(frozen=True)
class Request:
    """What is asked for on a command line."""

    recipe_path: str
    storage: str | None
    sample: float | None
    asking: "RequestReader"
    texts: list[str]
    among: list[str]
    alike: bool

    def found_in(
        self, recipe: "Recipe", *, is_dry: bool = False
    ) -> "tuple[RemovalRequest, RequestedDocuments, Search, list[dict[str, Any]]]":
        """Find and print which documents it is about, and what has them besides."""
        from zyda_flows.tasks.erasure.removal_certificate import new_lines  # late
        from zyda_flows.tasks.erasure.requested_documents import find_documents  # late

        asked = self.asking.request(self.texts)
        found = find_documents(recipe, asked, in_threads, alike=self.alike)
        print_findings(found, is_dry=is_dry)
        search = searched(recipe, found, self.among)
        print_search(search)
        lines = new_lines(recipe, asked, found)
        if not lines:
            say("the deny lists of the corpus ask for all of this already: there is nothing to do")
        return asked, found, search, lines

    def carry_out(self, recipe: "Recipe", *, is_sure: bool) -> None:
        """Finish what was interrupted, then do what is asked for. Asks before anything is removed."""
        from zyda_flows.tasks.erasure.removal_certificate import promise, unfinished  # late

        if begun := unfinished(recipe.folder):
            say("finishing what was begun before")
            self.finish(begun)
            if not (self.asking.requests or self.texts):
                return
            recipe = load(self.recipe_path, self.storage, self.sample)
        asked, found, search, lines = self.found_in(recipe)
        if lines:
            confirm(f"remove {counted(len(found.documents), 'document')} for good?", is_sure=is_sure)
            self.finish([promise(recipe, asked, found, search, lines)])

    def finish(self, begun: "list[Certificate]") -> None:
        finish_all(self.recipe_path, self.storage, self.sample, begun)


def text_in(file_or_text: str) -> str:
    """Return the text of a file, or a text. Raises BadInput for one word, which is meant for a file."""
    text = text_of(file_or_text)
    if text == file_or_text and not any(c.isspace() for c in text):
        raise BadInput(f"--text {text}: there is no such file")
    return text


def print_findings(found: "RequestedDocuments", *, is_dry: bool) -> None:
    """Print which documents a request is about. is_dry: whether nothing is removed, and no list is written."""
    from zyda_flows.tasks.erasure.removal_certificate import count_by_source  # late

    if not found.documents:
        later = "" if is_dry else "; documents that are added later are left out by the deny list"
        say(f"no document of the corpus is what is asked for, or is left to remove{later}")
    for line in found.notes:
        say(line)
    if not found.documents:
        return
    columns = ("source", "documents", "of these only alike", "tokens", "now")
    table = table_of(*columns, words=["source", "now"])
    for of in count_by_source(found.documents):
        table.add_row(of.source, f"{of.documents:,}", f"{of.by_likeness:,}", f"{of.tokens:,}", of.was)
    console().print(table)
    for one in found.documents[:MOST_SHOWN]:
        alike = "" if one.likeness is None else f", like it: {one.likeness:.2f}"
        say(f"  {one.doc_id}  source {one.source}, file {one.file}, row {one.row}{alike}")
    if len(found.documents) > MOST_SHOWN:
        say(f"  and {len(found.documents) - MOST_SHOWN:,} more")


def searched(recipe: "Recipe", found: "RequestedDocuments", among: list[str]) -> "Search":
    """Search folders for corpora and mixtures that have what was found."""
    import numpy as np  # late

    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late
    from zyda_flows.tasks.erasure.dependent_kinds import Subject  # late
    from zyda_flows.tasks.erasure.dependents import Search  # late
    from zyda_flows.tasks.erasure.requested_documents import listed_requests  # late
    from zyda_flows.tasks.storage.folder import absolute  # late

    search = Search()
    with console(stderr=True).status("searching"):
        for url in among:
            search.look_into(absolute(url))
        ids = np.array([one.doc_id for one in found.documents], np.uint64)
        if among and not len(ids):
            listed = (one.id for one in listed_requests(recipe) if one.id is not None)
            ids = np.array(sorted(listed), np.uint64)
            say(f"searching for all that the corpus was asked to forget: {counted(len(ids), 'document')}")
        search.follow(Subject(PublishedCorpus.at(recipe.folder.url), ids))
    return search


def print_search(search: "Search") -> None:
    for one in search.dependents:
        what = counted(one.documents, "document") + (
            f" in {counted(one.pieces, 'piece')}" if one.pieces else ""
        )
        note = f" ({one.note})" if one.note else ""
        say(f"{one.kind}: {one.url} has {what} of {one.of}{note}")
        say(f"  to do: {one.todo}")
        for at in one.positions[:MOST_SHOWN]:
            say(f"  {at.output}, tokens {at.start:,} to {at.start + at.tokens - 1:,}: document {at.doc_id}")
        if one.pieces > MOST_SHOWN:
            say(f"  and {one.pieces - MOST_SHOWN:,} more; the certificate names them")
    for line in search.not_searched:
        say(f"not searched: {line}")


def forget_history(recipe: "Recipe") -> None:
    """Remove what Prefect's database on this machine has of earlier runs, which the build deleted."""
    import sqlite3  # late

    from zyda_flows.flows.dashboard.artifact_keys import keys_like  # late
    from zyda_flows.flows.server.history import clean_database, database  # late

    path = database()
    try:
        if path is not None:
            clean_database(path, keys_like(recipe))
    except sqlite3.Error as error:
        say(
            f"{path}: {error}: it may keep pages of earlier builds in its events and its free space; "
            "docs/removal.md has what to do about it"
        )


def finish_all(
    recipe_path: str, storage: str | None, sample: float | None, begun: "list[Certificate]"
) -> None:
    """Build what requests touch anew, delete what earlier builds left, and finish the certificates."""
    from zyda_flows.tasks.erasure.removal_certificate import finish  # late
    from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove  # late

    recipe = load(recipe_path, storage, sample)  # which knows the new list
    run_build(recipe_path, storage, sample, recipe)
    remove(recipe, orphans_of(recipe))
    forget_history(recipe)
    for certificate in begun:
        finished = finish(recipe, certificate)
        documents = sum(of.documents for of in finished.gone)
        if finished.came_in > 0:
            say(f"{counted(finished.came_in, 'document')} that had gone as duplicates are published now")
        say(f"removed {counted(documents, 'document')}; certificate: {recipe.folder.url}/{finished.path}")
