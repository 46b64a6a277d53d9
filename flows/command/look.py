"""`zyda look`: judge in a browser whether a random sample of documents was rightly kept or removed."""

import getpass
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.lookup.judgements import Review
    from zyda_flows.tasks.lookup.samples import SampleItem
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda look recipe.yaml",
    "zyda look recipe.yaml --reason c4.lorem_ipsum",
    "zyda look recipe.yaml --what clusters --to look.html",
    "zyda look recipe.yaml --results",
)
SAMPLE_KINDS = ("removed", "kept", "clusters")


def look(
    recipe_path: RecipePath,
    what: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="Kind of the sample: removed, kept or clusters (pairs of documents)."
        ),
    ] = "removed",
    stage: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only documents removed by this stage.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only documents removed for this reason.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only documents of this source.")] = None,
    dedup_round: Annotated[
        int,
        typer.Option("--round", min=1, metavar="N", help="With --what clusters: the deduplication round."),
    ] = 1,
    items: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of documents in the sample.")
    ] = 30,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32, metavar="N", help="Another seed selects another sample.")
    ] = 1,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the page to this file instead of serving it; judge there, then use --add.",
        ),
    ] = None,
    add: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Add the judgements that were saved from a page of --to."),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="Print the results of all judgements, and show no page.")
    ] = False,
    who: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Name of the person who judges. If not given, the user name."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port of the page; 0 for any free port.")
    ] = 0,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Judge a random sample of documents in a browser: whether each was rightly removed or rightly kept.

    Open the printed link. It works only on this machine, and until the command ends. A removed duplicate is shown
    beside the kept document, with the differences marked. Press r for right, w for wrong. Judgements are stored
    in the folder `looked` of the corpus, with the name of the person and document ids, without texts. End the
    command with Ctrl-C.
    """
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late

    PublishedCorpus.of(recipe)  # raises Denied
    if add:
        add_judgements(recipe, Path(add), who)
    if add or results:
        print_results(recipe)
        return
    from zyda_flows.tasks.lookup.judgements import Review  # late
    from zyda_flows.tasks.lookup.samples import SampleOptions, sample_of  # late

    if what not in SAMPLE_KINDS:
        raise BadInput(f"--what {what}: expected {', '.join(SAMPLE_KINDS)}")
    options = SampleOptions.model_validate(
        {
            "what": what,
            "stage": stage,
            "reason": reason,
            "source": source,
            "round": dedup_round,
            "items": items,
            "seed": seed,
        }
    )
    with console(stderr=True).status("choosing"):
        chosen = sample_of(recipe, options)
    began = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    review = Review(who=who or getpass.getuser(), began=began, options=options)
    if to:
        write_page(recipe, chosen, review, Path(to))
    else:
        serve_page(recipe, chosen, review, port)


def write_page(recipe: "Recipe", chosen: "list[SampleItem]", review: "Review", path: Path) -> None:
    """Write the page to a file. Raises Denied if it cannot be written."""
    from zyda_flows.flows.reporting.look_page import look_page, sample_as_json  # late

    page = look_page(recipe.corpus, sample_as_json(chosen, review, is_served=False))
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the page cannot be written: {error.strerror or error}") from error
    advice = "add saved judgements with zyda look RECIPE --add FILE"
    say(f"{counted(len(chosen), 'item')} in {path}, with their texts; {advice}")


def serve_page(recipe: "Recipe", chosen: "list[SampleItem]", review: "Review", port: int) -> None:
    """Serve the page until Ctrl-C, and store its judgements."""
    from zyda_flows.flows.reporting.look_page import empty_sample, look_page, sample_as_json  # late
    from zyda_flows.flows.server.login import Api, new_login  # late
    from zyda_flows.flows.server.look_server import look_app, serve  # late
    from zyda_flows.tasks.lookup.judgements import Judgement, save_review  # late
    from zyda_flows.tasks.workers.ports import LOOPBACK, free_port, is_free  # late

    if port and not is_free(port):
        raise Denied(f"--port {port}: the port is in use; choose another")
    port = port or free_port()
    api = Api(url=f"http://{LOOPBACK}:{port}", login=new_login())
    judgements = list[Judgement]()
    ids = {(item.doc_id, item.other) for item in chosen}

    def take(content: bytes) -> None:
        judgement = Judgement.model_validate_json(content, extra="forbid")
        if (judgement.doc_id, judgement.other) not in ids:
            raise ValueError("the document is not in this sample")
        judgements.append(judgement)
        save_review(recipe.folder, review.model_copy(update={"judgements": tuple(judgements)}))

    page = look_page(recipe.corpus, empty_sample())
    app = look_app(api, page, sample_as_json(chosen, review, is_served=True), take)
    # The socket listens before the link is printed.
    with socket.create_server((LOOPBACK, port)) as listening:
        say(f"{counted(len(chosen), 'item')} to look at: {api.url}/#{api.token}")
        say("end with Ctrl-C")
        serve(app, listening)


def add_judgements(recipe: "Recipe", path: Path, who: str | None) -> None:
    """Add judgements that were saved from a page. who: the judge, if not the user who wrote the page.

    Raises Denied, BadInput.
    """
    from zyda_flows.tasks.lookup.document_reader import DocumentReader  # late
    from zyda_flows.tasks.lookup.judgements import read_judgements, save_review  # late

    try:
        content = path.read_bytes()
    except OSError as error:
        raise Denied(f"{path}: {error.strerror or error}") from error
    review = read_judgements(content)
    review = review.model_copy(update={"who": who or review.who})
    reader = DocumentReader.of(recipe)
    for judgement in review.judgements:
        doc_id, source = judgement.doc_id, judgement.source
        if reader.file_of(doc_id)[0] != source:
            raise BadInput(f"{path}: document {doc_id} is not in source {source[:100]} of this corpus")
    save_review(recipe.folder, review)
    say(f"{counted(len(review.judgements), 'judgement')} of {review.who} added")


def print_results(recipe: "Recipe") -> None:
    """Print the share of documents that were judged right, by kind, reason and source."""
    from zyda_flows.tasks.lookup.judgements import load_reviews, rates_of  # late

    rates = rates_of(load_reviews(recipe.folder))
    if not rates:
        say("no judgements yet")
        return
    table = table_of(
        "sample", "by", "source", "right", "of", "share", "95 % interval", words=("sample", "by", "source")
    )
    for rate in rates:
        low, high = rate.interval
        table.add_row(
            rate.what, rate.by, rate.source, f"{rate.right:,}", f"{rate.judged:,}", f"{rate.share:.1%}",
            f"{low:.1%} to {high:.1%}",
        )  # fmt: skip
    console().print(table)
