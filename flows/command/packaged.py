"""Read the files of the package: recipes, mixtures, experiments, and the models of the demo."""

import re
from importlib.resources import files
from itertools import dropwhile, takewhile
from pathlib import Path

from zyda_flows.tasks.errors import BadInput, Denied

PACKAGE = Path(str(files("zyda_flows")))
FOLDERS = {
    "": "recipes",
    "mixtures/": "mixtures",
    "experiments/": "experiments",
}  # by the prefix of their names
SCHEMA = "# yaml-language-server: $schema="


def packaged_files() -> dict[str, Path]:
    """Return recipes, mixtures and experiments by name: `zyda2` is a recipe, `mixtures/zyda2` a mixture."""
    return {
        prefix + path.stem: path
        for prefix, folder in FOLDERS.items()
        for path in sorted((PACKAGE / folder).glob("*.yaml"))
    }


def text_of(name: str) -> str:
    """Return the text of a recipe or mixture, with the path of its schema for editors."""
    path = packaged_files().get(name)
    if path is None:
        raise BadInput(
            f"{name}: the package has no recipe, mixture or experiment of this name; zyda recipes lists them"
        )
    return path.read_text(encoding="utf-8").replace(SCHEMA, f"{SCHEMA}{path.parent}/", 1)


def sentence_of(path: Path) -> str:
    """Return the first sentence of the comment at the beginning of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(
        lambda line: line.startswith("#"), dropwhile(lambda line: line.startswith(SCHEMA), lines)
    )
    return re.split(r"(?<=\.)\s", " ".join(line.removeprefix("#").strip() for line in comment))[0]


def write_new(path: Path, text: str) -> None:
    """Write a new file. Raises Denied if it exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Denied(f"{path}: the file exists; give another name, or remove it") from error
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}") from error
