"""`zyda mix`: write the files of a training run from published corpora."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.arguments import recipes_like
from zyda_flows.flows.command.mixture_plan import plan_as_json, print_plan, unfinished_lines
from zyda_flows.flows.command.mixture_versions import print_versions, remove_one_version
from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.flows.command.terminal import as_size, confirm, console, say
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.mixing import Mixing
    from zyda_flows.tasks.mixing.mixture_certificate import Forgetting
    from zyda_flows.tasks.mixing.mixture_manifest import MixtureManifest
    from zyda_flows.tasks.mixing.planning import Inputs

EXAMPLES = ("zyda mix mixture.yaml --plan", "zyda mix mixture.yaml", "zyda mix mixture.yaml --versions")


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
