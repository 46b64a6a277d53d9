"""The kinds of deduplication rounds: exact duplicates, near-duplicates by MinHash, and the same content.

A round with the field `exact` removes exact duplicates, a round with `semantic` finds documents with the same
content in other words (`tasks.recipe.semantic`), and any other round removes near-duplicates.
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
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.recipe.values import Number, Strict, not_blank

# The tags of the kinds of rounds; never in a recipe.
EXACT, MINHASH, SEMANTIC = "<exact>", "<minhash>", "<semantic>"


EQUALS = {
    "text": Sentences(
        Reason("exact_duplicate", "its text is the same as that of a preferred document"),
        Reason("text_in_other_corpus", "its text is in another corpus that this corpus is compared with"),
        "Documents with the same text were identified by a hash of the text.",
        ("equal texts, byte by byte",),
    ),
    "normalised": Sentences(
        Reason("same_words", "it has the same words in the same order as a preferred document"),
        Reason(
            "words_in_other_corpus",
            "a document with the same words in the same order is in another corpus that this corpus is "
            "compared with",
        ),
        "Documents with the same words in the same order were identified by a hash of the words.",
        ("texts with the same words in the same order",),
    ),
}  # fmt: skip


class ExactColumn(Strict):
    """The column whose value is the same in duplicates."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        description="A column, for example `url`; `meta.url` for a field of a column of objects. Values of any "
        "type are compared: an instant is equal in all time zones and units, 1 is equal to 1.00, and lists are "
        "equal if their values are. Documents with no value or an empty text, list or object are kept."
    )
    normalize: Literal["address"] | None = Field(
        None,
        description="`address` compares web addresses without scheme, login and fragment, as `url_rules` and deny "
        "lists do. Values that are not addresses are compared unchanged.",
    )


class ExactRound(Dedup):
    """A round that removes exact duplicates. It has no settings for shingles and signatures."""

    is_wide = True

    exact: Annotated[
        Annotated[Literal["text", "normalised"], Tag(OTHER)] | Annotated[ExactColumn, Tag(MAPPING)],
        MappingOrNot,
    ] = Field(
        description="Remove exact duplicates only: texts that are equal byte by byte (`text`), texts with the same "
        "words in the same order (`normalised`), or documents with the same value in a column: `{column: url}`."
    )
    scope: Scope = "across"
    prefer: Prefer = ("source",)
    against: Against = ()

    @model_validator(mode="before")
    @classmethod
    def refuse_shingle_settings(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        misplaced = [name for name in MinHashRound.model_fields if name not in cls.model_fields]
        for name in misplaced:
            if given.get(name) is not None:
                raise ValueError(f"exact: {name} applies to near-duplicates only; remove it")
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
            Reason(f"same_{column}", f"its `{column}` is the same as that of a preferred document"),
            Reason(
                f"{column}_in_other_corpus",
                f"a document with the same `{column}` is in another corpus that this corpus is compared with",
            ),
            f"Documents with the same `{column}` were identified by a hash of it.",
            (f"equal values of `{column}`",),
        )


class MinHashRound(Dedup):
    """A round that removes near-duplicates, which MinHash signatures of their shingles identify."""

    has_signatures = True

    exact: None = Field(
        None, description="Omit it for near-duplicates. If given, the round removes exact duplicates only."
    )
    shingle: Literal["characters", "words"] = Field(
        "characters",
        description="The shingles: runs of `characters` of the raw text, or runs of `words`, without regard to "
        "case, punctuation, white space and composition (NFC).",
    )
    width: Annotated[int, Number] = Field(
        default_factory=lambda given: 13 if given.get("shingle") == "words" else 25,
        ge=1, le=1000, description="Code points or words in a shingle. Default: 25 characters or 13 words.",
    )  # fmt: skip
    values: Annotated[int, Number] = Field(
        128, ge=2, le=1024, description="Length of a signature: bands x rows. Give two of the three."
    )
    bands: Annotated[int, Number] = Field(
        8, ge=1, le=256,
        description="Bands of a signature. Half of the pairs with a similarity of (1 - 0.5 ** (1 / bands)) ** (1 / "
        "rows) are compared: 0.86 for 8 bands of 16 rows. `zyda params` computes bands for another similarity.",
    )  # fmt: skip
    rows: Annotated[int, Number] = Field(
        16, ge=1, le=1024, exclude=True, description="Values in a band of a signature."
    )
    scope: Scope = "across"
    prefer: Prefer = ("source",)
    verify: Verify | None = Field(
        None,
        description="Compare texts: a document is removed only if its exact similarity to a kept document is at "
        "least this. If omitted, all documents of a cluster are duplicates.",
    )
    against: Against = ()

    @model_validator(mode="before")
    @classmethod
    def complete_dimensions(cls, given: Any) -> Any:
        """Compute the missing ones of `values`, `bands` and `rows`."""
        names = ("values", "bands", "rows")
        if not isinstance(given, dict) or not all(type(given.get(name, 1)) is int for name in names):
            return given  # the validation of the fields reports the fault
        values, bands, rows = (given.get(name) for name in names)
        if values is None:
            values = 128 if bands is None or rows is None else bands * rows
        if rows is None:
            bands = 8 if bands is None else bands
            rows = values // bands if bands > 0 else 1
        elif bands is None:
            bands = values // rows if rows > 0 else 1
        return given | {"values": values, "bands": bands, "rows": rows}

    @model_validator(mode="after")
    def check_dimensions(self) -> "MinHashRound":
        if self.values != self.bands * self.rows:
            raise ValueError(
                f"values ({self.values}) must be bands x rows ({self.bands} x {self.rows}), otherwise values are "
                "unused; give two of the three"
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
        """The settings on which a text's shingles depend."""
        unicode = {"unicode": unidata_version} if self.shingle == "words" else {}
        return {"shingle": self.shingle, "width": self.width} | unicode

    @property
    def compares_texts(self) -> bool:
        return self.verify is not None

    @property
    def measure(self) -> str:
        """The measure of similarity: `jaccard` or `containment`."""
        return self.verify.measure if self.verify else "jaccard"

    @property
    def half_found(self) -> float:
        """The Jaccard similarity at which half of the pairs share a bucket."""
        return half_found(self.bands, self.rows)

    @property
    def threshold(self) -> float:
        """The lowest similarity of duplicates; without `verify`, that at which half of the pairs match."""
        return self.verify.share if self.verify else self.half_found

    @property
    def sentences(self) -> Sentences:
        return Sentences(
            Reason("duplicate", "it is a near-duplicate of a preferred document"),
            Reason(
                "in_other_corpus",
                "it or a near-duplicate of it is in another corpus that this corpus is compared with",
            ),
            f"Near-duplicates were identified with MinHash over shingles of {self.width} {self.shingle} "
            f"({self.values} values, {self.bands} bands of {self.rows} rows) and clustered by connected "
            "components.",
            (
                f"shingles of {self.width} {self.shingle}",
                f"signatures of {self.values} values in {self.bands} bands of {self.rows} rows",
                f"half of the pairs with a Jaccard similarity of {self.half_found:.3f} share a bucket",
            ),
        )

    def kept_sentence(self) -> str:
        return self.verify.kept_sentence() if self.verify else super().kept_sentence()

    def removal_rules(self) -> Iterator[str]:
        yield from super().removal_rules()
        if self.verify:
            yield f"verified: {self.measure} of {self.threshold:g} or more"


def half_found(bands: int, rows: int) -> float:
    """Return the similarity at which half of the pairs of documents share at least one of their bands."""
    return float((1 - 0.5 ** (1 / bands)) ** (1 / rows))


# The field that marks each kind; a round without any of them is a MinHash round.
TAG_BY_FIELD = {"exact": EXACT, "semantic": SEMANTIC}


def kind_of(given: Any) -> str | None:
    """Return the tag of the kind of a round; None if the value is not a mapping."""
    if not isinstance(given, dict | BaseModel):
        return None
    fields = given if isinstance(given, dict) else vars(given)
    return next((tag for name, tag in TAG_BY_FIELD.items() if fields.get(name) is not None), MINHASH)


AnyRound = Annotated[
    Annotated[ExactRound, Tag(EXACT)]
    | Annotated[MinHashRound, Tag(MINHASH)]
    | Annotated[SemanticRound, Tag(SEMANTIC)],
    Discriminator(
        kind_of, custom_error_type="round", custom_error_message="a round is a mapping of its fields"
    ),
]
TAGS = tuple(get_args(kind)[1].tag for kind in get_args(get_args(AnyRound)[0]))
ROUNDS = TypeAdapter[tuple[Dedup, ...]](tuple[AnyRound, ...])
