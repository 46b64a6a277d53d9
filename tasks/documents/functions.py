"""A user's own functions as steps, which a recipe names as `module:function`.

A recipe can come from somebody else, and a function can do everything that this process may do. So only functions
of allowed modules are called: the environment variable ZYDA_STEPS of the build and its workers lists them,
separated by commas. The digest of the module's file is part of the step's key, so a changed function runs again.
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


def load_function(named: str, code: str) -> Function:
    """Return a user's function. Raises BadRecipe if it is not allowed, missing, or has changed.

    code: the hash of its module's file when the build was planned.
    """
    module, _, name = named.partition(":")
    if module not in allowed_modules():
        raise worker_error(named, f"{ALLOWED}={module} is not in its environment")
    try:
        return import_function(module, name, code)
    except BadRecipe as error:
        if isinstance(error.__cause__, ImportError):
            raise worker_error(named, first_line(error.__cause__)) from error
        raise


def worker_error(named: str, fault: str) -> BadRecipe:
    """Return the error for a worker that cannot call a function that the planning process could."""
    module = named.partition(":")[0]
    return BadRecipe(
        f"{named}: a worker cannot call this function: {fault}. Workers keep the environment of their start. If "
        f"`zyda up` started them: run `zyda down`, then `zyda up` with {ALLOWED}={module} and the folder of "
        f"{module}.py in PYTHONPATH, or build without `zyda up`; other workers need both variables, too"
    )


def check_allowed(named: str) -> None:
    module = named.partition(":")[0]
    if module not in allowed_modules():
        raise BadRecipe(
            f"{named} is code, which a recipe may run only if it is allowed: set {ALLOWED}={module} for the build "
            "and its workers, if you trust it"
        )


@lru_cache
def import_function(module: str, name: str, code: str) -> Function:
    """Import a function from a file with the hash `code`. A module that was imported before is read again."""
    try:
        was_imported = module in sys.modules
        loaded = importlib.import_module(module)
        loaded = importlib.reload(loaded) if was_imported else loaded
        function = getattr(loaded, name)
    except (Exception, SystemExit) as error:
        raise BadRecipe(f"{module}:{name} cannot be imported: {first_line(error)}") from error
    if not callable(function):
        raise BadRecipe(f"{module}:{name} is not a function")
    if digest_of_file(module) != code:
        raise BadRecipe(f"{module}:{name} has changed since the build was planned; build again")
    return function


def digest_of_code(named: str) -> str:
    """Return the hash of the file of a user's function, and import the function. Raises BadRecipe."""
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
        raise BadRecipe(f"{module}: no such module, or the module has no file") from error


def call_function(named: str, code: str, texts: pa.LargeStringArray, kind: pa.DataType) -> pa.Array:
    """Call a user's function with texts, (n,), and return its result, (n,).

    kind: the type of the result. A result of texts must not contain null. Raises BadInput if the function fails or
    returns a value of another type or length.
    """
    function = load_function(named, code)
    try:
        result = function(texts)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{named} failed: {type(error).__name__}: {first_line(error)}") from error
    try:
        result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else pa.array(result)
        if not is_castable(result.type, kind):
            raise TypeError(f"got {result.type}")
        result = result.cast(kind)
        result.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(f"{named}: an array of {kind} is expected: {first_line(error)}") from error
    if len(result) != len(texts):
        raise BadInput(f"{named} returned {len(result):,} values for {len(texts):,} documents")
    if kind == texts.type and result.null_count:
        raise BadInput(f"{named} returned no text for a document")
    if kind == pa.string() and pc.any(pc.equal(result, "")).as_py():
        raise BadInput(f"{named} returned an empty text as a reason; return null to keep a document")
    return result


def is_castable(returned: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a result may be cast: numbers and booleans are not cast to texts, nor texts to numbers."""
    if pa.types.is_dictionary(returned):
        returned = returned.value_type
    if pa.types.is_null(returned):
        return True
    is_text = (
        pa.types.is_string(returned)
        or pa.types.is_large_string(returned)
        or pa.types.is_string_view(returned)
    )
    is_decimal = pa.types.is_decimal(returned)
    is_number = is_decimal or (pa.types.is_primitive(returned) and not pa.types.is_temporal(returned))
    return is_number if kind == pa.float64() else is_text


class UserFunction(Record):
    """A user's own function. code: the hash of its module's file."""

    named: str
    code: str

    def call(self, texts: pa.LargeStringArray, kind: pa.DataType) -> pa.Array:
        """Call the function with texts. Raises BadInput."""
        return call_function(self.named, self.code, texts, kind)


def load_user_function(settings: Step) -> UserFunction | None:
    """Return the user's function of a step, or None. Raises BadRecipe."""
    named = settings.function
    return UserFunction(named=named, code=digest_of_code(named)) if named else None
