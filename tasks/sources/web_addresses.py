"""Addresses of the web, in the one form in which they are compared: the URL Standard's, as browsers have it.

All that compares addresses (deny lists, `zyda forget`, `url_rules`, rounds of equal values with
`normalize: address`) does so in this form:

- an address without a scheme is one by HTTPS: `example.org/x`, `//example.org/x`, `www.example.org`;
- scheme, login, fragment, ports 80 and 443, and dots behind the host are left out;
- the host is in lower case and in Punycode, numbers of IPv4 and IPv6 in one form, dots in the path are resolved;
- `%7E` and `~` are the same, as RFC 3986 (6.2.2) has it, for all characters that need no escape; `%c3` is `%C3`.
"""

import re
from collections.abc import Iterator

SCHEMES = ("http:", "https:")
DEFAULT_PORTS = ("", "80", "443")
AUTHORITY = re.compile(r"[^/\\?#]*")
DOT = re.compile(r"[.\u3002\uff0e\uff61]|%2[eE]")  # all that the URL Standard takes for a dot
PORT = re.compile(r"[0-9]{0,5}")
BLANK = re.compile(r"\s")
ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+|\[[0-9a-f:]+\]")
NO_DOMAIN = re.compile(r"[/\\@?#\s*]")
BLANKS = " \t\n\r\f\v\u00a0\u3000\ufeff\u200b"
NO_WEB = (
    "mailto",
    "sip",
    "sips",
    "xmpp",
    "acct",
    "im",
    "jabber",
    "skype",
    "news",
)  # schemes before a name with @
LONGEST_HOST = 253  # characters, of a domain name


def normalise_address(address: str) -> tuple[str, str] | None:
    """Return the host of an address and the whole as it is compared; None for what is no address of the web."""
    import can_ada  # late: few recipes compare addresses

    try:
        parsed = can_ada.parse(with_scheme(address.strip(BLANKS)))
    except (ValueError, UnicodeError):
        return None
    host = parsed.hostname.rstrip(".")
    if parsed.protocol not in SCHEMES or not host:
        return None
    port = "" if parsed.port in DEFAULT_PORTS else f":{parsed.port}"
    return host, f"{host}{port}{unescape(parsed.pathname)}{unescape(parsed.search)}"


def comparable_text(text: str) -> str:
    """Return an address as it is compared, and any other text as it is."""
    found = normalise_address(text)
    return found[1] if found else text


def with_scheme(address: str) -> str:
    """Return an address of the web that has no scheme with one, and any other text as it is."""
    if address[:2] in ("//", "\\\\", "/\\", "\\/"):
        return f"https:{address}"
    authority = AUTHORITY.match(address)[0]  # type: ignore[index]  # it matches nothing, too
    after = address[len(authority) :]
    login, at, host = authority.rpartition("@")
    name, is_port, port = (
        (host, "", "") if host.endswith("]") else host.partition("]:" if "]" in host else ":")
    )
    name = f"{name}]" if is_port == "]:" else name
    is_scheme = is_port and not port and after[:1] in ("/", "\\") and after[1:2] in ("/", "\\")
    is_mail = at and (not after or login.partition(":")[0].lower() in NO_WEB)
    is_host = DOT.search(name.rstrip(".")) or (name.startswith("[") and name.endswith("]"))
    if is_scheme or is_mail or not is_host or not PORT.fullmatch(port) or BLANK.search(authority):
        return address
    return f"https://{address}"


def unescape(text: str) -> str:
    """Return a path or a query without escapes of characters that need none, and others in upper case."""
    return ESCAPE.sub(unescape_character, text) if "%" in text else text


def unescape_character(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if UNRESERVED.fullmatch(character) else escape[0].upper()


def normalise_domain(name: str) -> str | None:
    """Return a domain as hosts are compared, `*.example.org` as `example.org`; None for a text that is none."""
    name = name.removeprefix("*.").removeprefix(".")
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"  # of IPv6, or nothing
    found = None if NO_DOMAIN.search(name) or "]:" in name else normalise_address(f"https://{name}/")
    return found[0] if found and HOST.fullmatch(found[0]) else None


def host_and_parents(host: str) -> Iterator[str]:
    """Return a host and the domains that it is in, the nearest first: a.b.org, b.org, org.

    A domain name has at most LONGEST_HOST characters: what is longer is in no domain of that length.
    """
    yield host
    place = host.find(".", max(0, len(host) - LONGEST_HOST - 1))
    while place >= 0:
        yield host[place + 1 :]
        place = host.find(".", place + 1)


def folder_ends(address: str) -> Iterator[int]:
    """Return where the folders end that an address, without its query, is in: before each slash, ascending.

    Not the folders themselves, which together are as long as the square of a long address.
    """
    last = len(address.partition("?")[0])
    end = address.find("/")
    while 0 <= end < last:
        yield end
        end = address.find("/", end + 1)
