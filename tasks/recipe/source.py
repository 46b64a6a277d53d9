"""The fields of a source: its files, its columns, and the limits for removing its documents."""

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
from zyda_flows.tasks.recipe.joins import Joins
from zyda_flows.tasks.recipe.judges import QUALITY, Judge, Judges, ModelSettings
from zyda_flows.tasks.recipe.steps.registry import AnyStep, as_steps
from zyda_flows.tasks.recipe.values import (
    Expression,
    Flag,
    Names,
    Number,
    OneOrMore,
    Strict,
    Url,
    has_commits,
    not_blank,
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
OnBadRows = Literal["fail", "set_aside"]
Format = Literal["parquet", "jsonl", "arrow", "warc", "html", "wikipedia", "arxiv", "csv", "txt"]
RESERVED_NAMES = {
    "removed", "set_aside", *(f"{name}{n}" for name in ("clusters", "audit", "bands") for n in ("", *range(2,
    10))), "readme.md", "manifest.json", "ledger.json", "ledger.parquet", "sources.parquet", "reasons.parquet",
    "cleaned.parquet", "skipped.parquet", "special_tokens.parquet", "judges.parquet", "components.parquet",
    "licenses.parquet", "languages.parquet", "buckets.parquet", "contamination", "passages", "default",
    *(f"{name}{n}" for name in ("overlap", "agreement") for n in ("", *range(2, 10))),
}  # fmt: skip
WITH_REVISION = re.compile(r"hf://(datasets/|spaces/|models/)?[^/@]+/[^/@]+@", re.IGNORECASE)
STEPS = BeforeValidator(as_steps, json_schema_input_type=list[AnyStep])
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class MaxLosses(Strict):
    """The largest share of a source's tokens that each stage may remove, of the tokens before that stage."""

    rules: Share | None = Field(None, description="The rules in the `filter` steps of `documents`.")
    dedup: Share | None = Field(None, description="All rounds of deduplication together.")
    filter: Share | None = Field(
        None, description="Filters: labels of a model, and `keep` of judges, sources and buckets."
    )
    passages: Share | None = Field(None, description="Repeated passages, and documents removed for them.")


MaxLoss = Annotated[Annotated[Share, Tag(OTHER)] | Annotated[MaxLosses, Tag(MAPPING)], MappingOrNot]


class Classify(ModelSettings):
    """The last judge of a source's documents, and the labels to keep."""

    keep: tuple[str, ...] = Field(
        (), description="Labels to keep; empty for a regression model, whose score `keep` can use."
    )

    @property
    def judge(self) -> Judge:
        settings = {name: getattr(self, name) for name in ModelSettings.model_fields}
        return Judge(name=QUALITY, **settings)


class ComponentOf(Strict):
    """How documents are divided into components: by a column, the URL of their file, or their language."""

    column: Annotated[str, AfterValidator(not_blank)] | None = Field(
        None,
        description="The column with the component's name; `meta.subset` for a field of a column of objects.",
    )
    path: str | None = Field(
        None,
        description="A regular expression that each file's URL matches. Its single group is the name of the "
        'component: `"data/(CC-MAIN-[0-9-]+)/"`.',
    )
    language: Flag = Field(
        False,
        description="Use the language that the step `language_id` identifies, by its name in the model.",
    )
    folders: Flag = Field(
        False, description="Publish each component in its own folder inside the source's folder."
    )

    @model_validator(mode="after")
    def has_single_origin(self) -> "ComponentOf":
        if (self.column is not None) + (self.path is not None) + self.language != 1:
            raise ValueError("component: give one of column, path and language")
        return self

    @field_validator("path")
    @classmethod
    def has_one_group(cls, path: str | None) -> str | None:
        try:
            groups = re.compile(path).groups if path is not None else 1
        except re.error as error:
            raise ValueError(f"invalid regular expression: {error}") from error
        if groups != 1:
            raise ValueError(f"one group (in brackets) is expected, for the component's name, not {groups}")
        return path


class Source(Strict):
    """One input dataset."""

    name: Name = Field(
        description="The name of its folder in the published corpus; not a reserved name such as `removed`."
    )
    files: Annotated[
        tuple[Url, ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    ] = Field((), description="Globs or files, any fsspec URL.")
    files_from: (
        Annotated[FilesFrom, BeforeValidator(as_files_from, json_schema_input_type=FilesFrom | str)] | None
    ) = Field(None, description="A list of files, by its URL; instead of `files` or in addition.")
    commoncrawl: CommonCrawl | None = Field(
        None, description="A snapshot of Common Crawl; instead of `files`."
    )
    format: Format | None = Field(
        None, description="The format of the files, if their names do not end with a known ending."
    )
    revision: Annotated[str, AfterValidator(not_blank)] | None = Field(
        None,
        description="For files on the hub: a branch, tag or commit; default: the main branch. A build looks up the "
        "commit at its beginning and reads all files of it; `sources.parquet` lists the commit.",
    )
    text: str = Field("text", min_length=1, description="The column with the text.")
    url: Annotated[str, AfterValidator(not_blank)] = Field(
        "url",
        description="The column with a document's web address, which `deny` compares; `meta.url` for a "
        "field of a column of objects.",
    )
    id: Annotated[str, AfterValidator(not_blank)] = Field(
        "id", description="The column with a document's id, which `join` compares; `meta.id` for a field."
    )
    columns: Names | None = Field(
        None,
        description="The columns to carry besides the text; an empty list for none. Other columns are not read.",
    )
    without: Names = Field((), description="Columns not to carry; instead of `columns`.")
    component: ComponentOf | None = Field(
        None,
        description="How documents are divided into components. The component is published as the column "
        "`component`, with its own counts.",
    )
    keep: Expression | None = Field(
        None,
        description="An SQL condition for the documents to keep, after deduplication. It can use the columns of "
        "the file and of `join`, `doc_id`, `n_tokens`, `n_bytes`, and the results of `judges` and `classify`. The "
        "dialect is DuckDB's: AND, OR, =, IN, LIKE, IS NULL, texts in single quotes. For statistics of `measure`, "
        "use a `filter` step.",
    )
    classify: Classify | None = Field(
        None, description="A quality model that classifies documents after deduplication."
    )
    joins: Joins = Field(
        (),
        alias="join",
        description="Tables of labels that others published, whose columns the documents take: a join, or a list. "
        "The labels are found after the rules, before judges and deduplication.",
    )
    judges: Judges | None = Field(
        None, description="The source's own judges, instead of the recipe's; an empty list for none."
    )
    exempt: Flag = Field(
        False,
        description="Exclude the source from deduplication: its documents are neither removed nor compared.",
    )
    protect: Flag = Field(
        False,
        description="Never remove its documents as duplicates; remove their duplicates in other sources.",
    )
    max_loss: MaxLoss | None = Field(None, description="Overrides the recipe's `max_loss`.")
    on_bad_rows: OnBadRows | None = Field(None, description="Overrides the recipe's `on_bad_rows`.")
    documents: Annotated[tuple[AnyStep, ...], STEPS] | None = Field(
        None, description="The source's own steps, instead of the recipe's; an empty list for none."
    )

    @property
    def lists(self) -> tuple[FilesFrom, ...]:
        """The lists of the source's files."""
        own = (self.files_from, self.commoncrawl.list if self.commoncrawl else None)
        return tuple(files for files in own if files is not None)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The globs, files and lists with their selections, as the source's files are recorded."""
        return (*self.files, *(files.pattern for files in self.lists))

    @property
    def places(self) -> tuple[str, ...]:
        """The URLs of the source's files and lists, and the prefixes of its lists."""
        return (*self.files, *(url for files in self.lists for url in (files.url, files.prefix) if url))

    @model_validator(mode="after")
    def has_files(self) -> "Source":
        if not self.patterns:
            raise ValueError("files: a source needs files; give files, files_from or commoncrawl")
        return self

    @model_validator(mode="after")
    def exempt_or_protected(self) -> "Source":
        if self.exempt and self.protect:
            raise ValueError("exempt and protect: give one of them; an exempt source is never deduplicated")
        return self

    @model_validator(mode="after")
    def check_columns(self) -> "Source":
        if self.columns is not None and self.without:
            raise ValueError("columns and without: give one of them")
        if self.text in self.without:
            raise ValueError(f"without: {self.text} is the column with the text")
        return self

    @model_validator(mode="after")
    def check_component_column(self) -> "Source":
        column = self.component.column if self.component else None
        name = column and column.partition(".")[0]
        if name and column not in (self.columns or ()) and name not in (self.columns or (name,)):
            raise ValueError(f"component: {name} is not a carried column; add it to `columns`")
        if name in self.without or column in self.without:
            raise ValueError(f"component: its column {name} is in `without`; remove it there")
        return self

    @model_validator(mode="after")
    def check_revision(self) -> "Source":
        others = [url for url in self.files if not has_commits(url)]
        if self.revision and others:
            raise ValueError(
                f"revision: it applies to files on the hub (hf://) only; {others[0]} is elsewhere"
            )
        if self.revision and any(WITH_REVISION.match(url) for url in self.files):
            raise ValueError(
                "revision: the URLs of files contain a revision already, after @; give one of them"
            )
        return self

    @field_validator("name")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name.lower() in RESERVED_NAMES:
            raise ValueError(
                f"{name} is the name of a file or folder in every published corpus; use another name"
            )
        return name
