"""Web addresses in the normal form in which they are compared, which follows the URL Standard of browsers.

Deny lists, `zyda forget`, `url_rules` and rounds of equal values with `normalize: address` compare this form:

- an address without a scheme is an HTTPS address: `example.org/x`, `//example.org/x`, `www.example.org`;
- scheme, login, fragment, ports 80 and 443, and dots after the host are removed;
- the host is in lower case and in Punycode, IPv4 and IPv6 numbers have one form, dots in the path are resolved;
- `%7E` and `~` are equal (RFC 3986, 6.2.2), as are all characters that need no escape; `%c3` is `%C3`.
"""

import re
from collections.abc import Iterator

SCHEMES = ("http:", "https:")
DEFAULT_PORTS = ("", "80", "443")
AUTHORITY = re.compile(r"[^/\\?#]*")
DOT = re.compile(r"[.\u3002\uff0e\uff61]|%2[eE]")  # the characters that the URL Standard reads as a dot
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
)  # schemes of names with @
LONGEST_HOST = 253  # characters, of a domain name


def normalise_address(address: str) -> tuple[str, str] | None:
    """Return the host and the normal form of an address, or None if it is not a web address."""
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
    """Return the normal form of an address; any other text is unchanged."""
    normal = normalise_address(text)
    return normal[1] if normal else text


def with_scheme(address: str) -> str:
    """Return a web address without a scheme with `https:`; any other text is unchanged."""
    if address[:2] in ("//", "\\\\", "/\\", "\\/"):
        return f"https:{address}"
    return f"https://{address}" if begins_with_host(address) else address


def begins_with_host(address: str) -> bool:
    """Return whether a text begins with the host of a web address, not with a scheme or an e-mail address."""
    authority = AUTHORITY.match(address)[0]  # type: ignore[index]  # it also matches an empty text
    path = address[len(authority) :]
    login, at, host = authority.rpartition("@")
    if BLANK.search(authority) or (at and (not path or login.partition(":")[0].lower() in NO_WEB)):
        return False
    name, colon, port = split_port(host)
    is_scheme = colon and not port and path[:1] in ("/", "\\") and path[1:2] in ("/", "\\")
    is_host = DOT.search(name.rstrip(".")) or (name.startswith("[") and name.endswith("]"))
    return bool(is_host and not is_scheme and PORT.fullmatch(port))


def split_port(host: str) -> tuple[str, str, str]:
    """Split a host into its name, the colon before its port, and the port."""
    if host.endswith("]"):
        return host, "", ""
    if "]" not in host:
        return host.partition(":")
    name, colon, port = host.partition("]:")
    return f"{name}]" if colon else name, colon, port


def unescape(text: str) -> str:
    """Return a path or a query without needless escapes, and with the other escapes in upper case."""
    return ESCAPE.sub(unescape_character, text) if "%" in text else text


def unescape_character(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if UNRESERVED.fullmatch(character) else escape[0].upper()


def normalise_domain(name: str) -> str | None:
    """Return the normal form of a domain, `example.org` for `*.example.org`; None if the text is not a domain."""
    name = name.removeprefix("*.").removeprefix(".")
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"  # an IPv6 address, or invalid
    normal = None if NO_DOMAIN.search(name) or "]:" in name else normalise_address(f"https://{name}/")
    return normal[0] if normal and HOST.fullmatch(normal[0]) else None


def host_and_parents(host: str) -> Iterator[str]:
    """Yield a host and its parent domains, the nearest first: a.b.org, b.org, org.

    Parents with more than LONGEST_HOST characters, which no domain name has, are skipped.
    """
    yield host
    place = host.find(".", max(0, len(host) - LONGEST_HOST - 1))
    while place >= 0:
        yield host[place + 1 :]
        place = host.find(".", place + 1)


def folder_ends(address: str) -> Iterator[int]:
    """Yield the ends of the folders that contain an address, without its query: before each slash, ascending.

    The folders themselves would have a total length that is quadratic in the length of the address.
    """
    last = len(address.partition("?")[0])
    end = address.find("/")
    while 0 <= end < last:
        yield end
        end = address.find("/", end + 1)
