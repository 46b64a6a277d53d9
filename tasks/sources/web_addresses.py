"""Addresses of the web, in the one form in which they are compared: the URL Standard's, as browsers have it."""

import re
from collections.abc import Iterator

SCHEMES = ("http:", "https:")
HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
NO_DOMAIN = re.compile(r"[/\\:@?#\s]")


def normalised(address: str) -> tuple[str, str] | None:
    """Return the host of an address and the whole without scheme and fragment; None for what is none of the web.

    The host is in lower case and in Punycode, dots in the path are resolved, the port of the scheme is left out.
    What comes by HTTP and by HTTPS is the same page.
    """
    import can_ada  # late: few recipes compare addresses

    try:
        parsed = can_ada.parse(address.strip())
    except (ValueError, UnicodeError):
        return None
    if parsed.protocol not in SCHEMES or not parsed.hostname:
        return None
    return parsed.hostname.rstrip("."), f"{parsed.host}{parsed.pathname}{parsed.search}"


def domain(name: str) -> str | None:
    """Return a domain as hosts are compared, `*.example.org` as `example.org`; None for a text that is none."""
    name = name.removeprefix("*").removeprefix(".")
    found = None if NO_DOMAIN.search(name) else normalised(f"https://{name}/")
    return found[0] if found and HOST.fullmatch(found[0]) else None


def with_parents(host: str) -> Iterator[str]:
    """Return a host and the domains that it is in, the nearest first: a.b.org, b.org, org."""
    while host:
        yield host
        host = host.partition(".")[2]
