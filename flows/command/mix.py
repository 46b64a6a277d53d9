"""`zyda mix`: from published corpora to the files that a training run reads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.arguments import recipes_like
from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.flows.command.terminal import as_size, confirm, console, say, table_of
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.mixing import Mixed, Mixing
    from zyda_flows.tasks.mixing.planning import Inputs
    from zyda_flows.tasks.mixing.removal import Forgetting

EXAMPLES = ("zyda mix mixture.yaml --plan", "zyda mix mixture.yaml", "zyda mix mixture.yaml --forget")
FAR = 0.02  # of what is asked for: what misses it by more is said
BAR = 24  # characters of the longest


def mix(
    mixture: Annotated[
        str,
        typer.Argument(
            metavar="MIXTURE", help="The YAML file that describes it.", autocompletion=recipes_like
        ),
    ],
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what each part gives, and write no mixture.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the files that are there, and compare their digests.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Mix again without what the corpora have removed, and remove all older versions."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before anything is removed.")] = False,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Where it goes, instead of where the file says.")
    ] = None,
) -> None:
    """Mix published corpora into the files that a training run reads: shuffled tokens, exactly accounted.

    Every document is encoded once for each tokenizer; a mixture with other weights uses what there is. Start it
    again after an interruption: what is finished is not done again. mixture.json has the account of each part,
    and the files with their SHA-256.

    --forget is for a mixture whose corpora have removed documents (zyda forget): it mixes again without them,
    removes all older versions and the token ids in the work folder, and writes a certificate to `forgotten/`. With
    --plan it shows what it would remove. After an interruption, start it again.
    """
    from zyda_flows.tasks.mixing.mixing import Mixing, mix_all  # late
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late
    from zyda_flows.tasks.mixing.planning import inputs_of  # late
    from zyda_flows.tasks.storage.claims import reading  # late

    inputs = inputs_of(load_mixture(mixture, storage=storage))
    with reading(inputs.corpus_folders, f"zyda mix {inputs.mixture.name}"), spreading() as spread:
        if forget:
            forget_older(inputs, spread, plan=plan, verify=verify, yes=yes)
            return
        mixing = Mixing(inputs, spread)
        print_plan(mixing)
        if not plan:
            print_mixed(mix_all(inputs, spread, verify=verify), mixing)
        for line in unfinished_lines(mixing, mixture):
            say(line)


@contextmanager
def spreading() -> "Iterator[Callable[[Sequence[Any], str], list[Any]]]":
    """Give what does the jobs of a step, with a bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # late

    err = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with own_processes() as pool, Progress(*columns, console=err, disable=not err.is_terminal) as bars:

        def spread(jobs: Sequence[Any], step: str) -> list[Any]:
            bar = bars.add_task(step, total=len(jobs))
            if len(jobs) == 1:
                found = {id(jobs[0]): jobs[0]()}
                bars.advance(bar)
            else:
                found = {}
                for job, made in done_by(pool, jobs):
                    found[id(job)] = made
                    bars.advance(bar)
            return [found[id(job)] for job in jobs]

        yield spread


def forget_older(inputs: "Inputs", spread: Any, *, plan: bool, verify: bool, yes: bool) -> None:
    """Mix again, and remove all that is older; where only planned, say what that is."""
    from zyda_flows.tasks.erasure.removal_certificate import expect_finished  # late
    from zyda_flows.tasks.mixing.mixing import Mixing  # late
    from zyda_flows.tasks.mixing.removal import forget, promised  # late

    expect_finished(inputs.corpus_folders)
    promise = promised(inputs)
    print_promise(promise)
    if plan:
        return
    confirm(f"remove {counted(len(promise.versions), 'version')} for good?", is_sure=yes)
    mixing = Mixing(inputs, spread)
    print_plan(mixing)
    finished = forget(inputs, promise, spread, verify=verify)
    say(f"version {finished.place} is the only one now; certificate: {inputs.folder.url}/{finished.path}")


def print_promise(promise: "Forgetting") -> None:
    """Say what is removed of a mixture."""
    for corpus in promise.corpora:
        if corpus.denied is None:
            say(f"corpus {corpus.label}: {corpus.note}; its removed documents are not known")
        else:
            say(f"corpus {corpus.label} has removed {counted(corpus.denied, 'document')} on request")
    for version in promise.versions:
        had = ", ".join(f"{count:,} of {label}" for label, count in version.documents.items())
        note = version.note or f"removed documents in it: {had or 'none'}"
        size = as_size(sum(file.size for file in version.files))
        say(f"to remove: version {version.place}, {counted(len(version.files), 'file')}, {size}; {note}")
    for one in promise.work:
        say(f"to remove: {one.path}, {counted(one.files, 'file')}, {as_size(one.size)}")


def print_plan(mixing: "Mixing") -> None:
    """Say what each part gives."""
    plan, _ = mixing.plan, mixing.file_counts
    total = max(1, sum(amount.tokens for amount in plan.amounts))
    table = table_of(
        "part", "documents", "unique tokens", "copied in an epoch", "epochs", "asked for", "tokens", "share", "",
        "unused",
        words=["part", ""],
    )  # fmt: skip
    for tally, amount in zip(plan.tallies, plan.amounts, strict=True):
        share = amount.tokens / total
        unused = tally.tokens - amount.tokens if amount.epochs < 1 else 0
        table.add_row(
            tally.name, f"{tally.documents:,}", f"{tally.tokens - tally.repeated:,}", f"{tally.repeated:,}",
            f"{amount.epochs:.4g}", f"{amount.target:,}", f"{amount.tokens:,}", f"{share:.2%}",
            "█" * round(BAR * share), f"{unused:,}",
        )  # fmt: skip
    console().print(table)
    for line in plan_lines(mixing):
        say(line)


def plan_lines(mixing: "Mixing") -> list[str]:
    """Say what there is beside the parts, and where one misses what is asked for."""
    plan = mixing.plan
    total = sum(amount.tokens for amount in plan.amounts)
    held_out = sum(tally.held_out for tally in plan.tallies)
    size = total * mixing.encoding.width
    lines = [f"{total:,} tokens to train on, {as_size(size)} in {mixing.encoding.width} bytes each"]
    if held_out:
        tokens = sum(tally.held_out_tokens for tally in plan.tallies)
        lines.append(f"held out: {counted(held_out, 'document')}, {counted(tokens, 'token')}")
        lines += recall_lines(mixing)
    lines += mixing.nothing_held_out
    lines += special_lines(mixing)
    if plan.left_out:
        lines.append(f"of no part: {counted(plan.left_out, 'document')}")
    lines += [
        f"part {amount.part} misses what is asked for by {abs(amount.tokens - amount.target) / amount.target:.0%}: "
        "a document of it is too long to come nearer"
        for amount in plan.amounts
        if abs(amount.tokens - amount.target) > FAR * amount.target
    ]
    return lines


def recall_lines(mixing: "Mixing") -> list[str]:
    """Return how many near-duplicates of what is held out are found, in its own corpus and in others."""
    from zyda_flows.tasks.mixing.mixing import LIKENESS  # late
    from zyda_flows.tasks.mixing.neighbours import incomparable, recall_at, recall_within  # late

    lines = [
        f"{a} and {b} are not compared, for their band keys differ: what is held out of one may have "
        "near-duplicates in the other"
        for a, b in incomparable(mixing.inputs)
    ]
    for label, recall in recall_within(mixing.inputs, LIKENESS).items():
        found = "it is not known how many" if recall is None else f"{recall:.1%}"
        lines.append(f"of near-duplicates in {label} itself, {found} are found at a likeness of {LIKENESS}")
    if (recall := recall_at(mixing.inputs, LIKENESS)) is not None:
        lines.append(
            f"of near-duplicates in another corpus, {recall:.1%} are found at a likeness of {LIKENESS}"
        )
    return lines


def unfinished_lines(mixing: "Mixing", mixture: str) -> list[str]:
    """Return which folders mixes left that did not end."""
    from zyda_flows.tasks.mixing.leftovers import leftovers  # late

    return [
        f"{mixing.folder.url}/{one.path}: {counted(one.files, 'file')}, {as_size(one.size)}, of a mix that did not "
        f"end; zyda clean {mixture} removes it"
        for one in leftovers(mixing.folder, ours=mixing.place)
    ]


def special_lines(mixing: "Mixing") -> list[str]:
    """Return what texts hold of special tokens, and which corpora count them otherwise."""
    documents, times = (
        sum(getattr(tally, name) for tally in mixing.plan.tallies)
        for name in ("special_documents", "special_tokens")
    )
    became = {"text": "text", "control": "control tokens"}[mixing.encoding.special_tokens]
    lines = [
        f"special tokens are written in {counted(documents, 'document')}, {counted(times, 'time')}; "
        f"they become {became}"
    ] * (documents > 0)
    return lines + [
        f"corpus {corpus.label} was counted with another `special_tokens` than this mixture has: its n_tokens "
        "differ for documents that hold any"
        for number, corpus in enumerate(mixing.inputs.corpora)
        if mixing.inputs.is_counted_otherwise(number)
    ]


def print_mixed(mixed: "Mixed", mixing: "Mixing") -> None:
    """Say what was written, and where."""
    place = mixing.folder.folder(mixed.place)
    files = [file for output in (*mixed.outputs, *mixed.texts) for file in output.files]
    say(f"{counted(len(files), 'file')}, {as_size(sum(file.size for file in files))}, in {place.url}")
    if padded := sum(output.padded for output in mixed.outputs):
        say(f"padded: {padded:,} tokens, {padded / mixed.tokens:.3%}")
    if cut := sum(output.cut for output in mixed.outputs):
        say(
            f"cut: {cut:,} tokens, {cut / mixed.tokens:.3%}, are in another sequence than the beginning of their "
            f"document; that is normal: a document longer than {mixed.mixture['packed']:,} tokens has to be cut"
        )
    if "megatron" in mixed.mixture["formats"]:
        train = [output.name for output in mixed.outputs if output.name.startswith("train")]
        say(
            "--data-path "
            + " ".join(f"{place.url}/megatron/{name}" for name in train[:4])
            + " ..." * (len(train) > 4)
        )
