"""`zyda push`: upload a published corpus to a dataset repository of the Hugging Face hub."""

import sys
from typing import Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.progress import bar_or_lines
from zyda_flows.flows.command.terminal import as_size, console, say
from zyda_flows.tasks.words import counted

EXAMPLES = ("zyda push recipe.yaml lab/corpus", "zyda push recipe.yaml lab/corpus --private")


def push(
    recipe_path: RecipePath,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Dataset repository on the hub.")],
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="If the repository does not exist, create it as a private repository."
        ),
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Upload the published corpus with its dataset card to the Hugging Face hub, in one atomic update.

    Files that the hub already has are not sent. New files are sent to a pull request, which is merged when
    their digests match those of the corpus. After an interruption, start the command again. The token is read
    from HF_TOKEN or from `hf auth login`.
    """
    recipe = load(recipe_path, storage, sample)
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # late

    from zyda_flows.tasks.publish.pushing import push_of  # late

    if not sys.stderr.isatty():
        disable_progress_bars()
    with console(stderr=True).status("comparing the hub with the corpus"):
        pushed = push_of(recipe, name, private=private)
    for sentence in pushed.sentences():
        say(sentence)
    if pushed.size or pushed.to_delete:
        with bar_or_lines("sent", pushed.size) as advance:
            pushed.send(advance)
    pushed.finish()
    say(f"{counted(len(pushed.files), 'file')}, {as_size(pushed.whole_size)}: {pushed.repository.page}")
