"""The fields of a deduplication: what duplicates are, and which of them are removed."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from tasks.recipe.values import (
    Number,
    OneOrMore,
    Strict,
    Url,
    one_or_more,
)

PREFERENCES = ("source", "longest")
DIRECTIONS = {"asc": "ascending", "desc": "descending"}
OF_SIGNATURES = ("shingle", "width", "values", "bands", "rows", "verify")


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
    """How duplicates are found, and which of them are removed."""

    exact: Literal["text", "normalised"] | None = Field(
        None, description="Equal texts alone: byte by byte, or by their words, as shingles of words see them."
    )
    shingle: Literal["characters", "words"] = Field(
        "characters",
        description="What is compared: runs of `characters` of the raw text, or of `words`, whatever their "
        "case, punctuation, white space and composition (NFC).",
    )
    width: Annotated[int, Number] = Field(
        default_factory=lambda given: 13 if given.get("shingle") == "words" else 25,
        ge=1, le=1000, description="Code points or words in a shingle: 25 or 13 unless given.",
    )  # fmt: skip
    values: Annotated[int, Number] = Field(
        128, ge=2, le=1024, description="Length of a signature: bands x rows. Two of the three are enough."
    )
    bands: Annotated[int, Number] = Field(
        8, ge=1, le=256,
        description="Bands of a signature; the similarity where half of the pairs are found is about (1 / "
        "bands) ** (1 / rows): 0.88 for 8 bands of 16 rows. `zyda params` finds those for another.",
    )  # fmt: skip
    rows: Annotated[int, Number] = Field(
        16, ge=1, le=1024, exclude=True, description="Values of a signature in a band."
    )
    scope: Literal["across", "global"] = Field(
        "across",
        description="`across`: removes duplicates between sources only; within the best source of a cluster "
        "they stay. `global`: keeps one document of each cluster.",
    )
    prefer: Annotated[
        tuple[Annotated[str, AfterValidator(preference)], ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    ] = Field(
        ("source",), min_length=1,
        description="Which document of a cluster stays: `source` (the order of the sources), `longest`, or a "
        "column with `asc` or `desc`; the first that tells two documents apart.",
    )  # fmt: skip
    verify: Verify | None = Field(
        None,
        description="Compare texts: a document is removed only if one that stays is so like it, exactly. "
        "Without it, all of a cluster are duplicates.",
    )
    against: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = (
        Field(
            (),
            max_length=255,
            description="Published corpora that stay as they are: documents that duplicate one of theirs are "
            "removed. Their folders, any fsspec URL; their texts are read with `verify` only.",
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
