"""`zyda look`: a random sample of documents in a browser, to say of each whether what became of it is right."""

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
    from zyda_flows.tasks.lookup.samples import Item
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda look recipe.yaml",
    "zyda look recipe.yaml --reason c4.lorem_ipsum",
    "zyda look recipe.yaml --what clusters --to look.html",
    "zyda look recipe.yaml --results",
)
WHATS = ("removed", "kept", "clusters")


def look(
    recipe_path: RecipePath,
    what: Annotated[str, typer.Option(help="Documents that were removed or kept, or clusters.")] = "removed",
    stage: Annotated[str | None, typer.Option(help="Of what was removed: by this stage alone.")] = None,
    reason: Annotated[str | None, typer.Option(help="Of what was removed: for this reason alone.")] = None,
    source: Annotated[str | None, typer.Option(help="Of this source alone.")] = None,
    dedup_round: Annotated[int, typer.Option("--round", min=1, help="Of clusters: of this round.")] = 1,
    items: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 30,
    seed: Annotated[int, typer.Option(min=0, max=2**32, help="Another one gives another sample.")] = 1,
    to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the page to a file, texts and all, and serve nothing."),
    ] = None,
    add: Annotated[
        str | None, typer.Option(metavar="FILE", help="Add what somebody has saved from such a file.")
    ] = None,
    results: Annotated[bool, typer.Option("--results", help="Print what everybody has said so far.")] = False,
    who: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Who looks, or has looked at what is added; without, the user."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of this machine, for the page; 0 for any.")
    ] = 0,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Look at a random sample of documents and say of each whether it is right that it went, or stayed.

    The page is served on this machine alone, to a browser that has the link, whose login is of this command alone
    and ends with it. Two keys judge: r for right, w for wrong. A
    document that went for another one stands beside it, with the differences marked. What was said is kept in the
    folder `looked` beside the corpus, with who looked at what, by ids and without texts. End it with Ctrl-C.
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

    if what not in WHATS:
        raise BadInput(f"--what {what}: expected {', '.join(WHATS)}")
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


def write_page(recipe: "Recipe", chosen: "list[Item]", review: "Review", path: Path) -> None:
    """Write the page to a file. Raises Denied where that cannot be."""
    from zyda_flows.flows.reporting.look_page import look_page, sample_as_json  # late

    page = look_page(recipe.corpus, sample_as_json(chosen, review, is_served=False))
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the page cannot be written: {error.strerror or error}") from error
    say(
        f"{counted(len(chosen), 'item')} in {path}, with their texts; zyda look RECIPE --add reads what it saves"
    )


def serve_page(recipe: "Recipe", chosen: "list[Item]", review: "Review", port: int) -> None:
    """Serve the page until it is ended, and keep what is said on it."""
    from zyda_flows.flows.reporting.look_page import empty_sample, look_page, sample_as_json  # late
    from zyda_flows.flows.server.login import Api, new_login  # late
    from zyda_flows.flows.server.look_server import look_app, serve  # late
    from zyda_flows.tasks.lookup.judgements import Judgement, save_review  # late
    from zyda_flows.tasks.workers.ports import LOOPBACK, free_port, is_free  # late

    if port and not is_free(port):
        raise Denied(f"--port {port}: something listens there; choose another one")
    port = port or free_port()
    api = Api(url=f"http://{LOOPBACK}:{port}", login=new_login())
    said = list[Judgement]()
    ids = {(item.doc_id, item.other) for item in chosen}

    def take(content: bytes) -> None:
        judgement = Judgement.model_validate_json(content, extra="forbid")
        if (judgement.doc_id, judgement.other) not in ids:
            raise ValueError("of no document of this sample")
        said.append(judgement)
        save_review(recipe.folder, review.model_copy(update={"judgements": tuple(said)}))

    page = look_page(recipe.corpus, empty_sample())
    app = look_app(api, page, sample_as_json(chosen, review, is_served=True), take)
    # It listens before anybody is told where.
    with socket.create_server((LOOPBACK, port)) as listening:
        say(f"{counted(len(chosen), 'item')} to look at: {api.url}/#{api.token}")
        say("end with Ctrl-C")
        serve(app, listening)


def add_judgements(recipe: "Recipe", path: Path, who: str | None) -> None:
    """Add what a page that was written to a file has saved. who: has judged, if not who wrote the page.

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
    for one in review.judgements:
        if reader.file_of(one.doc_id)[0] != one.source:
            raise BadInput(f"{path}: document {one.doc_id} is of no source {one.source[:100]} of this corpus")
    save_review(recipe.folder, review)
    say(f"{counted(len(review.judgements), 'judgement')} of {review.who} added")


def print_results(recipe: "Recipe") -> None:
    """Print how often people found right what became of documents."""
    from zyda_flows.tasks.lookup.judgements import load_reviews, rates_of  # late

    rates = rates_of(load_reviews(recipe.folder))
    if not rates:
        say("nobody has said anything yet")
        return
    table = table_of(
        "what", "by", "source", "right", "of", "share", "95 % interval", words=("what", "by", "source")
    )
    for rate in rates:
        low, high = rate.interval
        table.add_row(
            rate.what, rate.by, rate.source, f"{rate.right:,}", f"{rate.judged:,}", f"{rate.share:.1%}",
            f"{low:.1%} to {high:.1%}",
        )  # fmt: skip
    console().print(table)
