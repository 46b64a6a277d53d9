"""The fields of a join: the columns that a source's documents take from a table of labels."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from zyda_flows.tasks.recipe.values import Strict, Urls, not_blank

MOST_JOINS = 16
MOST_COLUMNS = 200  # that a join takes
On = Literal["url", "id", "sha256"]
Many = Literal["first", "max", "error"]
Path = Annotated[str, AfterValidator(not_blank)]


def as_pairs(take: Any) -> Any:
    """Return the pairs of names and paths for a list of columns, or for a mapping of names to paths."""
    if isinstance(take, str):
        take = [take]
    if isinstance(take, dict):
        return tuple(take.items())
    if isinstance(take, list | tuple):
        return tuple((path, path) if isinstance(path, str) else path for path in take)
    raise ValueError("a list of columns is expected, or a mapping of new names to columns")


def as_joins(joins: Any) -> Any:
    return [joins] if isinstance(joins, dict) else joins


class Join(Strict):
    """A table of labels that others made, and the columns that the documents of a source take from it."""

    labels: Urls = Field(
        alias="from",
        min_length=1,
        description="Files of labels, globs or any fsspec URL: Parquet, Arrow, JSON Lines; or the URL of a "
        "published corpus.",
    )
    on: On = Field(
        description="The key of a document: its web address, in the column `url` of the source; its id, in the "
        "column `id` of the source; or the SHA-256 of its text after `clean`, in UTF-8.",
    )
    key: Path | None = Field(
        None,
        description="The column of the labels with the key; `meta.url` for a field of a column of objects. "
        "Default: the word in `on`; for a published corpus and `sha256`, the hash of its texts. SHA-256 are "
        "hexadecimal digits or bytes.",
    )
    take: Annotated[
        tuple[tuple[Path, Path], ...],
        BeforeValidator(as_pairs, json_schema_input_type=list[str] | str | dict[str, str]),
        PlainSerializer(dict),
    ] = Field(
        min_length=1,
        max_length=MOST_COLUMNS,
        description="The columns to take, which are published: a list, or a mapping of new names to columns, "
        "for example `{grade: quality.grade}`.",
    )
    many: Many = Field(
        "error",
        description="If several labels have the key of a document: an `error`, the `first` in the order of the "
        "files and rows, or the `max` of each column.",
    )

    @model_validator(mode="after")
    def names_differ(self) -> "Join":
        check_taken_once([self])
        return self


def check_taken_once(joins: Sequence[Join]) -> Sequence[Join]:
    """Raise ValueError if two columns that joins take have the same name."""
    names = [name.lower() for join in joins for name, _ in join.take]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"two columns with the name {name} are taken; rename one: take: {{new_name: {name}}}"
            )
    return joins


Joins = Annotated[
    tuple[Join, ...],
    BeforeValidator(as_joins, json_schema_input_type=Join | list[Join]),
    AfterValidator(check_taken_once),
    Field(max_length=MOST_JOINS),
]
