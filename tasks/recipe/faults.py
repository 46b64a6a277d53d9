"""What is wrong with a recipe, in lines that say where: `file:line: field: what (what was found)`."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import TAGS
from zyda_flows.tasks.recipe.source import Classify, Source
from zyda_flows.tasks.recipe.values import SECRETIVE
from zyda_flows.tasks.words import counted

MOST_SHOWN = 100
LONGEST = 200  # of what was found, in a line
# What pydantic calls the types of YAML's values, as whoever writes a recipe would.
WORDS = {
    "tuple_type": "expected a list, whose entries begin with a dash",
    "list_type": "expected a list, whose entries begin with a dash",
    "model_type": "expected a mapping, with a line `field: value` for each of its fields",
    "dict_type": "expected a mapping, with a line `field: value` for each of its fields",
    "string_type": "expected a text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "missing": "this field is required",
    "string_pattern_mismatch": "expected letters, digits, dots, _ and -, of which the first is a letter or a digit",
}
PHRASES = {
    r"^Input should be": "expected",
    r"greater than or equal to": "at least",
    r"less than or equal to": "at most",
    r"greater than": "more than",
    r"^(String|Tuple|List) should have at (least|most) (\d+) (item|character)(s?)\b.*": r"expected at \2 \3 \4\5",
}
MODELS: dict[str, type[BaseModel]] = {"": Recipe, "sources": Source, "classify": Classify}
OPTIONS = {"inputs": "to"}  # that are called otherwise than their fields
Location = tuple[int | str, ...]
KINDS = (MAPPING, OTHER, *TAGS, "[key]")


def faults(
    path: str, text: str, error: ValidationError, given: Collection[str] = (), kind: str = "recipe",
    models: dict[str, type[BaseModel]] = MODELS,
) -> list[str]:  # fmt: skip
    """Write each fault of a recipe as `file:line: field: what is wrong (what was found)`.

    given: the fields that were not read from the file, but from an option of that name. kind: what the file is.
    models: of its parts, by the names of the fields that have them, those of a recipe without.
    """
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
        f"--{OPTIONS.get(str(place[0]), place[0])}: {words}"
        if place and place[0] in given
        else f"{path}{place_in_file(tree, place)}: {field_of(place, kind)}: {words}"
        for place, words in ((fault["loc"], wording(fault, models, tree)) for fault in own)
    )
    sentences = list(dict.fromkeys(lines))
    return [
        *sentences[:MOST_SHOWN],
        *([f"{path}: {counted(len(sentences) - MOST_SHOWN, 'fault')} more"] * (len(sentences) > MOST_SHOWN)),
    ]


def place_in_recipe(recipe: Recipe, *location: int | str) -> str:
    """Return `file:line: field` of a field of a recipe, for what is found wrong with it later."""
    path, text = recipe._file
    tree = yaml.compose(text)
    place = as_written(tree, location)
    return f"{path}{place_in_file(tree, place)}: {field_of(place)}"


def with_place(recipe: Recipe, location: Location, fault: str) -> str:
    """Write `file:line: ` of a field of a recipe, or of what is there of it, before what was found wrong later.

    Nothing is added where that is said already, or the recipe came from no file.
    """
    path, text = recipe._file
    if not (path and location) or fault.startswith(f"{path}:"):
        return fault
    tree = yaml.compose(text)
    return f"{path}{place_in_file(tree, as_written(tree, location))}: {fault}"


def as_written(tree: Any, location: Location) -> Location:
    """Return the place of a fault as the file has it: one round of deduplication stands there as a mapping.

    What only the types know, of which kind a value is that may be of several, is left out.
    """
    location = tuple(step for step in location if step not in KINDS)
    if location[:2] == ("dedup", 0):
        nodes = tree.value if isinstance(tree, yaml.MappingNode) else ()
        if not any(k.value == "dedup" and isinstance(v, yaml.SequenceNode) for k, v in nodes):
            return ("dedup", *location[2:])
    return location


def field_of(location: Location, kind: str = "recipe") -> str:
    joined = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return joined.lstrip(".") or kind


def wording(fault: Any, models: dict[str, type[BaseModel]], tree: Any = None) -> str:
    if fault["type"] == "extra_forbidden":
        return unknown_field(fault["loc"], models)
    message = WORDS.get(fault["type"]) or re.sub(r"^Value error, ", "", fault["msg"]).replace("\n", " ")
    for words, plainer in PHRASES.items():
        message = re.sub(words, plainer, message)
    if fault["type"] == "string_type" and (word := unquoted_word(tree, fault["loc"])):
        message = f"{message}; {word} means something else in YAML, so write it in quotes"
    if fault["type"] != "missing" and is_plain(fault["input"]) and SECRETIVE not in message:
        value = repr(fault["input"])
        return f"{message} (found {value if len(value) <= LONGEST else value[:LONGEST] + '...'})"
    return message


def unquoted_word(node: Any, location: Location) -> str:
    """Return what is written at a place where YAML reads a text without quotes as another kind of value."""
    for step in location:
        node = node_below(node, step)
    is_read_otherwise = isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:str"
    return node.value if is_read_otherwise and not node.style else ""


def is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def unknown_field(location: Location, models: dict[str, type[BaseModel]]) -> str:
    """Say that there is no such field, and which is meant, or where there is one."""
    *within, name = location
    place = next((str(step) for step in reversed(within) if isinstance(step, str)), "")
    message = "there is no such field"
    if place not in models:
        return message
    if models is MODELS and place == "" and name in Source.model_fields:
        return f"{message}; each of the sources has one"
    if models is MODELS and place == "sources" and name in Recipe.model_fields:
        return f"{message}; the recipe has one, beside `sources`"
    alike = get_close_matches(str(name), models[place].model_fields, 1)
    return f"{message}; did you mean {alike[0]}?" if alike else message


def place_in_file(node: Any, location: Location) -> str:
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
