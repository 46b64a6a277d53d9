"""Compare the blocks of WARC records with the digests in their heads.

The standard names no algorithms and no encoding of digests. Crawlers write them in Base32, in hexadecimal digits
or in Base64, in capitals or small letters, with or without padding.
"""

import base64
import hashlib
from functools import lru_cache

NAMES = {"sha": "sha1", "sha2": "sha256"}
ALGORITHMS = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")}


def wrong_digest(stated: list[str], block: memoryview) -> str | None:
    """Return the first stated digest that differs from the block's, or None.

    Digests with an unknown algorithm or encoding cannot be compared and are ignored.
    """
    return next((digest for digest in stated if is_wrong(digest, block)), None)


def is_wrong(stated: str, block: memoryview) -> bool:
    name, _, value = stated.strip().partition(":")
    value, algorithm = value.strip().strip('"').rstrip("="), algorithm_of(name)
    if algorithm is None:
        return False
    digest = hashlib.new(algorithm, block, usedforsecurity=False).digest()
    base32 = base64.b32encode(digest).decode().rstrip("=")
    if value == base32:  # the encoding of most crawlers
        return False
    texts = [
        base64.b64encode(digest).decode().rstrip("="),
        base64.urlsafe_b64encode(digest).decode().rstrip("="),
    ]
    has_form = len(value) in {2 * len(digest), len(base32), len(texts[0])}
    return has_form and value.lower() not in {digest.hex(), base32.lower()} and value not in texts


@lru_cache(maxsize=64)
def algorithm_of(stated: str) -> str | None:
    """Return hashlib's name of an algorithm, for example `sha1` for `SHA-1`; None if it is unknown."""
    plain = stated.strip().lower().replace("_", "-")
    names = (plain.replace("-", ""), plain.replace("-", "_"))
    return next((known for name in names if (known := NAMES.get(name, name)) in ALGORITHMS), None)
