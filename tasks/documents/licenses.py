"""The licence of each document, by a column of its source, and which of them go for it.

What is kept of a document: its licence as SPDX writes it, or NOT_KNOWN and what its source says, where SPDX does
not know that; and the name in the column of the rule that it breaks, if it breaks one.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.components import NOT_KNOWN
from zyda_flows.tasks.recipe.spdx import Licenses
from zyda_flows.tasks.sources.named_values import LIST_SEPARATOR, column_texts

LICENSE = "license"
RULE = "license_filter"
UNKNOWN, MISSING = f"{RULE}.unknown", f"{RULE}.missing"
RULES = {
    RULE: "its licence is not among those to keep",
    UNKNOWN: "the name of its licence is in no list and not explained by the recipe",
    MISSING: "it says nothing of a licence",
}
NONE = "(none)"
LONGEST = 200  # characters of a name that is written down


@lru_cache(maxsize=8)
def licenses_of(keep: tuple[str, ...], names: tuple[tuple[str, str], ...]) -> Licenses:
    return Licenses(keep, dict(names))


def judged_licenses(said: Mapping[str, Any], table: pa.Table) -> dict[str, pa.Array]:
    """Return the licence of each document, null where it names none, and what breaks each of RULES: (n,) strings.

    said: the fields of a LicenseFilter. table: (n,), the columns of the documents. Raises ValueError for a column
    that names no licences.
    """
    known = licenses_of(tuple(said["keep"]), tuple(said["names"].items()))
    encoded = column_texts(table, said["column"], "licence", lists=True).dictionary_encode()
    names = list[str | None]()
    broken: dict[str, list[str | None]] = {rule: [] for rule in RULES}
    for text in encoded.dictionary.to_pylist():
        stated = known.stated(text.split(LIST_SEPARATOR))
        name_said = stated and stated.name[:LONGEST]
        rule = MISSING if stated is None else UNKNOWN if not stated.is_known else RULE
        names.append(f"{NOT_KNOWN}{name_said}" if rule == UNKNOWN else name_said)
        for name, notes in broken.items():
            goes = name == rule and not (stated and stated.is_kept)
            notes.append((name_said or NONE) if goes else None)
    columns = {LICENSE: names, **broken}
    found = {name: pa.array(values, pa.string()).take(encoded.indices) for name, values in columns.items()}
    return found | {MISSING: pc.if_else(encoded.is_null(), NONE, found[MISSING])}
