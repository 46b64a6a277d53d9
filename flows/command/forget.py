"""`zyda forget`: remove requested documents permanently, and write a certificate."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.build import hide_prefect_log, run_build
from zyda_flows.flows.command.cluster import over_cluster
from zyda_flows.flows.command.find import text_of
from zyda_flows.flows.command.removal_search import (
    folders_to_search,
    print_cost,
    print_documents,
    print_search,
    search_dependents,
)
from zyda_flows.flows.command.terminal import confirm, console, in_threads, say
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.erasure.dependents import Search
    from zyda_flows.tasks.erasure.in_shards import Spread
    from zyda_flows.tasks.erasure.removal_certificate import Certificate
    from zyda_flows.tasks.erasure.removal_request import RemovalRequest, RequestReader
    from zyda_flows.tasks.erasure.requested_documents import RequestedDocuments
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda forget recipe.yaml --urls requests.txt",
    "zyda forget recipe.yaml --domain example.org --among .",
    "zyda forget recipe.yaml --text page.txt --yes",
)
SECONDS_HERE = 20.0  # of a core, below which a search does not need a cluster
FILES_HERE = 1000  # of folders to search, below which it does not need one either
Many = list[str] | None


def forget(
    recipe_path: RecipePath,
    urls: Annotated[
        Many,
        typer.Option(
            metavar="FILE", help="File with the addresses of pages, or with other lines of a deny list."
        ),
    ] = None,
    domain: Annotated[Many, typer.Option(metavar="NAME", help="Domain; its subdomains are included.")] = None,
    ids: Annotated[Many, typer.Option(metavar="ID", help="Document id, decimal or as 0x...")] = None,
    column: Annotated[
        Many,
        typer.Option(metavar="NAME=VALUE", help="Documents with this value in this column of their source."),
    ] = None,
    text: Annotated[
        Many,
        typer.Option(
            metavar="FILE-OR-TEXT",
            help="Whole text of a document: a file, - for standard input, or the text itself. Documents with the "
            "same or a similar text are removed, and documents with the text among their repeated passages.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Remove only requested documents, and no documents that are similar to them."
        ),
    ] = False,
    among: Annotated[
        Many,
        typer.Option(
            metavar="URL", help="Folder to search for other corpora and mixtures with these documents."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the documents without removing them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without confirmation.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove requested documents permanently, and write a certificate.

    The command first lists the requested documents of each source, and documents similar to them. With --among it
    also lists other corpora and mixtures with these documents, which it does not change.

    After a confirmation, it adds the documents to a deny list of the corpus, which all later builds use, builds
    the affected parts of the corpus again, and deletes files of earlier builds. The corpus must be up to date.

    The options from --urls to --text, and --among, can be repeated. Without a request, the command finishes a
    request that was interrupted.
    """
    hide_prefect_log()
    from zyda_flows.tasks.erasure.large_lists import without_unlisted_tables  # late
    from zyda_flows.tasks.erasure.removal_request import RequestReader  # late
    from zyda_flows.tasks.storage.claims import FORGET, expect_free, forgetting  # late

    recipe = load(recipe_path, storage, sample)
    reader = RequestReader()
    reader.add_lists(urls or ())
    reader.add_domains(domain or ())
    reader.add_ids(ids or ())
    reader.add_columns(column or ())
    texts = [text_in(argument) for argument in text or ()]
    if "" in (among or ()):
        raise BadInput("--among: expected a folder, got an empty string")
    expect_corpus(recipe)
    request = RequestOptions(recipe_path, storage, sample, reader, texts, among or [], alike=not exact)
    if dry_run:
        expect_free(recipe.folder, (FORGET,))
        with without_unlisted_tables(recipe.folder, request.tables):
            request.find_and_print(recipe, is_dry=True)
        return
    with forgetting(recipe.folder, "zyda forget"), without_unlisted_tables(recipe.folder):
        request.carry_out(recipe, is_sure=yes)


def expect_corpus(recipe: "Recipe") -> None:
    """Raise Denied if there is no corpus, before anything is written."""
    from zyda_flows.tasks.accounts.published import NOTHING, PUBLISHED  # late
    from zyda_flows.tasks.recipe.fields import DENIED  # late

    if not any(map(recipe.folder.exists, (PUBLISHED, DENIED))):
        raise Denied(NOTHING.format(url=recipe.folder.url))


@dataclass(frozen=True)
class RequestOptions:
    """A removal request on the command line. tables: the SHA-256 of the tables that were written for it."""

    recipe_path: str
    storage: str | None
    sample: float | None
    reader: "RequestReader"
    texts: list[str]
    among: list[str]
    alike: bool
    tables: list[str] = field(default_factory=list)

    def find_and_print(
        self, recipe: "Recipe", *, is_dry: bool = False
    ) -> "tuple[RemovalRequest, RequestedDocuments, Search, list[dict[str, Any]]]":
        """Find and print the requested documents, and other corpora and mixtures with them."""
        from zyda_flows.tasks.erasure.certified_removal import new_lines  # late
        from zyda_flows.tasks.erasure.requested_documents import find_documents  # late

        removal = self.reader.request(self.texts)
        with console(stderr=True).status("reading the request"):
            removal = removal.with_table(recipe.folder)
        self.tables.extend(filter(None, (entry.addresses_sha256 for entry in removal.requests)))
        search = folders_to_search(self.among)
        with self.workers(recipe, removal, search) as (spread, is_on_cluster):
            documents = find_documents(recipe, removal, spread, alike=self.alike, is_on_cluster=is_on_cluster)
            print_documents(documents, is_dry=is_dry)
            search_dependents(recipe, documents, search)
        print_search(search)
        lines = new_lines(recipe, removal, documents)
        if not lines:
            say("nothing to do: the deny lists of the corpus contain the whole request")
        return removal, documents, search, lines

    @contextmanager
    def workers(
        self, recipe: "Recipe", removal: "RemovalRequest", search: "Search"
    ) -> "Iterator[tuple[Spread, bool]]":
        """Print the estimated cost; yield a function that runs a search, and whether it runs on a cluster.

        A short search runs in threads of this process.
        """
        from zyda_flows.tasks.erasure.requested_documents import cost_of_search  # late

        cost = cost_of_search(recipe, removal, alike=self.alike)
        print_cost(cost, search)
        if cost.most_seconds < SECONDS_HERE and search.files < FILES_HERE:
            yield in_threads, False
            return
        with over_cluster(recipe, "searching") as spread:
            search.spread = spread
            yield spread, True

    def carry_out(self, recipe: "Recipe", *, is_sure: bool) -> None:
        """Finish an interrupted request, then carry out this request after a confirmation."""
        from zyda_flows.tasks.erasure.certified_removal import promise  # late
        from zyda_flows.tasks.erasure.removal_certificate import unfinished_certificates  # late

        if begun := unfinished_certificates(recipe.folder):
            say("finishing an interrupted request")
            self.finish(begun)
            if not (self.reader.requests or self.texts):
                return
            recipe = load(self.recipe_path, self.storage, self.sample)
        removal, documents, search, lines = self.find_and_print(recipe)
        if lines:
            question = f"remove {counted(len(documents.documents), 'document')} permanently?"
            confirm(question, is_sure=is_sure)
            self.finish([promise(recipe, removal, documents, search, lines)])

    def finish(self, begun: "list[Certificate]") -> None:
        finish_all(self.recipe_path, self.storage, self.sample, begun)


def text_in(file_or_text: str) -> str:
    """Return the text of a file, or the given text. Raises BadInput for a single word: it is a mistyped path."""
    text = text_of(file_or_text)
    if text == file_or_text and not any(c.isspace() for c in text):
        raise BadInput(f"--text {text}: there is no such file")
    return text


def forget_history(recipe: "Recipe") -> None:
    """Remove the pages of earlier builds from the free space and events of Prefect's local database."""
    import sqlite3  # late

    from zyda_flows.flows.dashboard.artifact_keys import keys_like  # late
    from zyda_flows.flows.server.history import clean_database, database, wait_for_events  # late

    path = database()
    try:
        if path is not None:
            with console(stderr=True).status("removing pages of earlier builds from Prefect"):
                wait_for_events()
                clean_database(path, keys_like(recipe))
    except sqlite3.Error as error:
        say(
            f"{path}: {error}: it may keep pages of earlier builds in its events and its free space; "
            "see docs/removal.md"
        )


def finish_all(
    recipe_path: str, storage: str | None, sample: float | None, begun: "list[Certificate]"
) -> None:
    """Build affected parts again, delete files of earlier builds, and finish the certificates."""
    from zyda_flows.tasks.erasure.certified_removal import finish  # late
    from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove  # late

    recipe = load(recipe_path, storage, sample)  # with the new deny list
    run_build(recipe_path, storage, sample, recipe)
    remove(recipe, orphans_of(recipe))
    forget_history(recipe)
    for certificate in begun:
        finished = finish(recipe, certificate)
        documents = sum(source.documents for source in finished.gone)
        if finished.came_in > 0:
            say(f"{counted(finished.came_in, 'document')} removed earlier as duplicates are published now")
        say(f"removed {counted(documents, 'document')}; certificate: {recipe.folder.url}/{finished.path}")
