"""A user's own steps: functions that a recipe names as `module:function`.

A recipe is a text that others can send; a function runs with all that this process may do. So none is called
but those of the modules that the environment of the build and of its workers names in ZYDA_STEPS, with commas
between them. The digest of the module's file is part of what a step is known by: a changed function is another.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import BadInput, BadRecipe, first_line
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.storage.records import Record

ALLOWED = "ZYDA_STEPS"

Function = Callable[[Any], Any]


def allowed_modules() -> set[str]:
    return {name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()}


def function_named(named: str, code: str) -> Function:
    """Return a user's function. Raises BadRecipe where it is not allowed, is not there, or is another by now.

    code: the hash of its module's file, as the build was planned with it.
    """
    module, _, name = named.partition(":")
    if module not in allowed_modules():
        raise lacking(named, f"{ALLOWED}={module} is not in its environment")
    try:
        return import_function(module, name, code)
    except BadRecipe as error:
        if isinstance(error.__cause__, ImportError):
            raise lacking(named, first_line(error.__cause__)) from error
        raise


def lacking(named: str, fault: str) -> BadRecipe:
    """Return the error of a worker that lacks a function with which the build was planned in another process."""
    module = named.partition(":")[0]
    return BadRecipe(
        f"{named}: a worker cannot call it: {fault}. Workers have the environment of their start. Where "
        f"`zyda up` runs: `zyda down`, then `zyda up` with {ALLOWED}={module} and the folder of {module}.py in "
        "PYTHONPATH, or build without it; workers elsewhere need both variables too"
    )


def check_allowed(named: str) -> None:
    module = named.partition(":")[0]
    if module not in allowed_modules():
        raise BadRecipe(
            f"{named} is code, which a recipe runs only where it is allowed: set {ALLOWED}={module} for the build "
            "and its workers, if you trust it"
        )


@lru_cache
def import_function(module: str, name: str, code: str) -> Function:
    """Import a function from a file of just this content: a worker that lives on has the module of before."""
    try:
        is_there = module in sys.modules
        loaded = importlib.import_module(module)
        loaded = importlib.reload(loaded) if is_there else loaded
        function = getattr(loaded, name)
    except (Exception, SystemExit) as error:
        raise BadRecipe(f"{module}:{name} cannot be imported: {first_line(error)}") from error
    if not callable(function):
        raise BadRecipe(f"{module}:{name} is no function")
    if digest_of_file(module) != code:
        raise BadRecipe(f"{module}:{name} is another here than where the build was planned; build again")
    return function


def digest_of_code(named: str) -> str:
    """Return a hash of the file that a user's function stands in; the function is there. Raises BadRecipe."""
    check_allowed(named)
    module, _, name = named.partition(":")
    code = digest_of_file(module)
    import_function(module, name, code)
    return code


def digest_of_file(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
        return sha256(Path(str(spec and spec.origin)).read_bytes()).hexdigest()
    except (ImportError, OSError, ValueError) as error:
        raise BadRecipe(f"{module}: there is no such module, or it is in no file") from error


def answer_of(named: str, code: str, texts: pa.LargeStringArray, kind: pa.DataType) -> pa.Array:
    """Ask a user's function about texts. Raises BadInput where it fails or answers something else.

    kind: the type of its answer, a value for each text; only a text may not be null.
    """
    function = function_named(named, code)
    try:
        answer = function(texts)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{named} failed: {type(error).__name__}: {first_line(error)}") from error
    try:
        answer = answer.combine_chunks() if isinstance(answer, pa.ChunkedArray) else pa.array(answer)
        if not may_be(answer.type, kind):
            raise TypeError(f"it has {answer.type}")
        answer = answer.cast(kind)
        answer.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(f"{named}: an array of {kind} is expected: {first_line(error)}") from error
    if len(answer) != len(texts):
        raise BadInput(f"{named} returned {len(answer):,} values for {len(texts):,} documents")
    if kind == texts.type and answer.null_count:
        raise BadInput(f"{named} returned no text for a document")
    if kind == pa.string() and pc.any(pc.equal(answer, "")).as_py():
        raise BadInput(
            f"{named} gave an empty text as the reason for which a document goes; null lets it stay"
        )
    return answer


def may_be(given: pa.DataType, kind: pa.DataType) -> bool:
    """Say whether what a function gave is of the kind that is expected: a mask is no reason, a number no text."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given):
        return True
    is_text = any(of(given) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
    is_number = any(
        of(given)
        for of in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    )
    return is_number if kind == pa.float64() else is_text


class OwnFunction(Record):
    """A function of the user's own. code: the hash of its module's file."""

    named: str
    code: str

    def answer(self, texts: pa.LargeStringArray, kind: pa.DataType) -> pa.Array:
        """Call it on texts. Raises BadInput."""
        return answer_of(self.named, self.code, texts, kind)


def own_function(settings: Step) -> OwnFunction | None:
    """Return the user's function that does a step, if one does. Raises BadRecipe."""
    named = settings.function
    return OwnFunction(named=named, code=digest_of_code(named)) if named else None
