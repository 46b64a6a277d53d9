"""The fields of a source: its files, which of its rows stay, and what may be lost."""

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER, MappingOrNot
from zyda_flows.tasks.recipe.file_lists import CommonCrawl, FilesFrom, as_files_from
from zyda_flows.tasks.recipe.steps.registry import AnyStep, as_steps
from zyda_flows.tasks.recipe.values import (
    SAYS_SOMETHING,
    Names,
    Number,
    OneOrMore,
    Strict,
    Url,
    Yes,
    has_commits,
    not_blank,
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
OnBadRows = Literal["fail", "set_aside"]
Format = Literal["parquet", "jsonl", "arrow", "warc", "html", "wikipedia", "arxiv", "csv", "txt"]
RESERVED_NAMES = {
    "removed", "set_aside", *(f"{name}{n}" for name in ("clusters", "audit", "bands") for n in ("", *range(2,
    10))), "readme.md", "manifest.json", "ledger.json", "ledger.parquet", "sources.parquet", "reasons.parquet",
    "cleaned.parquet", "skipped.parquet", "special_tokens.parquet", "components.parquet", "licenses.parquet",
    "languages.parquet", "contamination", "default", *(f"overlap{n}" for n in ("", *range(2, 10))),
}  # fmt: skip
OF_REVISION = re.compile(r"hf://(datasets/|spaces/|models/)?[^/@]+/[^/@]+@", re.IGNORECASE)
STEPS = BeforeValidator(as_steps, json_schema_input_type=list[AnyStep])
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class MaxLosses(Strict):
    """How much of a source's tokens may go, by what lets them go: of those that were left before it."""

    rules: Share | None = Field(None, description="The rules in the `filter` steps of `documents`.")
    dedup: Share | None = Field(None, description="All rounds of deduplication together.")
    filter: Share | None = Field(None, description="The stage `filter`: labels of a model, and `keep`.")


MaxLoss = Annotated[Annotated[Share, Tag(OTHER)] | Annotated[MaxLosses, Tag(MAPPING)], MappingOrNot]


class Classify(Strict):
    """Which model judges a source's documents and which of its labels stay."""

    model: str = Field(min_length=1, description="A hub name or a local folder.")
    revision: str | None = Field(None, description="Of a hub name: a branch, tag or commit.")
    keep: tuple[str, ...] = Field(
        (), description="Labels that stay; empty for a regression model, whose score `keep` reads."
    )
    max_tokens: Annotated[int, Number] = Field(1024, ge=8, le=8192, description="Longer texts are cut.")


class ComponentOf(Strict):
    """What says of which part of its source a document is: a column, the URL of its file, or its language."""

    column: Annotated[str, AfterValidator(not_blank)] | None = Field(
        None, description="The column that names it; `meta.subset` for a field of a column of objects."
    )
    path: str | None = Field(
        None,
        description="A regular expression that each file's URL matches, whose one group is the name: "
        '`"data/(CC-MAIN-[0-9-]+)/"`.',
    )
    language: Yes = Field(
        False, description="The language that the step `language_id` finds, by its name in the model."
    )
    folders: Yes = Field(
        False, description="Publish each component in a folder of its own below the source's."
    )

    @model_validator(mode="after")
    def says_one_thing(self) -> "ComponentOf":
        if (self.column is not None) + (self.path is not None) + self.language != 1:
            raise ValueError("component: give one of column, path and language")
        return self

    @field_validator("path")
    @classmethod
    def has_one_group(cls, path: str | None) -> str | None:
        try:
            groups = re.compile(path).groups if path is not None else 1
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if groups != 1:
            raise ValueError(f"one group (in brackets) is expected, which is the name; there are {groups}")
        return path


class Source(Strict):
    """One input dataset."""

    name: Name = Field(
        description="Its folder in the published corpus; never reserved ones such as `removed`."
    )
    files: Annotated[
        tuple[Url, ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    ] = Field((), description="Globs or files, any fsspec URL.")
    files_from: (
        Annotated[FilesFrom, BeforeValidator(as_files_from, json_schema_input_type=FilesFrom | str)] | None
    ) = Field(None, description="A list of files, by its URL; in place of `files` or beside it.")
    commoncrawl: CommonCrawl | None = Field(
        None, description="A snapshot of Common Crawl; in place of `files`."
    )
    format: Format | None = Field(
        None, description="What its files are, where their names do not say it by their endings."
    )
    revision: Annotated[str, AfterValidator(not_blank)] | None = Field(
        None,
        description="Of files on the hub: a branch, a tag or a commit; without, the main branch. It is looked up "
        "when a build begins, which then reads that commit; `sources.parquet` names it.",
    )
    text: str = Field("text", min_length=1, description="The column with the text.")
    url: Annotated[str, AfterValidator(not_blank)] = Field(
        "url",
        description="The column with a document's address on the web, by which `deny` knows it; `meta.url` for a "
        "field of a column of objects.",
    )
    columns: Names | None = Field(
        None,
        description="The columns to carry besides the text; an empty list for none. The others are not read.",
    )
    without: Names = Field(
        (), description="Columns that are not carried, of whatever size; in place of `columns`."
    )
    component: ComponentOf | None = Field(
        None,
        description="What names the part of the source that a document is of; published as the column "
        "`component`, and accounted for by itself.",
    )
    keep: Annotated[str, AfterValidator(not_blank), SAYS_SOMETHING] | None = Field(
        None,
        description="SQL over the columns of a document, after deduplication: those of its file, `doc_id`, "
        "`n_tokens`, `n_bytes`, and what `classify` says; true stays. The dialect is DuckDB's: AND, OR, =, IN, "
        "LIKE, IS NULL, texts in single quotes. What `measure` finds is bounded by a `filter` instead.",
    )
    classify: Classify | None = Field(
        None, description="A quality model, run on documents after deduplication."
    )
    exempt: Yes = Field(
        False, description="Not deduplicated: its documents are not removed, and none is removed for them."
    )
    protect: Yes = Field(
        False, description="Never removed as duplicates; duplicates elsewhere are removed in its favour."
    )
    max_loss: MaxLoss | None = Field(None, description="Overrides the recipe's.")
    on_bad_rows: OnBadRows | None = Field(None, description="Overrides the recipe's.")
    documents: Annotated[tuple[AnyStep, ...], STEPS] | None = Field(
        None, description="Its own steps, in place of the recipe's; an empty list for none."
    )

    @property
    def lists(self) -> tuple[FilesFrom, ...]:
        """The lists of its files."""
        own = (self.files_from, self.commoncrawl.list if self.commoncrawl else None)
        return tuple(one for one in own if one is not None)

    @property
    def patterns(self) -> tuple[str, ...]:
        """What its files are found by: globs, files, and lists with what is selected of them."""
        return (*self.files, *(one.pattern for one in self.lists))

    @property
    def places(self) -> tuple[str, ...]:
        """Where its files are: URLs, or the beginnings of them."""
        return (*self.files, *(url for one in self.lists for url in (one.url, one.prefix) if url))

    @model_validator(mode="after")
    def has_files(self) -> "Source":
        if not self.patterns:
            raise ValueError("files: a source has files; give files, files_from or commoncrawl")
        return self

    @model_validator(mode="after")
    def exempt_or_protected(self) -> "Source":
        if self.exempt and self.protect:
            raise ValueError("exempt and protect: give one of them; who is exempt does not go in any case")
        return self

    @model_validator(mode="after")
    def columns_to_carry(self) -> "Source":
        if self.columns is not None and self.without:
            raise ValueError("columns and without: give one of them")
        if self.text in self.without:
            raise ValueError(f"without: {self.text} is the column with the text")
        return self

    @model_validator(mode="after")
    def carries_its_component(self) -> "Source":
        column = self.component.column if self.component else None
        name = column and column.partition(".")[0]
        if name and column not in (self.columns or ()) and name not in (self.columns or (name,)):
            raise ValueError(f"component: {name} is not among the columns to carry; add it to `columns`")
        if name in self.without or column in self.without:
            raise ValueError(f"component: its column {name} is among those of `without`")
        return self

    @model_validator(mode="after")
    def revision_of_hub_files(self) -> "Source":
        others = [url for url in self.files if not has_commits(url)]
        if self.revision and others:
            raise ValueError(f"revision: only files on the hub (hf://) have one; {others[0]} is elsewhere")
        if self.revision and any(OF_REVISION.match(url) for url in self.files):
            raise ValueError("revision: its files name one already, after @; give one of them")
        return self

    @field_validator("name")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name.lower() in RESERVED_NAMES:
            raise ValueError(f"{name} is in every published corpus; choose another name")
        return name
