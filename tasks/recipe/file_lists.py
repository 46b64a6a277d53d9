"""Lists of files, as Common Crawl (`warc.paths.gz`) and Dolma (`urls/v1_7.txt`) publish them."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from hashlib import sha256
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from zyda_flows.tasks.recipe.values import Strict, Url

COMMON_CRAWL = "https://data.commoncrawl.org/"
SNAPSHOT = re.compile(r"CC-MAIN-[0-9]{4}(?:-[0-9]{2}|-[0-9]{4})?")  # the oldest names hold two years


def selection(value: object) -> object:
    """Refuse a value that is not a share, a number of files, or a pattern of paths."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 < value < 1 or (value >= 1 and value == int(value)):
            return value
    elif isinstance(value, str) and value.strip() and not value.replace(".", "").isdigit():
        return value
    raise ValueError(
        'a number of files, a share of them (0.01) or a pattern of their paths ("*/seg*") is expected'
    )


Select = Annotated[
    int | float | str, BeforeValidator(selection, json_schema_input_type=int | float | str),
    Field(description="The files to use: a number or a share of them, chosen by a hash of their paths "
          "(a larger number contains the files of a smaller number), or the files whose paths match a pattern with "
          "`*`."),
]  # fmt: skip


def selected(paths: Sequence[str], select: int | float | str | None) -> list[str]:
    """Return the selected paths in their given order."""
    if select is None:
        return [*paths]
    if isinstance(select, str):
        return [path for path in paths if fnmatchcase(path, select)]
    count = ceil(Fraction(str(select)) * len(paths)) if select < 1 else int(select)
    ranked = sorted(paths, key=lambda path: sha256(path.encode()).digest())[:count]
    chosen = {*ranked}
    return [path for path in paths if path in chosen]


class FilesFrom(Strict):
    """A list of files: a text file, plain or compressed, with a path or URL on each line."""

    url: Url = Field(description="The URL of the list.")
    prefix: str = Field(
        "",
        description="Put before each line that is not a URL, for example `https://data.commoncrawl.org/`. If "
        "omitted, the folder of the list.",
    )
    select: Select | None = None

    @property
    def pattern(self) -> str:
        """The pattern under which the list's files are recorded, like a glob of `files`."""
        chosen = f" select {self.select}" if self.select is not None else ""
        return f"{self.url}{chosen}{self.prefix and f' below {self.prefix}'}"


def as_files_from(value: Any) -> Any:
    """Return a mapping for a list that is given by its URL alone."""
    return {"url": value} if isinstance(value, str) else value


def named_snapshot(value: str) -> str:
    if not SNAPSHOT.fullmatch(value):
        raise ValueError("expected the name of a snapshot, for example CC-MAIN-2024-10")
    return value


class CommonCrawl(Strict):
    """A snapshot of Common Crawl."""

    snapshot: Annotated[str, AfterValidator(named_snapshot)] = Field(
        description="The name of the snapshot, for example CC-MAIN-2024-10.",
        json_schema_extra={"pattern": f"^{SNAPSHOT.pattern}$"},
    )
    kind: Literal["warc", "wet"] = Field("warc", description="warc: pages. wet: the plain text of pages.")
    select: Select | None = None
    at: Url = Field(
        COMMON_CRAWL,
        description="The URL of Common Crawl's data: the default, `s3://commoncrawl/`, or a mirror.",
    )

    @property
    def list(self) -> FilesFrom:
        """The list of the snapshot's files."""
        at = f"{self.at.rstrip('/')}/"
        url = f"{at}crawl-data/{self.snapshot}/{self.kind}.paths.gz"
        return FilesFrom(url=url, prefix=at, select=self.select)
