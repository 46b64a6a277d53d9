"""What is wrong with a recipe, in lines that say where: `file:line: field: what (what was found)`."""

import re
from typing import Any

import yaml
from pydantic import ValidationError

from tasks.recipe.cleaning import MAPPING, OTHER
from tasks.recipe.fields import Recipe
from tasks.recipe.kinds import TAGS
from tasks.recipe.values import SECRETIVE

MOST_SHOWN = 100
LONGEST = 200  # of what was found, in a line
KINDS = (MAPPING, OTHER, *TAGS, "[key]")


def faults(path: str, text: str, error: ValidationError) -> list[str]:
    """Write each fault of a recipe as `file:line: field: what is wrong (what was found)`."""
    tree = yaml.compose(text)
    details = [fault | {"loc": as_written(tree, fault["loc"])} for fault in error.errors()]
    # A faulty source is no source, so that there may be none left: a consequence, not a fault.
    within = {fault["loc"][:-1] for fault in details if len(fault["loc"]) > 1}
    whole = {place[:i] for place in within for i in range(1, len(place) + 1)}
    own = [
        fault
        for fault in details
        if fault["type"] != "default_factory_not_called"
        and (fault["type"] != "too_short" or fault["loc"] not in whole)
    ]
    lines = (
        f"{path}{place_in_file(tree, fault['loc'])}: {field_of(fault['loc'])}: {wording(fault)}"
        for fault in own
    )
    sentences = list(dict.fromkeys(lines))
    return [
        *sentences[:MOST_SHOWN],
        *([f"{path}: {len(sentences) - MOST_SHOWN:,} faults more"] * (len(sentences) > MOST_SHOWN)),
    ]


def place_in_recipe(recipe: Recipe, *location: int | str) -> str:
    """Return `file:line: field` of a field of a recipe, for what is found wrong with it later."""
    path, text = recipe._file
    tree = yaml.compose(text)
    place = as_written(tree, location)
    return f"{path}{place_in_file(tree, place)}: {field_of(place)}"


def as_written(tree: Any, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the place of a fault as the file has it: one round of deduplication stands there as a mapping.

    What only the types know, of which kind a value is that may be of several, is left out.
    """
    location = tuple(step for step in location if step not in KINDS)
    if location[:2] == ("dedup", 0):
        nodes = tree.value if isinstance(tree, yaml.MappingNode) else ()
        if not any(k.value == "dedup" and isinstance(v, yaml.SequenceNode) for k, v in nodes):
            return ("dedup", *location[2:])
    return location


def field_of(location: tuple[int | str, ...]) -> str:
    joined = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return joined.lstrip(".") or "recipe"


def wording(fault: Any) -> str:
    message = re.sub(r"^Value error, ", "", fault["msg"]).replace("\n", " ")
    if fault["type"] == "missing":
        return "this field is required"
    if fault["type"] == "extra_forbidden":
        return "there is no such field"
    if isinstance(fault["input"], str | int | float | bool) and SECRETIVE not in message:
        value = repr(fault["input"])
        return f"{message} (found {value if len(value) <= LONGEST else value[:LONGEST] + '...'})"
    return message


def place_in_file(node: Any, location: tuple[int | str, ...]) -> str:
    """Return `:line` of the deepest node on the way to a field, or nothing."""
    for step in location:
        below = node_below(node, step)
        if below is None:
            break
        node = below
    return f":{node.start_mark.line + 1}" if node is not None else ""


def node_below(node: Any, step: int | str) -> Any:
    """Return the node of a field of a mapping, or of a place of a list, where there is one."""
    if isinstance(node, yaml.MappingNode):
        return next((v for k, v in node.value if k.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None
