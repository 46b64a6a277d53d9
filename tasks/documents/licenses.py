"""The licence of each document, by a column of its source, and the documents to remove for their licence.

The statistics of a document are its licence in SPDX notation, or NOT_KNOWN with the name in its source if SPDX does
not list it; and that name in the column of the rule that the document breaks.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.components import NOT_KNOWN
from zyda_flows.tasks.recipe.spdx import LicenceStatement, Licenses
from zyda_flows.tasks.sources.named_values import LIST_SEPARATOR, column_texts

LICENSE = "license"
RULE = "license_filter"
UNKNOWN, MISSING = f"{RULE}.unknown", f"{RULE}.missing"
RULES = {
    RULE: "its licence is not one of the licences to keep",
    UNKNOWN: "its licence has a name that no list contains and the recipe does not explain",
    MISSING: "it has no licence",
}
NONE = "(none)"
LONGEST = 200  # characters of a stored name


@lru_cache(maxsize=8)
def licenses_of(keep: tuple[str, ...], names: tuple[tuple[str, str], ...]) -> Licenses:
    return Licenses(keep, dict(names))


def license_columns(settings: Mapping[str, Any], table: pa.Table) -> dict[str, pa.Array]:
    """Return the licence of each document, null for none, and a note in each of RULES that it breaks: (n,).

    settings: the fields of a LicenseFilter. table: (n,), the columns of the documents. Raises ValueError for a
    column that cannot contain licences.
    """
    known = licenses_of(tuple(settings["keep"]), tuple(settings["names"].items()))
    encoded = column_texts(table, settings["column"], "licence", lists=True).dictionary_encode()
    names = list[str | None]()
    broken: dict[str, list[str | None]] = {rule: [] for rule in RULES}
    for text in encoded.dictionary.to_pylist():
        statement = known.statement(text.split(LIST_SEPARATOR))
        name = statement and statement.name[:LONGEST]
        rule = broken_rule(statement)
        names.append(f"{NOT_KNOWN}{name}" if rule == UNKNOWN else name)
        for rule_name, notes in broken.items():
            notes.append((name or NONE) if rule_name == rule else None)
    columns = {LICENSE: names, **broken}
    arrays = {name: pa.array(values, pa.string()).take(encoded.indices) for name, values in columns.items()}
    return arrays | {MISSING: pc.if_else(encoded.is_null(), NONE, arrays[MISSING])}


def broken_rule(statement: LicenceStatement | None) -> str | None:
    """Return the rule that a document with these licences breaks, or None."""
    if statement is None:
        return MISSING
    if not statement.is_known:
        return UNKNOWN
    return None if statement.is_kept else RULE
