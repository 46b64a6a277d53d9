"""The names of artifacts in the dashboard: one for each corpus and each kind of page."""

import re

from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import digest_of


def artifact_key(recipe: Recipe, what: str) -> str:
    """Return a name as Prefect wants it, small letters, digits and dashes, that no other corpus has."""
    return key_of(recipe.corpus, what, recipe.folder.url)


def keys_like(recipe: Recipe) -> str:
    """Return the names of all artifacts of a corpus, as a pattern of SQL's LIKE."""
    beginning, _, end = artifact_key(recipe, "x").rpartition("-x-")
    return f"{beginning}-%-{end}"


def key_of(name: str, what: str, place: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{name}-{what}-{digest_of(place)[:6]}".lower()).strip("-")
