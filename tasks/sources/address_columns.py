"""Columns of web addresses in their normal form, with the results of `web_addresses.normalise_address`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.sources.web_addresses import normalise_address
from zyda_flows.textkernels.addresses import plain_addresses

Address = tuple[str, str]  # the host and the normal form


def normal_addresses(addresses: pa.Array | pa.ChunkedArray) -> list[Address | None]:
    """Return the host and the normal form of each address, or None for a text that is not a web address: (n,)."""
    return [*addresses_in(addresses)]


def addresses_in(addresses: Any) -> Iterator[Address | None]:
    for chunk in addresses.chunks if isinstance(addresses, pa.ChunkedArray) else [addresses]:
        texts = chunk.cast(pa.large_string())
        normal, hosts = plain_addresses(texts.fill_null("") if texts.null_count else texts)
        for row, (whole, length) in enumerate(zip(normal.to_pylist(), hosts.tolist(), strict=True)):
            if length:
                yield whole[:length], whole
            else:
                text = texts[row].as_py()
                yield normalise_address(text) if text else None


def listed_pages(lines: pa.LargeStringArray) -> tuple[list[bytes], list[int]]:
    """Return the lines that are a single page, in normal form and UTF-8, and the rows of all other lines."""
    normal, hosts = plain_addresses(lines, in_list=True)
    is_page = hosts > 0
    return normal.filter(pa.array(is_page)).cast(pa.large_binary()).to_pylist(), [
        *np.flatnonzero(~is_page).tolist()
    ]
