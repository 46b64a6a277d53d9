"""The kinds of rounds: of equal texts, and of near-duplicates by MinHash.

A round is of the kind that its fields say: `exact` makes it one of equal texts.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args
from unicodedata import unidata_version

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    model_validator,
)

from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER, MappingOrNot
from zyda_flows.tasks.recipe.dedup import Against, Dedup, Prefer, Reason, Scope, Sentences, Verify
from zyda_flows.tasks.recipe.values import Number, Strict, not_blank

# Of which kind a round is; no recipe has such names.
EXACT, MINHASH = "<exact>", "<minhash>"


EQUALS = {
    "text": Sentences(
        Reason("exact_duplicate", "its text is that of a document that is preferred"),
        Reason("text_in_other_corpus", "another corpus, which stays as it is, has its text"),
        "Documents with the same text were found by a hash of it.",
        ("equal texts, byte by byte",),
    ),
    "normalised": Sentences(
        Reason("same_words", "its words are those of a document that is preferred, in the same order"),
        Reason(
            "words_in_other_corpus", "another corpus, which stays as it is, has its words in the same order"
        ),
        "Documents with the same words in the same order were found by a hash of them.",
        ("texts of the same words in the same order",),
    ),
}  # fmt: skip


class ExactColumn(Strict):
    """What two documents have to have in common that are one."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        description="A column, as `url`; `meta.url` for a field of a column of objects. Values of any type are "
        "compared: an instant is equal in all zones and units, 1 is equal to 1.00, a list to one of equal values. "
        "Documents without a value in it are kept, as are those with an empty text, list or object."
    )
    normalize: Literal["address"] | None = Field(
        None,
        description="`address` compares addresses of the web as `url_rules` and deny lists do: without scheme, "
        "login and fragment. Values that are no address are compared as they are.",
    )


class ExactRound(Dedup):
    """A round that removes equal texts alone. Of shingles and signatures it says nothing."""

    is_wide = True

    exact: Annotated[
        Annotated[Literal["text", "normalised"], Tag(OTHER)] | Annotated[ExactColumn, Tag(MAPPING)],
        MappingOrNot,
    ] = Field(
        description="Equal texts alone: byte by byte (`text`), or by their words, as shingles of words see them "
        "(`normalised`); or documents with the same value in a column: `{column: url}`."
    )
    scope: Scope = "across"
    prefer: Prefer = ("source",)
    against: Against = ()

    @model_validator(mode="before")
    @classmethod
    def says_nothing_of_shingles(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        misplaced = [name for name in MinHashRound.model_fields if name not in cls.model_fields]
        for name in misplaced:
            if given.get(name) is not None:
                raise ValueError(
                    f"exact: whole texts are compared, of which {name} says nothing; leave it out"
                )
        return {name: value for name, value in given.items() if name not in misplaced}

    @property
    def key_bands(self) -> int:
        return 1

    @property
    def key_parameters(self) -> dict[str, Any]:
        if isinstance(self.exact, ExactColumn):
            return {"exact": self.exact.model_dump(exclude_none=True), "values": 2}
        return {"exact": self.exact} | ({"unicode": unidata_version} if self.exact == "normalised" else {})

    @property
    def key_column(self) -> str:
        return self.exact.column if isinstance(self.exact, ExactColumn) else super().key_column

    @property
    def sentences(self) -> Sentences:
        if isinstance(self.exact, str):
            return EQUALS[self.exact]
        column = self.exact.column
        return Sentences(
            Reason(f"same_{column}", f"its `{column}` is that of a document that is preferred"),
            Reason(
                f"{column}_in_other_corpus",
                f"another corpus, which stays as it is, has a document with its `{column}`",
            ),
            f"Documents with the same `{column}` were found by a hash of it.",
            (f"equal values of `{column}`",),
        )


class MinHashRound(Dedup):
    """A round that removes near-duplicates, found by MinHash signatures of their shingles."""

    has_signatures = True

    exact: None = Field(
        None, description="Left out of a round of near-duplicates: it makes one of equal texts."
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
        description="Bands of a signature. Half of the pairs of a similarity of (1 - 0.5 ** (1 / bands)) ** (1 / "
        "rows) are found: 0.86 for 8 bands of 16 rows. `zyda params` finds those for another.",
    )  # fmt: skip
    rows: Annotated[int, Number] = Field(
        16, ge=1, le=1024, exclude=True, description="Values of a signature in a band."
    )
    scope: Scope = "across"
    prefer: Prefer = ("source",)
    verify: Verify | None = Field(
        None,
        description="Compare texts: a document is removed only if one that stays is so like it, exactly. "
        "Without it, all of a cluster are duplicates.",
    )
    against: Against = ()

    @model_validator(mode="before")
    @classmethod
    def third_of_three(cls, given: Any) -> Any:
        """Work out of values, bands and rows what is not given."""
        names = ("values", "bands", "rows")
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
    def bands_of_rows_are_the_values(self) -> "MinHashRound":
        if self.values != self.bands * self.rows:
            raise ValueError(
                f"values ({self.values}) must be bands x rows ({self.bands} x {self.rows}), so that no value is "
                "lost; give two of the three"
            )
        return self

    @property
    def key_bands(self) -> int:
        return self.bands

    @property
    def key_parameters(self) -> dict[str, Any]:
        return self.model_dump(include={"values", "bands"}) | self.shingle_parameters

    @property
    def shingle_parameters(self) -> dict[str, Any]:
        """What a text's shingles depend on."""
        unicode = {"unicode": unidata_version} if self.shingle == "words" else {}
        return {"shingle": self.shingle, "width": self.width} | unicode

    @property
    def compares_texts(self) -> bool:
        return self.verify is not None

    @property
    def measure(self) -> str:
        """By what it is said how like two texts are: `jaccard` or `containment`."""
        return self.verify.measure if self.verify else "jaccard"

    @property
    def half_found(self) -> float:
        """The Jaccard similarity at which half of the pairs share a bucket."""
        return half_found(self.bands, self.rows)

    @property
    def threshold(self) -> float:
        """The least likeness that is asked for: without `verify`, that at which half of the pairs are found."""
        return self.verify.share if self.verify else self.half_found

    @property
    def sentences(self) -> Sentences:
        return Sentences(
            Reason("duplicate", "it is a near-duplicate of a document that is preferred"),
            Reason(
                "in_other_corpus", "another corpus, which stays as it is, has it or a near-duplicate of it"
            ),
            f"Near-duplicates were found with MinHash over shingles of {self.width} {self.shingle} ({self.values} "
            f"values, {self.bands} bands of {self.rows} rows) and clustered by connected components.",
            (
                f"shingles of {self.width} {self.shingle}",
                f"signatures of {self.values} values in {self.bands} bands of {self.rows} rows",
                f"of pairs with a Jaccard similarity of {self.half_found:.3f}, half share a bucket",
            ),
        )

    def who_stayed(self) -> str:
        return self.verify.who_stayed() if self.verify else super().who_stayed()

    def who_goes_in_words(self) -> Iterator[str]:
        yield from super().who_goes_in_words()
        if self.verify:
            yield f"verified: {self.measure} of {self.threshold:g} or more"


def half_found(bands: int, rows: int) -> float:
    """Return the similarity at which half of the pairs share one of some bands of some rows."""
    return float((1 - 0.5 ** (1 / bands)) ** (1 / rows))


# Fields of one kind alone; what has none of them is a round of MinHash.
TAG_BY_FIELD = {"exact": EXACT}


def kind_of(given: Any) -> str | None:
    """Return of which kind a round is by its fields, as it was given; None for what has no fields."""
    if not isinstance(given, dict | BaseModel):
        return None
    fields = given if isinstance(given, dict) else vars(given)
    return next((tag for name, tag in TAG_BY_FIELD.items() if fields.get(name) is not None), MINHASH)


AnyRound = Annotated[
    Annotated[ExactRound, Tag(EXACT)] | Annotated[MinHashRound, Tag(MINHASH)],
    Discriminator(
        kind_of, custom_error_type="round", custom_error_message="A round is a mapping of its fields"
    ),
]
TAGS = tuple(get_args(kind)[1].tag for kind in get_args(get_args(AnyRound)[0]))
ROUNDS = TypeAdapter[tuple[Dedup, ...]](tuple[AnyRound, ...])
