"""`zyda demo`: build a small corpus and a mixture, as an example, from the text of installed Python packages."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from zyda_flows.flows.command.build import build
from zyda_flows.flows.command.mix import mix
from zyda_flows.flows.command.packaged import PACKAGE, SCHEMA, text_of
from zyda_flows.flows.command.terminal import say
from zyda_flows.flows.command.trace_mixture import trace_token
from zyda_flows.tasks.errors import Denied

EXAMPLES = ("zyda demo demo", "zyda demo demo --documents 50")
MODELS = "models"
# The end of each line of the packaged files that is left out if torch or transformers is not installed.
NEEDS_MODELS = "# needs the extra `models`"
FILES = {"recipe.yaml": "demo", "mixture.yaml": "mixtures/demo"}


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the demo; other files in it are not changed.")
    ],
    documents: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use at most N documents of each source.")
    ] = None,
) -> None:
    """Build a small corpus and a mixture in FOLDER, from the text of the installed Python packages.

    No network is needed. FOLDER then contains source files, a recipe, models, the corpus with its report, and
    a mixture. A recipe or a mixture that you have changed is not overwritten: the command ends with an error.
    After an interruption, start the command again: finished parts are not built again.
    """
    write_demo(folder, documents)
    recipe, mixture = (str(folder / name) for name in FILES)
    build(recipe)
    mix(mixture)
    trace_token(str(folder / "mixtures/demo"), position=0)
    for line in next_steps(folder):
        say(line)


def write_demo(folder: Path, documents: int | None = None) -> None:
    """Write the sources, the models, the recipe and the mixture.

    Without torch and transformers, the lines of the recipe that need the quality model are left out. Raises Denied,
    before anything is written, if the recipe or the mixture in the folder was changed.

    documents: the maximum number of documents of each kind of text, or None for all.
    """
    from zyda_flows.flows.command.demo_sources import gather  # late

    has_models = has_model_libraries()
    for name, packaged in FILES.items():
        expect_unchanged(folder / name, text_of(packaged))
    shutil.copytree(PACKAGE / "recipes" / MODELS, folder / MODELS, dirs_exist_ok=True)
    for name, packaged in FILES.items():
        text = text_of(packaged)
        (folder / name).write_text(text if has_models else without_models(text), encoding="utf-8")
    if not has_models:
        say("without the quality model, which needs torch and transformers: pip install 'zyda-flows[models]'")
    gather(folder / "sources", documents)


def has_model_libraries() -> bool:
    from zyda_flows.tasks.quality.encoders import missing_libraries  # late

    return not missing_libraries()


def without_models(text: str) -> str:
    """Return a recipe or a mixture without the lines that need the extra `models`."""
    return "".join(line for line in text.splitlines(keepends=True) if NEEDS_MODELS not in line)


def expect_unchanged(path: Path, text: str) -> None:
    """Raise Denied if a file exists and differs from the text that the demo writes, with or without models.

    text: the packaged text. The line for editors is not compared.
    """
    if path.exists() and without_schema(path.read_text(encoding="utf-8")) not in map(
        without_schema, (text, without_models(text))
    ):
        command = "build" if path.name == "recipe.yaml" else "mix"
        raise Denied(
            f"{path}: this file has been changed; use zyda {command} {path}, or give zyda demo a new folder"
        )


def without_schema(text: str) -> str:
    """Return the text of a file without the line for editors, which contains the path of the package."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(SCHEMA))


def next_steps(folder: Path) -> list[str]:
    return [
        "",
        "the demo is complete; look at:",
        f"  {folder}/demo/report.html   the report: counts of each stage, and removed duplicates",
        f"  {folder}/demo/published     the corpus: Parquet files of documents",
        f"  {folder}/mixtures/demo      the mixture: files of tokens for Megatron and OLMo-core",
        f"  {folder}/recipe.yaml        the recipe; change it, then: zyda build {folder}/recipe.yaml",
        f"  zyda explain {folder}/recipe.yaml 0",
    ]
