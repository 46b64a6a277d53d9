"""Messages for the faults of a recipe: `file:line: field: fault (found value)`."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, Protocol

import yaml
from pydantic import BaseModel, ValidationError

from zyda_flows.tasks.recipe.buckets import Bucket
from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.joins import Join
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.kinds import TAGS
from zyda_flows.tasks.recipe.passages import TAGS as PASSAGES
from zyda_flows.tasks.recipe.source import Classify, Source
from zyda_flows.tasks.recipe.values import NO_CREDENTIALS
from zyda_flows.tasks.words import counted

MOST_SHOWN = 100
LONGEST = 200  # characters of an invalid value in a message
# Messages in the words of YAML, by the type of pydantic's error.
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
MODELS: dict[str, type[BaseModel]] = {
    "": Recipe,
    "sources": Source,
    "classify": Classify,
    "judges": Judge,
    "join": Join,
    "bucket": Bucket,
}


def names_in_file(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields as a file has them."""
    return [field.alias or name for name, field in model.model_fields.items()]


# Where a field belongs that is given in another part.
MISPLACED: dict[str, dict[Any, str]] = {
    "": dict.fromkeys(names_in_file(Source), "each of the sources"),
    "sources": dict.fromkeys(names_in_file(Recipe), "the recipe, outside `sources`"),
}
OPTIONS = {"inputs": "to"}  # options whose names differ from their fields
Location = tuple[int | str, ...]


class FromFile(Protocol):
    """A recipe or a mixture, with the path and the text of its file."""

    _file: tuple[str, str]


KINDS = (MAPPING, OTHER, *TAGS, *PASSAGES, "[key]")


def faults(
    path: str, text: str, error: ValidationError, given: Collection[str] = (), kind: str = "recipe",
    models: dict[str, type[BaseModel]] = MODELS,
) -> list[str]:  # fmt: skip
    """Return a message for each fault of a recipe: `file:line: field: fault (found value)`.

    Args:
        path: the file. text: its content. error: the faults.
        given: fields that come from a command-line option of the same name instead of the file.
        kind: the kind of file, for messages.
        models: the models of the file's parts, by the names of their fields. Default: a recipe's.
    """
    tree = yaml.compose(text)
    sentences = list(
        dict.fromkeys(
            f"--{OPTIONS.get(str(location[0]), location[0])}: {words}"
            if location and location[0] in given
            else f"{path}{place_in_file(tree, location)}: {field_name(location, kind)}: {words}"
            for location, words in (
                (fault["loc"], describe_fault(fault, models, tree)) for fault in original_faults(error, tree)
            )
        )
    )
    more = len(sentences) - MOST_SHOWN
    return [*sentences[:MOST_SHOWN], *([f"{path}: {counted(more, 'fault')} more"] * (more > 0))]


def original_faults(error: ValidationError, tree: Any) -> list[dict[str, Any]]:
    """Return pydantic's faults without those that follow from other faults.

    A list with a faulty entry is also reported as too short.
    """
    details: list[dict[str, Any]] = [
        dict(fault) | {"loc": location_in_file(tree, fault["loc"])} for fault in error.errors()
    ]
    faulty = {fault["loc"][:-1] for fault in details if len(fault["loc"]) > 1}
    lists = {location[:i] for location in faulty for i in range(1, len(location) + 1)}
    return [
        fault
        for fault in details
        if fault["type"] != "default_factory_not_called"
        and (fault["type"] != "too_short" or fault["loc"] not in lists)
    ]


def place_in_recipe(recipe: Recipe, *location: int | str) -> str:
    """Return `file:line: field` of a field, for a fault that is noticed after the recipe is read."""
    path, text = recipe._file
    tree = yaml.compose(text)
    location = location_in_file(tree, location)
    return f"{path}{place_in_file(tree, location)}: {field_name(location)}"


def with_place(recipe: "FromFile", location: Location, fault: str) -> str:
    """Return a fault that is noticed after the recipe is read, with `file:line: ` of its field before it.

    The fault is returned unchanged if it begins with the file already, or if the recipe was not read from a file.
    """
    path, text = recipe._file
    if not (path and location) or fault.startswith(f"{path}:"):
        return fault
    tree = yaml.compose(text)
    return f"{path}{place_in_file(tree, location_in_file(tree, location))}: {fault}"


def location_in_file(tree: Any, location: Location) -> Location:
    """Return pydantic's location of a field as a location in the file.

    The tags of unions are removed, and the index of a single deduplication round that is written as a mapping.
    """
    location = tuple(step for step in location if step not in KINDS)
    if location[:2] == ("dedup", 0):
        nodes = tree.value if isinstance(tree, yaml.MappingNode) else ()
        if not any(k.value == "dedup" and isinstance(v, yaml.SequenceNode) for k, v in nodes):
            return ("dedup", *location[2:])
    return location


def field_name(location: Location, kind: str = "recipe") -> str:
    joined = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return joined.lstrip(".") or kind


def describe_fault(fault: Any, models: dict[str, type[BaseModel]], tree: Any = None) -> str:
    if fault["type"] == "extra_forbidden":
        return unknown_field(fault["loc"], models)
    message = WORDS.get(fault["type"]) or re.sub(r"^Value error, ", "", fault["msg"]).replace("\n", " ")
    for words, plainer in PHRASES.items():
        message = re.sub(words, plainer, message)
    if fault["type"] == "string_type" and (word := unquoted_word(tree, fault["loc"])):
        message = f"{message}; YAML does not read {word} as a text, so write it in quotes"
    if fault["type"] != "missing" and is_plain(fault["input"]) and NO_CREDENTIALS not in message:
        value = repr(fault["input"])
        return f"{message} (found {value if len(value) <= LONGEST else value[:LONGEST] + '...'})"
    return message


def unquoted_word(node: Any, location: Location) -> str:
    """Return the characters of a value without quotes that YAML does not read as a text."""
    for step in location:
        node = node_below(node, step)
    is_read_otherwise = isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:str"
    return node.value if is_read_otherwise and not node.style else ""


def is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def unknown_field(location: Location, models: dict[str, type[BaseModel]]) -> str:
    """Return the message for an unknown field, with the right place or a similar name if there is one."""
    *within, name = location
    part = next((str(step) for step in reversed(within) if isinstance(step, str)), "")
    if part not in models:
        return "unknown field"
    if models is MODELS and name in MISPLACED.get(part, {}):
        return f"unknown field; it belongs to {MISPLACED[part][name]}"
    similar = get_close_matches(str(name), names_in_file(models[part]), 1)
    return f"unknown field; did you mean {similar[0]}?" if similar else "unknown field"


def place_in_file(node: Any, location: Location) -> str:
    """Return `:line` of the deepest known node on the path to a field, or ""."""
    for step in location:
        below = node_below(node, step)
        if below is None:
            break
        node = below
    return f":{node.start_mark.line + 1}" if node is not None else ""


def node_below(node: Any, step: int | str) -> Any:
    """Return the node of a mapping's field or of a list's entry; None if there is none."""
    if isinstance(node, yaml.MappingNode):
        return next((v for k, v in node.value if k.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None
