"""The SHA-1 of a Wikipedia dump, from the list that its host publishes in the same folder."""

import re
from functools import lru_cache

from zyda_flows.tasks.sources.listing import files_matching, read_listed_file

# Names at dumps.wikimedia.org; in the folder `latest`, the names in the list contain the date.
DUMP = re.compile(r"(?P<list>.*/\w+-(?:\d{8}|latest)-)(?P<part>[^/]+)")
LISTED = re.compile(r"([0-9a-f]{40})\s+\*?\w+-\d{8}-(\S+)")


def published_sha1(source: str, url: str) -> str:
    """Return the published SHA-1 of a dump, or an empty text if there is none. Raises BadInput."""
    dump = DUMP.fullmatch(url)
    return listed_digests(source, f"{dump['list']}sha1sums.txt").get(dump["part"], "") if dump else ""


@lru_cache(maxsize=8)
def listed_digests(source: str, url: str) -> dict[str, str]:
    """Return the digests of a list, by the end of the file's name; empty if the list is missing."""
    lists = files_matching(source, url)
    text = read_listed_file(source, lists[0]).decode(errors="replace") if lists else ""
    return {part: digest for digest, part in LISTED.findall(text)}
