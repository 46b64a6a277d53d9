"""Read a recipe: the YAML file of a corpus. All its fields are checked before work starts."""

import glob
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from zyda_flows.tasks.errors import BadRecipe, first_line
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.faults import faults
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.joins import Join
from zyda_flows.tasks.recipe.judges import ModelSettings
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.storage.folder import absolute
from zyda_flows.tasks.workers.engine import requested_engine

Settings = TypeVar("Settings", bound=ModelSettings)
IN_MEMORY = dict[str, str]()  # texts of recipes that are not files, by their names


def load_recipe(
    path: str, *, storage: str | None = None, sample: float | None = None, inputs: str | None = None
) -> Recipe:
    """Return the recipe in a file; `storage`, `sample` and `inputs` override its fields.

    Relative paths in it are relative to the recipe's own folder. Raises BadRecipe with all faults of the recipe.
    """
    text, content = read_mapping(path, "recipe", "name, storage, tokenizer and sources")
    if sample is not None:
        content["sample"] = sample
    folders = {name: url for name, url in (("storage", storage), ("inputs", inputs)) if url is not None}
    content |= {name: url if is_odd(url) else absolute(url) for name, url in folders.items()}
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        given = {"sample", *folders} if sample is not None else set(folders)
        raise BadRecipe(*faults(path, text, error, given)) from error
    placed = anchor_paths(recipe, Path(path).resolve().parent)
    placed._as_written = recipe.as_written
    placed._file = path, text
    placed._engine = requested_engine()
    return placed


def read_mapping(
    path: str, kind: str, fields: str, loader: "type[UniqueKeys] | None" = None
) -> tuple[str, dict[str, Any]]:
    """Return the text of a YAML file and the mapping in it. Raises BadRecipe.

    kind: the kind of file, for messages, for example "recipe". fields: the required fields, in words.
    """
    try:
        text = read_text(path)
        content = yaml.load(text, Loader=loader or UniqueKeys)  # noqa: S506 (a SafeLoader)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadRecipe(f"{path}: cannot be read: {reason}".replace("\0", "\\0")) from error
    except RecursionError as error:
        raise BadRecipe(f"{path}: not a {kind}: it is nested too deep") from error
    except yaml.YAMLError as error:
        raise BadRecipe(yaml_fault(path, kind, error)) from error
    if not isinstance(content, dict):
        raise BadRecipe(f"{path}: a {kind} is a mapping with {fields}")
    return text, content


def yaml_fault(path: str, kind: str, error: yaml.YAMLError) -> str:
    """Return the message for a file that is not valid YAML, with advice for two frequent faults."""
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    reason = str(getattr(error, "problem", None) or error).replace("\n", " ")
    reason += "; use spaces instead of tabs" if r"'\t'" in reason else ""
    reason += "; check the indentation of this line" if "<block" in reason else ""
    return f"{path}{line}: not valid YAML for a {kind}: {reason}"


@contextmanager
def recipe_in_memory(name: str, text: str) -> Iterator[str]:
    """Make the text of a recipe readable by a name in this process while the block runs.

    name: has no folder; relative paths in the recipe are relative to the working directory.
    """
    IN_MEMORY[name] = text
    try:
        yield name
    finally:
        del IN_MEMORY[name]


def read_text(path: str) -> str:
    """Return the text of a small file. Raises OSError, and ValueError for more than MOST_BYTES."""
    if path in IN_MEMORY:
        content = IN_MEMORY[path].encode()
    else:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes, the limit for a recipe")
    return content.decode().replace("\r\n", "\n").replace("\r", "\n")


def anchor_paths(recipe: Recipe, folder: Path) -> Recipe:
    """Return a recipe with its relative paths made absolute, from the recipe's folder."""

    def place(path: str, *, always: bool, at: Path = folder) -> str:
        if "://" in path or not (always or os.path.exists(folder / path)):
            return path
        return os.path.abspath(
            at / Path(path).expanduser()
        )  # not realpath, so that a link keeps its name and ending

    def pattern(path: str) -> str:
        """Make a pattern absolute; characters of the folder's name are not wildcards."""
        is_pattern = any(mark in path for mark in "*?[") and not os.path.exists(folder / path)
        return place(path, always=True, at=Path(glob.escape(str(folder))) if is_pattern else folder)

    def anchor(source: Source) -> Source:
        files = tuple(map(pattern, source.files))
        placed: dict[str, Any] = {"files": files, "documents": placed_steps(source.documents)}
        if source.files_from is not None:
            prefix = source.files_from.prefix
            anchored = place(prefix, always=True) + "/" * prefix.endswith("/") if prefix else ""
            own = {"url": place(source.files_from.url, always=True), "prefix": anchored}
            placed["files_from"] = source.files_from.model_copy(update=own)
        if source.classify is not None:
            placed["classify"] = with_model_placed(source.classify)
        placed["joins"] = tuple(map(with_labels_placed, source.joins))
        if source.judges is not None:
            placed["judges"] = tuple(map(with_model_placed, source.judges))
        return source.model_copy(update=placed)

    def with_model_placed(settings: Settings) -> Settings:
        return settings.model_copy(update={"model": place(settings.model, always=False)})

    def with_labels_placed(join: Join) -> Join:
        return join.model_copy(update={"labels": tuple(map(pattern, join.labels))})

    def placed_steps(steps: tuple[Step, ...] | None) -> tuple[Step, ...] | None:
        at = partial(place, always=True)
        return None if steps is None else tuple(step.with_files(at) for step in steps)

    def placed_round(dedup: Dedup) -> Dedup:
        changed: dict[str, Any] = {"against": tuple(place(url, always=True) for url in dedup.against)}
        if isinstance(dedup, SemanticRound):
            models = {"model": dedup.semantic.model, "propose": dedup.semantic.propose}
            placed = {name: place(model, always=False) for name, model in models.items() if model}
            changed["semantic"] = dedup.semantic.model_copy(update=placed)
        return dedup.model_copy(update={name: value for name, value in changed.items() if value})

    return recipe.model_copy(
        update={
            "documents": placed_steps(recipe.documents),
            "deny": tuple(map(pattern, recipe.deny)),
            "rounds": tuple(map(placed_round, recipe.rounds)),
            "storage": place(recipe.storage, always=True),
            "inputs": place(recipe.inputs, always=True) if recipe.inputs else None,
            "tokenizer": place(recipe.tokenizer, always=recipe.tokenizer.endswith(".json")),
            "judges": tuple(map(with_model_placed, recipe.judges)),
            "sources": tuple(anchor(source) for source in recipe.sources),
        }
    )


MOST_BYTES = 1 << 20
MOST_VALUES = 50_000  # 1,024 sources with a dozen fields each, or the names of as many files
NAMES = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "merge", "value")}


class UniqueKeys(yaml.SafeLoader):
    """Reads YAML without repeated keys in a mapping; YAML would use the last value and ignore the others.

    A document may have MOST_VALUES values. A value that is repeated by aliases (`*name`) and merges (`<<`) counts
    each time.
    """

    composed = 0
    names: frozenset[str] = frozenset(NAMES)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.composed += 1
        if self.composed > MOST_VALUES:
            raise too_many_values(self.get_mark())
        return super().compose_node(parent, index)

    def construct_document(self, node: yaml.Node) -> Any:
        if expanded_size(node, {}) > MOST_VALUES:
            raise too_many_values(node.start_mark)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == "on":  # which YAML 1.1 reads as true
                key.tag = "tag:yaml.org,2002:str"
            if not isinstance(key, yaml.ScalarNode) or key.tag not in self.names:
                value = key.value if isinstance(key, yaml.ScalarNode) else ""
                hint = f"; YAML does not read {value} as a text, so write it in quotes" if value else ""
                raise yaml.constructor.ConstructorError(
                    problem=f"a name is expected{hint}", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class NumberedKeys(UniqueKeys):
    """Reads the same YAML, with whole numbers as keys, too."""

    names = frozenset({*NAMES, "tag:yaml.org,2002:int"})


def expanded_size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """Return the number of values below a node, with aliases expanded; infinite if the node contains itself."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for pair in below for part in (pair if isinstance(pair, tuple) else (pair,)))
        sizes[id(node)] = 1 + sum(expanded_size(part, sizes) for part in parts)
    return sizes[id(node)]


def too_many_values(mark: yaml.Mark) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(problem=f"more than {MOST_VALUES:,} values", problem_mark=mark)


def is_odd(path: str) -> bool:
    """Return whether the recipe will refuse this path."""
    return not path.strip() or "\0" in path or (path.startswith("~") and path == os.path.expanduser(path))
