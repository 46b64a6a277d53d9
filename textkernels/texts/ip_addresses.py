"""IP addresses in texts: the expression for them, and which of them are public by IANA's registries."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
IPV4 = rf"(?:{OCTET}\.){{3}}{OCTET}"
GROUP = "[0-9A-Fa-f]{1,4}"
# Not in a longer word, time or path of names; but after a name with a colon, and after `IPv6:` and `ip6:` of mail.
NOT_IN_WORD = r"(?:(?<![A-Za-z_\d:.])|(?<=[G-Zg-z_]:)|(?<=[PpVv]6:))"
IPV6 = (
    rf"(?=[0-9A-Fa-f]{{0,4}}:){NOT_IN_WORD}(?:(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}:){{6}}{IPV4}"
    rf"|(?:{GROUP}(?::{GROUP}){{0,6}})?::(?:(?:{GROUP}:){{0,5}}{IPV4}|(?:{GROUP}:){{0,6}}{GROUP})?)"
    r"(?![A-Za-z_\d]|:[0-9A-Fa-f:]|\.[0-9])"
)
IP = re.compile(f"{IPV4}|{IPV6}")  # the two never match at the same position
SLICE = re.compile("[0-9]{4}::[0-9]*")  # in code, a[2000::10], or the end of a sentence in reStructuredText

# IANA's registries of addresses for special use that are not globally reachable.
SPECIAL_IPV4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
)  # fmt: skip
PUBLIC_IPV4 = ("192.0.0.9", "192.0.0.10")  # exceptions: public addresses in a special network
NETWORKS = [
    (int(network.network_address), int(network.netmask)) for network in map(IPv4Network, SPECIAL_IPV4)
]
# Public IPv6 addresses are in the first network; the other networks in it are special.
UNICAST, SPECIAL_IPV6 = IPv6Network("2000::/3"), ("2001::/23", "2001:db8::/32", "3fff::/20")
PUBLIC_IPV6 = (
    "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28",
    "2001:30::/28",
)  # fmt: skip
SPECIAL_NETWORKS, PUBLIC_NETWORKS = (
    [IPv6Network(network) for network in networks] for networks in (SPECIAL_IPV6, PUBLIC_IPV6)
)
# Networks whose last 32 bits are an IPv4 address: IPv4-compatible addresses and NAT64.
TRANSLATED = [IPv6Network(network) for network in ("::/96", "64:ff9b::/96")]


def is_public(address: str) -> bool:
    """Return whether an address of IPv4 or IPv6 is public."""
    return is_public_ipv6(address) if ":" in address else is_public_ipv4(address)


def is_public_ipv4(address: str) -> bool:
    """Return whether four numbers, written without leading zeros, are a public address."""
    octets = address.split(".")
    if any(octet != str(int(octet)) for octet in octets):
        return False
    number = int(IPv4Address(address))
    return address in PUBLIC_IPV4 or all(number & mask != network for network, mask in NETWORKS)


def is_public_ipv6(text: str) -> bool:
    """Return whether a text is a public IPv6 address, or contains a public IPv4 address."""
    if SLICE.fullmatch(text):
        return False
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    if (embedded := embedded_ipv4(address)) is not None:
        return is_public_ipv4(str(embedded))
    if address not in UNICAST:
        return False
    is_special = any(address in network for network in SPECIAL_NETWORKS)
    return not is_special or any(address in network for network in PUBLIC_NETWORKS)


def embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address in an IPv6 address (mapped, NAT64, 6to4, Teredo)."""
    if any(address in network for network in TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    client = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or client
