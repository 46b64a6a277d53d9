"""Recipes of Python programs: the path of a file, a URL, or a mapping."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from zyda_flows.tasks.errors import BadRecipe, first_line, one_line
from zyda_flows.tasks.recipe.loading import MOST_BYTES, recipe_in_memory
from zyda_flows.tasks.storage.stores import open_stream

AnyRecipe = str | os.PathLike[str] | Mapping[str, Any]
ENDINGS = (".yaml", ".yml")
NAME = "recipe"  # of a mapping, in messages
LINE = re.compile(rf"^{NAME}:\d+: ")
OPTION = re.compile(r"^--(?=\w+: )")  # of the command line, in messages


def is_recipe(place: object) -> bool:
    """Return whether a place is a recipe, not the folder of a corpus."""
    return isinstance(place, Mapping) or str(place).endswith(ENDINGS)


def as_json(recipe: AnyRecipe) -> str | dict[str, Any]:
    """Return a recipe as JSON for another process: a path or a URL, or a mapping. Raises BadRecipe."""
    if not isinstance(recipe, Mapping):
        return os.fspath(recipe)
    try:
        return dict(json.loads(json.dumps(dict(recipe), default=as_text)))
    except (TypeError, ValueError, RecursionError) as error:
        expected = "a recipe has texts, numbers, lists and mappings"
        raise BadRecipe(f"{NAME}: {one_line(str(error))}; {expected}") from error


def as_text(value: object) -> Any:
    """Return the JSON form of a value. Raises TypeError."""
    return dict(value) if isinstance(value, Mapping) else os.fspath(value)  # type: ignore[call-overload]


@contextmanager
def recipe_path(recipe: AnyRecipe) -> Iterator[str]:
    """Yield a path from which the recipe can be loaded inside the block. Raises BadRecipe, Denied.

    Relative paths in a mapping and in a file behind a URL are relative to the working directory.
    """
    content = as_json(recipe)
    with without_lines_and_options(is_mapping=isinstance(content, dict)):
        yield from path_of(content)


def path_of(content: str | dict[str, Any]) -> Iterator[str]:
    """Yield the path once. Until the generator is resumed, a recipe in memory can be loaded from the path."""
    if isinstance(content, dict):
        with recipe_in_memory(NAME, yaml.safe_dump(content, sort_keys=False, allow_unicode=True)) as name:
            yield name
    elif "://" in content:
        with recipe_in_memory(content.rpartition("/")[2], text_at(content)) as name:
            yield name
    else:
        yield str(Path(content).expanduser())


@contextmanager
def without_lines_and_options(*, is_mapping: bool) -> Iterator[None]:
    """Adapt faults to a Python program: a mapping has no lines, and `--sample` is the argument `sample`."""
    try:
        yield
    except BadRecipe as error:
        faults = [OPTION.sub("", fault) for fault in error.faults]
        raise BadRecipe(
            *(LINE.sub(f"{NAME}: ", fault) if is_mapping else fault for fault in faults)
        ) from error


def text_at(url: str) -> str:
    """Read a recipe behind a URL. Raises BadRecipe, Denied, Unavailable."""
    with open_stream(url, at_random=False) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadRecipe(f"{url}: it has more than {MOST_BYTES:,} bytes, which no recipe needs")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadRecipe(f"{url}: cannot be read: {first_line(error)}") from error
