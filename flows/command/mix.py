"""`zyda mix`: write the files of a training run from published corpora."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.arguments import recipes_like
from zyda_flows.flows.command.mixture_versions import print_versions, remove_one_version
from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.flows.command.terminal import as_size, confirm, console, say, table_of
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.amounts import Amount
    from zyda_flows.tasks.mixing.mixing import Mixing
    from zyda_flows.tasks.mixing.mixture_certificate import Forgetting
    from zyda_flows.tasks.mixing.mixture_manifest import MixtureManifest
    from zyda_flows.tasks.mixing.planning import Inputs
    from zyda_flows.tasks.mixing.tallies import PartTally

EXAMPLES = ("zyda mix mixture.yaml --plan", "zyda mix mixture.yaml", "zyda mix mixture.yaml --versions")
LARGE_DEVIATION = 0.02  # share of a target; larger deviations are reported
BAR = 24  # characters of the longest bar


class MixFormat(StrEnum):
    """How to print a mixture or its plan."""

    TEXT = "text"
    JSON = "json"


def mix(
    mixture: Annotated[
        str,
        typer.Argument(metavar="MIXTURE", help="YAML file of the mixture.", autocompletion=recipes_like),
    ],
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Print the documents and tokens of each part; write only to the work folder.",
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read existing files, compare their SHA-256, and write damaged files again."
        ),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Mix again without documents removed from the corpora, and remove all older versions.",
        ),
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="List the versions of the mixture. Mixes nothing.")
    ] = False,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove-version",
            metavar="VERSION",
            help="Remove the files of a version; the current version only with --yes. Mixes nothing.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without confirmation.")] = False,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Folder or fsspec URL for the mixture, instead of `storage` of the file."
        ),
    ] = None,
    output: Annotated[
        MixFormat,
        typer.Option(
            "--format",
            help="Format of the output; json has the plan, or the content of mixture.json; with --forget, the "
            "certificate; with --versions, the versions.",
        ),
    ] = MixFormat.TEXT,
) -> None:
    """Mix published corpora into files of shuffled tokens for a training run, with exact counts.

    Each document is encoded once for each tokenizer; mixtures with other weights reuse its token ids. After an
    interruption, start the command again: finished parts are not made again. mixture.json has the counts of each
    part, and the files with their SHA-256.

    Use --forget if documents have been removed from the corpora (zyda forget): it mixes again without them,
    removes all older versions, and everything in the work folder except the token ids of published files, and
    writes a certificate to `forgotten/`. With --plan, it only lists the files to remove.

    A mixture with other weights, or of other corpora, is another version, and older versions are kept: --versions
    lists them, and --remove-version removes one.
    """
    from zyda_flows.tasks.mixing.mixing import mix_all, planned  # late
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late
    from zyda_flows.tasks.mixing.planning import inputs_of  # late
    from zyda_flows.tasks.storage.claims import reading  # late

    loaded = load_mixture(mixture, storage=storage)
    if remove:
        remove_one_version(loaded.folder, remove, yes=yes)
    if versions:
        print_versions(loaded.folder, as_json=output is MixFormat.JSON)
    if versions or remove:
        return
    inputs = inputs_of(loaded)
    with reading(inputs.corpus_folders, f"zyda mix {inputs.mixture.name}"), jobs_in_processes() as run_jobs:
        if forget:
            forget_older(inputs, run_jobs, output, plan=plan, verify=verify, yes=yes)
            return
        if output is MixFormat.JSON:
            say(
                plan_as_json(planned(inputs, run_jobs))
                if plan
                else mix_all(inputs, run_jobs, verify=verify).as_json().decode()
            )
            return
        mixing = planned(inputs, run_jobs)
        print_plan(mixing)
        if not plan:
            print_mixed(mix_all(inputs, run_jobs, verify=verify, plan=mixing), mixing)
        for line in unfinished_lines(mixing, mixture):
            say(line)


@contextmanager
def jobs_in_processes() -> "Iterator[Callable[[Sequence[Any], str], list[Any]]]":
    """Yield a function that runs the jobs of a step in processes, with a progress bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # late

    err = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with own_processes() as pool, Progress(*columns, console=err, disable=not err.is_terminal) as bars:

        def run_jobs(jobs: Sequence[Any], step: str) -> list[Any]:
            bar = bars.add_task(step, total=len(jobs))
            if len(jobs) == 1:
                results = {id(jobs[0]): jobs[0]()}
                bars.advance(bar)
            else:
                results = {}
                for job, made in done_by(pool, jobs):
                    results[id(job)] = made
                    bars.advance(bar)
            return [results[id(job)] for job in jobs]

        yield run_jobs


def forget_older(
    inputs: "Inputs", run_jobs: Any, output: MixFormat, *, plan: bool, verify: bool, yes: bool
) -> None:
    """Mix again, and remove all older versions. plan: only print the files to remove."""
    from zyda_flows.tasks.erasure.removal_certificate import expect_finished  # late
    from zyda_flows.tasks.mixing.mixing import planned  # late
    from zyda_flows.tasks.mixing.removal import forget, planned_certificate  # late

    expect_finished(inputs.corpus_folders)
    promise = planned_certificate(inputs)
    is_text = output is MixFormat.TEXT
    if is_text:
        print_promise(promise)
    elif plan:
        say(promise.written().decode())
    if plan:
        return
    confirm(f"remove {counted(len(promise.versions), 'version')} permanently?", is_sure=yes)
    if is_text:
        print_plan(planned(inputs, run_jobs))
    finished = forget(inputs, promise, run_jobs, verify=verify)
    if not is_text:
        say(finished.written().decode())
        return
    say(f"only version {finished.place} is left; certificate: {inputs.folder.url}/{finished.path}")


def print_promise(promise: "Forgetting") -> None:
    """Print the versions and files of a mixture that are to be removed."""
    for corpus in promise.corpora:
        if corpus.denied is None:
            say(f"corpus {corpus.label}: {corpus.note}; its removed documents are unknown")
        else:
            say(f"corpus {corpus.label} has removed {counted(corpus.denied, 'document')} on request")
    for version in promise.versions:
        had = ", ".join(f"{count:,} of {label}" for label, count in version.documents.items())
        note = version.note or f"removed documents in it: {had or 'none'}"
        size = as_size(sum(file.size for file in version.files))
        say(f"to remove: version {version.place}, {counted(len(version.files), 'file')}, {size}; {note}")
    for folder in promise.work:
        say(f"to remove: {folder.path}, {counted(folder.files, 'file')}, {as_size(folder.size)}")


def print_plan(mixing: "Mixing") -> None:
    """Print a table of the parts, and notes."""
    plan, _ = mixing.plan, mixing.file_counts
    total = max(1, sum(amount.tokens for amount in plan.amounts))
    table = table_of(
        "part", "documents", "unique tokens", "copied in an epoch", "epochs", "target", "tokens", "share", "",
        "unused",
        words=["part", ""],
    )  # fmt: skip
    for tally, amount in zip(plan.tallies, plan.amounts, strict=True):
        share = amount.tokens / total
        table.add_row(
            tally.name, f"{tally.documents:,}", f"{tally.unique:,}", f"{tally.repeated:,}",
            f"{amount.epochs:.4g}", f"{amount.target:,}", f"{amount.tokens:,}", f"{share:.2%}",
            "█" * round(BAR * share), f"{unused_tokens(tally, amount):,}",
        )  # fmt: skip
    console().print(table)
    for line in plan_lines(mixing):
        say(line)


def unused_tokens(tally: "PartTally", amount: "Amount") -> int:
    """Return the tokens of a part that are in no file, because the part needs less than an epoch."""
    return tally.tokens - amount.tokens if amount.epochs < 1 else 0


def plan_as_json(mixing: "Mixing") -> str:
    """Return the plan of each part, the number of files, and the notes, as JSON.

    Fields of a part that mixture.json also has are the same there.
    """
    from zyda_flows.tasks.mixing.disk_need import disk_need  # late

    plan, (train, held_out) = mixing.plan, mixing.file_counts
    parts = [
        {
            **tally.model_dump(exclude={"unused"}),
            "tokens": tally.unique,
            "epochs": amount.epochs,
            "planned": amount.target,
            "written": amount.tokens,
            "unused": unused_tokens(tally, amount),
            "without_copies": tally.unused,
        }
        for tally, amount in zip(plan.tallies, plan.amounts, strict=True)
    ]
    files = {"train": train, "validation": held_out}
    whole = {
        "version": mixing.place,
        "storage": disk_need(mixing).model_dump(),
        "width": mixing.encoding.width,
        "files": files,
        "left_out": plan.left_out,
    }
    return json.dumps({**whole, "parts": parts, "notes": plan_lines(mixing)}, indent=1)


def plan_lines(mixing: "Mixing") -> list[str]:
    """Return notes: totals, held-out documents, special tokens, and parts that deviate from their target."""
    plan = mixing.plan
    total = sum(amount.tokens for amount in plan.amounts)
    held_out = sum(tally.held_out for tally in plan.tallies)
    size = total * mixing.encoding.width
    lines = [f"{total:,} tokens to train on, {as_size(size)} in {mixing.encoding.width} bytes each"]
    if held_out:
        tokens = sum(tally.held_out_tokens for tally in plan.tallies)
        lines.append(f"held out: {counted(held_out, 'document')}, {counted(tokens, 'token')}")
        lines += recall_lines(mixing)
    lines.append(disk_line(mixing))
    lines += mixing.nothing_held_out
    lines += special_lines(mixing)
    if plan.left_out:
        lines.append(f"in no part: {counted(plan.left_out, 'document')}")
    lines += [
        f"part {amount.part} deviates from its target by {abs(amount.tokens - amount.target) / amount.target:.0%}: "
        "its documents are too long to come closer"
        for amount in plan.amounts
        if abs(amount.tokens - amount.target) > LARGE_DEVIATION * amount.target
    ]
    return lines


def disk_line(mixing: "Mixing") -> str:
    """Return the estimated storage of the files and of the work folder."""
    from zyda_flows.tasks.mixing.disk_need import disk_need  # late

    need = disk_need(mixing)
    return (
        f"storage: about {as_size(need.files)} for the files; work folder: about {as_size(need.work)} at the end "
        f"of the shuffle, {as_size(need.work_kept)} afterwards"
    )


def recall_lines(mixing: "Mixing") -> list[str]:
    """Return the share of near-duplicates of held-out documents that are found, in their corpus and in others."""
    from zyda_flows.tasks.mixing.mixing import SIMILARITY  # late
    from zyda_flows.tasks.mixing.neighbours import incomparable, recall_at, recall_within  # late

    lines = [
        f"{a} and {b} are not compared, because their band keys differ: held-out documents of one may have "
        "near-duplicates in the other"
        for a, b in incomparable(mixing.inputs)
    ]
    for label, recall in recall_within(mixing.inputs, SIMILARITY).items():
        share = "an unknown share" if recall is None else f"{recall:.1%}"
        lines.append(f"of near-duplicates within {label}, {share} are found at a similarity of {SIMILARITY}")
    if (recall := recall_at(mixing.inputs, SIMILARITY)) is not None:
        lines.append(
            f"of near-duplicates in another corpus, {recall:.1%} are found at a similarity of {SIMILARITY}"
        )
    return lines


def unfinished_lines(mixing: "Mixing", mixture: str) -> list[str]:
    """Return a line for each folder of an interrupted mix."""
    from zyda_flows.tasks.mixing.leftovers import leftovers  # late

    return [
        f"{mixing.folder.url}/{item.path}: {counted(item.files, 'file')}, {as_size(item.size)}, of an interrupted "
        f"mix; remove it with zyda clean {mixture}"
        for item in leftovers(mixing.folder, ours=mixing.place)
    ]


def special_lines(mixing: "Mixing") -> list[str]:
    """Return the number of special tokens in texts, and the corpora that count them differently."""
    documents, times = (
        sum(getattr(tally, name) for tally in mixing.plan.tallies)
        for name in ("special_documents", "special_tokens")
    )
    became = {"text": "text", "control": "control tokens"}[mixing.encoding.special_tokens]
    lines = [
        f"special tokens occur in {counted(documents, 'document')}, {counted(times, 'time')}; "
        f"they become {became}"
    ] * (documents > 0)
    return lines + [
        f"corpus {corpus.label} was counted with another `special_tokens` than this mixture has: its n_tokens "
        "differ for documents with special tokens"
        for number, corpus in enumerate(mixing.inputs.corpora)
        if mixing.inputs.is_counted_otherwise(number)
    ]


def print_mixed(mixed: "MixtureManifest", mixing: "Mixing") -> None:
    """Print the written files, padding, cut documents, and the arguments for Megatron."""
    place = mixing.folder.folder(mixed.place)
    files = [file for output in (*mixed.outputs, *mixed.texts) for file in output.files]
    say(f"{counted(len(files), 'file')}, {as_size(sum(file.size for file in files))}, in {place.url}")
    if padded := sum(output.padded for output in mixed.outputs):
        say(f"padded: {padded:,} tokens, {padded / mixed.tokens:.3%}")
    if cut := sum(output.cut for output in mixed.outputs):
        say(
            f"cut: {cut:,} tokens, {cut / mixed.tokens:.3%}, are in another sequence than the beginning of their "
            f"document; this is expected: documents longer than {mixed.mixture['packed']:,} tokens are cut"
        )
    if "megatron" in mixed.mixture["formats"]:
        train = [output.name for output in mixed.outputs if output.name.startswith("train")]
        say(
            "--data-path "
            + " ".join(f"{place.url}/megatron/{name}" for name in train[:4])
            + " ..." * (len(train) > 4)
        )
