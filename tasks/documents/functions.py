"""A user's own steps: functions that a recipe names as `module:function`.

A recipe is a text that others can send; a function runs with all that this process may do. So none is called
but those of the modules that the environment of the build and of its workers names in ZYDA_STEPS, with commas
between them. The digest of the module's file is part of what a step is known by: a changed function is another.
"""

import importlib
import inspect
import os
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.errors import BadInput, BadRecipe, first_line

ALLOWED = "ZYDA_STEPS"

Function = Callable[[Any], Any]


def allowed_modules() -> set[str]:
    return {name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()}


def function_named(named: str) -> Function:
    """Return a user's function. Raises BadRecipe where it is not allowed, or is not there."""
    module, _, name = named.partition(":")
    if module not in allowed_modules():
        raise BadRecipe(
            f"{named} is code, which a recipe runs only where it is allowed: set {ALLOWED}={module} for the build "
            "and its workers, if you trust it"
        )
    return imported(module, name)


@lru_cache
def imported(module: str, name: str) -> Function:
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise BadRecipe(f"{module}:{name} cannot be imported: {first_line(error)}") from error
    if not callable(function):
        raise BadRecipe(f"{module}:{name} is no function")
    return function


def digest_of_code(named: str) -> str:
    """Return a hash of the file that a user's function stands in."""
    function = function_named(named)
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        file = None
    if not file:
        raise BadRecipe(f"{named} stands in no file")
    return sha256(Path(file).read_bytes()).hexdigest()


def answer_of(named: str, texts: pa.LargeStringArray, kind: pa.DataType) -> pa.Array:
    """Ask a user's function about texts. Raises BadInput where it fails or answers something else.

    kind: the type of its answer, a value for each text; only a text may not be null.
    """
    function = function_named(named)
    try:
        answer = function(texts)
    except Exception as error:
        raise BadInput(f"{named} failed: {type(error).__name__}: {first_line(error)}") from error
    try:
        answer = answer.combine_chunks() if isinstance(answer, pa.ChunkedArray) else pa.array(answer)
        answer = answer.cast(kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(f"{named}: an array of {kind} is expected: {first_line(error)}") from error
    if len(answer) != len(texts):
        raise BadInput(f"{named} returned {len(answer):,} values for {len(texts):,} documents")
    if kind == texts.type and answer.null_count:
        raise BadInput(f"{named} returned no text for a document")
    return answer
