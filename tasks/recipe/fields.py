"""What a recipe may say: each of its fields, and what is refused of it by itself."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    Tag,
    field_validator,
    model_serializer,
    model_validator,
)

from tasks.ids import MAX_SOURCES
from tasks.recipe.steps import MAPPING, OTHER, MappingOrNot, Step, as_steps
from tasks.recipe.values import (
    SAYS_SOMETHING,
    Duration,
    Number,
    OneOrMore,
    Strict,
    Url,
    Yes,
    one_or_more,
    said,
    without_credentials,
)
from tasks.storage.folder import Folder
from tasks.workers.engine import Engine

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
OnBadRows = Literal["fail", "set_aside"]
MOST_ROUNDS = 9
RESERVED_NAMES = {
    "removed", "set_aside", *(f"{name}{n}" for name in ("clusters", "audit", "bands") for n in ("", *range(2, 10))),
    "readme.md", "manifest.json", "ledger.json", "ledger.parquet", "sources.parquet", "reasons.parquet",
    "cleaned.parquet", "default",
}  # fmt: skip
PREFERENCES = ("source", "longest")
DIRECTIONS = {"asc": "ascending", "desc": "descending"}
OF_SIGNATURES = ("shingle", "width", "values", "bands", "rows", "verify")
NAMES_OF_SAMPLES = re.compile(r"-sample-[0-9.e-]+$")


def reserved(what: str) -> BeforeValidator:
    """Refuse a field whose name is kept for something that is not built yet."""

    def refuse(value: object) -> None:
        if value is not None:
            raise ValueError(f"{what}: not built yet; leave it out")

    return BeforeValidator(refuse)


def as_rounds(value: object) -> object:
    """Make one round of deduplication a list of one, and refuse rounds that contradict themselves."""
    if not isinstance(value, list | tuple):
        value = [value]
    elif [] in value or {} in value or not value:
        raise ValueError(
            "a round that names nothing; give each of a list `exact`, or how its shingles are cut"
        )
    return value


STEPS = BeforeValidator(as_steps, json_schema_input_type=list[Step])
JUDGES = Annotated[None, reserved("judges of documents")]
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class MaxLosses(Strict):
    """How much of a source's tokens may go, by what lets them go: of those that were left before it."""

    rules: Share | None = Field(None, description="The filters among the steps of `documents`.")
    dedup: Share | None = Field(None, description="All rounds of deduplication together.")
    filter: Share | None = Field(None, description="The labels of a model, and `keep`.")


MaxLoss = Annotated[Annotated[Share, Tag(OTHER)] | Annotated[MaxLosses, Tag(MAPPING)], MappingOrNot]


def preference(entry: str) -> str:
    """Refuse what is no preference."""
    column, _, direction = entry.rpartition(" ")
    if entry not in PREFERENCES and not (column.strip() and direction in DIRECTIONS):
        raise ValueError("`source`, `longest`, or a column with `asc` or `desc` is expected")
    return entry


class Verify(Strict):
    """What a document has to have in common with one that stays, to go for it: of their distinct shingles."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["containment"]}, {"required": ["jaccard"]}]}
    )

    containment: Annotated[float, Number] | None = Field(
        None, gt=0, le=1, description="The share of its shingles that the other one holds."
    )
    jaccard: Annotated[float, Number] | None = Field(
        None, gt=0, le=1, description="The share of the shingles of both that both hold."
    )

    @model_validator(mode="after")
    def one_of_two(self) -> "Verify":
        if (self.containment is None) == (self.jaccard is None):
            raise ValueError("give one of containment and jaccard")
        return self

    @property
    def share(self) -> float:
        """The one that is given."""
        share = self.containment if self.jaccard is None else self.jaccard
        assert share is not None
        return share


class Dedup(Strict):
    """How duplicates are found and which of them go (see the README's chapter on it)."""

    exact: Literal["text", "normalised"] | None = Field(
        None, description="Equal texts alone: byte by byte, or by their words, as shingles of words see them."
    )
    shingle: Literal["characters", "words"] = "characters"
    width: Annotated[int, Number] = Field(
        default_factory=lambda given: 13 if given.get("shingle") == "words" else 25,
        ge=1, le=1000, description="Code points or words in a shingle: 25 or 13 unless given.",
    )  # fmt: skip
    values: Annotated[int, Number] = Field(
        128, ge=2, le=1024, description="Length of a signature: bands x rows. Two of the three are enough."
    )
    bands: Annotated[int, Number] = Field(
        8, ge=1, le=256,
        description="Bands of a signature; the similarity where half of the pairs are found is about "
        "(1 / bands) ** (1 / rows): 0.88 for 8 bands of 16 rows. `zyda params` finds those for another.",
    )  # fmt: skip
    rows: Annotated[int, Number] = Field(
        16, ge=1, le=1024, exclude=True, description="Values of a signature in a band."
    )
    scope: Literal["across", "global"] = "across"
    prefer: Annotated[
        tuple[Annotated[str, AfterValidator(preference)], ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    ] = Field(
        ("source",), min_length=1,
        description="Which documents have the right to stay: `source` (the order of the sources), `longest`, or a "
        "column with `asc` or `desc`; the first that tells two documents apart.",
    )  # fmt: skip
    verify: Verify | None = Field(
        None,
        description="A document goes only if one that stays holds so much of it; else clusters decide.",
    )
    against: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = (
        Field(
            (),
            max_length=255,
            description="Published corpora that stay as they are: what is near a document of one of them goes. "
            "Their folders, any fsspec URL.",
        )
    )

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a round may not say, so that what is written can be read again."""
        fields = dump(self)
        return {name: value for name, value in fields.items() if not self.exact or name not in OF_SIGNATURES}

    @property
    def key_bands(self) -> int:
        """The keys that a document has at the most."""
        return 1 if self.exact else self.bands

    @model_validator(mode="before")
    @classmethod
    def third_of_three(cls, given: Any) -> Any:
        """Work out of values, bands and rows what is not given."""
        names = ("values", "bands", "rows")
        if isinstance(given, dict) and given.get("exact") is not None:
            for name in OF_SIGNATURES:
                if given.get(name) is not None:
                    raise ValueError(
                        f"exact: whole texts are compared, of which {name} says nothing; leave it out"
                    )
        if not isinstance(given, dict) or not all(type(given.get(name, 1)) is int for name in names):
            return given  # which the fields themselves refuse
        values, bands, rows = (given.get(name) for name in names)
        if rows is None:
            values = 128 if values is None else values
            bands = 8 if bands is None else bands
            rows = values // bands if bands > 0 else 1
        elif bands is None:
            values = 128 if values is None else values
            bands = values // rows if rows > 0 else 1
        elif values is None:
            values = bands * rows
        return given | {"values": values, "bands": bands, "rows": rows}

    @model_validator(mode="after")
    def preference_tells_sources_apart(self) -> "Dedup":
        if len(set(self.prefer)) < len(self.prefer):
            raise ValueError("prefer: one of these is there twice; leave it out")
        if self.scope == "across" and self.prefer[0] != "source":
            raise ValueError(
                "prefer: scope across keeps all documents of a cluster's best source, so that `source` comes first"
            )
        return self

    @model_validator(mode="after")
    def bands_of_rows_are_the_values(self) -> "Dedup":
        if self.values != self.bands * self.rows:
            raise ValueError(
                f"values ({self.values}) must be bands x rows ({self.bands} x {self.rows}), so that no value is "
                "lost; give two of the three"
            )
        return self


class Classify(Strict):
    """Which model judges a source's documents and which of its labels stay."""

    model: str = Field(min_length=1, description="A hub name or a local folder.")
    revision: str | None = Field(None, description="Of a hub name: a branch, tag or commit.")
    keep: tuple[str, ...] = Field(
        (), description="Labels that stay; empty for a regression model, whose score `keep` reads."
    )
    max_tokens: Annotated[int, Number] = Field(1024, ge=8, le=8192, description="Longer texts are cut.")


class Source(Strict):
    """One input dataset."""

    name: Name
    files: Annotated[
        tuple[Url, ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    ] = Field(min_length=1, description="Globs or files, any fsspec URL.")
    text: str = Field("text", min_length=1, description="The column with the text.")
    keep: Annotated[str, AfterValidator(said), SAYS_SOMETHING] | None = Field(
        None, description="SQL over the columns; true stays."
    )
    classify: Classify | None = None
    exempt: Yes = Field(
        False, description="Deduplication leaves it alone: its documents neither go nor let others go."
    )
    protect: Yes = Field(False, description="Its documents never go as duplicates, but others go for them.")
    max_loss: MaxLoss | None = Field(None, description="Overrides the recipe's.")
    on_bad_rows: OnBadRows | None = Field(None, description="Overrides the recipe's.")
    documents: Annotated[tuple[Step, ...], STEPS] | None = Field(
        None, description="Its own steps, in place of the recipe's; an empty list for none."
    )

    @model_validator(mode="after")
    def exempt_or_protected(self) -> "Source":
        if self.exempt and self.protect:
            raise ValueError("exempt and protect: give one of them; who is exempt does not go in any case")
        return self

    @field_validator("name")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name.lower() in RESERVED_NAMES:
            raise ValueError(f"{name} is in every published corpus; choose another name")
        return name


class Recipe(Strict):
    """A corpus: where it goes, how it is made, and of what, best source first."""

    name: Name
    storage: Url = Field(min_length=1, description="Any fsspec URL of a folder.")
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or a tokenizer.json."
    )
    documents: Annotated[tuple[Step, ...], STEPS] = Field(
        (),
        description="Steps on each document while its text is in memory: clean, filter, measure, in this order.",
    )
    keep_text: Yes = Field(
        False,
        description="Keep the text of documents that a filter lets go, and every statistic, so that other values "
        "cost no reading of text; else they are written nowhere but in `removed/`, without their text.",
    )
    rounds: Annotated[
        tuple[Dedup, ...],
        BeforeValidator(
            as_rounds, json_schema_input_type=Dedup | Annotated[list[Dedup], Field(min_length=1)]
        ),
        PlainSerializer(lambda rounds: rounds[0] if len(rounds) == 1 else list(rounds)),
    ] = Field((Dedup(),), alias="dedup", max_length=MOST_ROUNDS)
    max_loss: MaxLoss | None = Field(
        None,
        description="The share of a source's tokens that may go by rules, by deduplication and by filters, each of "
        "what the one before left, or a share for each of them; a build that would let go more stops before it "
        "publishes.",
    )
    judges: JUDGES = Field(
        None, exclude=True, description="Not built yet: models and lists, after deduplication."
    )
    on_bad_rows: OnBadRows = "fail"
    shard_mib: Annotated[float, Number] = Field(256, gt=0, le=1024, description="Text in one shard, MiB.")
    sample: Annotated[float, Number] = Field(
        1.0, gt=0, le=1, description="The part of the input that is used."
    )
    publish_bands: Yes = Field(
        True,
        description="Publish the band keys of what is published, so that others can deduplicate against it without "
        "its text, and `zyda find` can look texts up: 128 bytes a document with 8 bands.",
    )
    reread_after: Duration = Field(
        "30d",
        exclude=True,  # it does not change what is published
        description="How long published files may go unread before a build compares them with their SHA-256 again: "
        "90m, 12h, 30d, 8w.",
    )
    license: str | None = Field(None, min_length=1, description="Of the corpus, as the hub names it.")
    languages: tuple[str, ...] = Field((), description="Of the corpus, as the hub names them: en, de.")
    sources: tuple[Source, ...] = Field(min_length=1, max_length=MAX_SOURCES)
    _as_written: dict[str, Any] = PrivateAttr(default_factory=dict)
    _round: int = PrivateAttr(1)
    _engine: Engine = PrivateAttr(Engine.AUTO)
    _file: tuple[str, str] = PrivateAttr(("", ""))  # its path, and what it says

    @field_validator("documents", mode="before")
    @classmethod
    def are_a_list(cls, steps: Any) -> Any:
        if steps is None:
            raise ValueError("a list of steps is expected; [] for none")
        return steps

    @field_validator("sources")
    @classmethod
    def names_differ(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name.lower() for source in sources]  # some file systems do not tell a from A
        for source in sources:
            if names.count(source.name.lower()) > 1:
                raise ValueError(f"two sources are called {source.name}; give each a name of its own")
        return sources

    @field_validator("name")
    @classmethod
    def not_of_a_sample(cls, name: str) -> str:
        if NAMES_OF_SAMPLES.search(name):
            raise ValueError("a sample of another corpus could have this name; choose another")
        return name

    @property
    def as_written(self) -> dict[str, Any]:
        """The recipe with its defaults, but with the paths that stand in its file; not where it is stored."""
        return self._as_written or self.model_dump(mode="json", exclude={"storage"}, by_alias=True)

    @property
    def engine(self) -> Engine:
        """On what it is computed, which the environment says, for a corpus does not depend on it."""
        return self._engine

    @property
    def dedup(self) -> Dedup:
        """The round of deduplication that a stage is about: the first, unless it is `of_round`."""
        return self.rounds[self._round - 1]

    def for_round(self, number: int) -> "Recipe":
        """Return the recipe as the stages of a round see it, counted from 1."""
        seen = self.model_copy()
        seen._round = number
        return seen

    def each_round(self) -> list["Recipe"]:
        return [self.for_round(number + 1) for number in range(len(self.rounds))]

    def name_in_round(self, name: str) -> str:
        """Return what a stage, a folder or a column is called in this round: from the second on with its number."""
        return name if self._round == 1 else f"{name}{self._round}"

    @property
    def corpus(self) -> str:
        """The name of the folder of this corpus: a sample never touches the whole corpus."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    @property
    def folder(self) -> Folder:
        """The folder of this corpus, with all that is made of it: `<storage>/<name>`."""
        return Folder(self.storage).folder(self.corpus)

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    @property
    def is_against_others(self) -> bool:
        """Whether any round names other corpora."""
        return any(dedup.against for dedup in self.rounds)

    def may_go(self, source: str) -> bool:
        """Say whether documents of a source may go as duplicates."""
        return not (self.source(source).exempt or self.source(source).protect)

    def steps_of(self, source: str) -> tuple[Step, ...]:
        """Return the steps on a source's documents: its own, or the recipe's."""
        own = self.source(source).documents
        return self.documents if own is None else own

    @property
    def has_steps(self) -> bool:
        """Whether any source's documents are cleaned, filtered or measured while their text is in memory."""
        return any(self.steps_of(source.name) for source in self.sources)

    def max_loss_of(self, source: str, by: str) -> float | None:
        """Return the share of a source's tokens that may go by `rules`, `dedup`, `filter` or another stage."""
        own = self.source(source).max_loss
        most = self.max_loss if own is None else own
        return getattr(most, by, None) if isinstance(most, MaxLosses) else most

    @property
    def has_max_loss(self) -> bool:
        return self.max_loss is not None or any(source.max_loss is not None for source in self.sources)

    def on_bad_rows_of(self, source: Source) -> OnBadRows:
        return source.on_bad_rows or self.on_bad_rows
