"""`zyda push`: a published corpus to a dataset repository of the Hugging Face hub."""

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
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The dataset repository on the hub.")],
    private: Annotated[
        bool, typer.Option("--private", help="Make the repository a private one, if it is not there yet.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Put the published corpus on the Hugging Face hub, with its card; it becomes visible there all at once.

    What the hub has already is not sent. Files go to a pull request, whose digests are compared with those
    of the corpus before it is merged. Start it again after an interruption. It takes the token of HF_TOKEN or of
    `hf auth login`.
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
        with bar_or_lines("sent", pushed.size) as tell:
            pushed.send(tell)
    pushed.finish()
    say(f"{counted(len(pushed.files), 'file')}, {as_size(pushed.whole_size)}: {pushed.repository.page}")
