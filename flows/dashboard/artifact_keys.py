"""The keys of artifacts in the dashboard: a key for each corpus and kind of page."""

import re

from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import digest_of


def artifact_key(recipe: Recipe, kind: str) -> str:
    """Return a valid artifact key of Prefect (small letters, digits, dashes), unique to the corpus."""
    return key_of(recipe.corpus, kind, recipe.folder.url)


def keys_like(recipe: Recipe) -> str:
    """Return a pattern for SQL's LIKE that matches the keys of all artifacts of a corpus."""
    beginning, _, end = artifact_key(recipe, "x").rpartition("-x-")
    return f"{beginning}-%-{end}"


def key_of(name: str, kind: str, place: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{name}-{kind}-{digest_of(place)[:6]}".lower()).strip("-")
