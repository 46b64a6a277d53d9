"""The fields of a recipe's `passages`: passages that several documents share, and how they are cut."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from zyda_flows.tasks.recipe.dedup import Dedup, Prefer
from zyda_flows.tasks.recipe.values import Flag, Number, Strict, one_or_more

LEAST_CHARACTERS = 20
BY_SOURCE = ("source",)
LONGEST = 10_000
Unit = Literal["characters", "words", "tokens", "sentences"]
Except = Literal["brackets", "headings", "latex"]


class SharedUnits(Strict):
    """In how many documents a line or paragraph must be."""

    in_documents: int = Field(
        ge=2, le=1_000_000_000, description="It is repeated if at least this many documents have it."
    )
    at_least: int = Field(
        1, ge=1, le=LONGEST, description="Shorter lines or paragraphs, in characters, are not counted."
    )


class PassagePart(Strict):
    """The fields of every part of `passages`."""

    scope: Literal["across", "global"] = Field(
        "global",
        description="`across`: the documents must be of different sources. `global`: any two documents.",
    )
    within: Flag = Field(False, description="Also what is repeated inside a document.")
    keep: Literal["best", "none", "all"] = Field(
        "best",
        description="`best` keeps the copy of the most preferred document; copies of protected sources come first. "
        "`none` cuts all copies. `all` cuts nothing, and only publishes the table `passages/`.",
    )
    prefer: Prefer | None = Field(
        None,
        description="Which document keeps its copy: entries as in `dedup`; then source, file and row decide. By "
        "default the first `prefer` in `dedup` that is not `source`, if there is one.",
    )
    cut: Literal["exact", "sentence", "line", "paragraph"] = Field(
        "exact",
        description="What is cut: exactly what is repeated, or all sentences, lines or paragraphs that it touches.",
    )
    gap: int = Field(
        0,
        ge=0,
        le=LONGEST,
        description="Characters between two spans that are cut with them, if there are at most as many.",
    )
    markdown: Flag = Field(
        True, description="Do not cut inside blocks of code, tables and formulas; cut them as a whole or not."
    )
    drop_document: Annotated[float, Number] | None = Field(
        None,
        gt=0,
        le=1,
        description="Remove a document as a whole if it would lose more than this share of its bytes. A document "
        "with the kept copy of a passage is never removed.",
    )

    @property
    def is_by_source(self) -> bool:
        """Whether source, file and row alone decide which document keeps its copy."""
        return self.preference == BY_SOURCE

    @property
    def preference(self) -> tuple[str, ...]:
        return self.prefer or BY_SOURCE

    @property
    def window(self) -> int:
        """The units of the shortest passage."""
        return 1

    @property
    def least(self) -> int:
        """The number of documents of a repeated passage."""
        return 2

    @property
    def units(self) -> str:
        """The units of which passages consist."""
        raise NotImplementedError

    @property
    def noun(self) -> str:
        """What is repeated, for sentences."""
        return f"{self.units} that at least {self.least} documents"

    @property
    def sentence(self) -> str:
        """A sentence about the passages that are cut, and the copies that are kept."""
        where = "of different sources " if self.scope == "across" else ""
        also = "; so were repeats inside a document" if self.within else ""
        grown = f", with all {self.cut}s that they touch" if self.cut != "exact" else ""
        preferred = "best-ranked document"
        if not self.is_by_source:
            preferred = "first document by " + ", then ".join(f"`{entry}`" for entry in self.preference)
        ends = {
            "best": f"were cut except in the {preferred}{grown}",
            "none": f"were cut in all documents{grown}",
            "all": "were listed, and not cut",
        }
        removed = "" if self.drop_document is None else (
            f" Documents that would have lost more than {self.drop_document:.0%} of their bytes were removed."
        )  # fmt: skip
        return f"{self.noun.capitalize()} {where}share {ends[self.keep]}{also}.{removed}"


class LongPassages(PassagePart):
    """Passages of at least a number of characters, words, tokens or sentences."""

    length: int = Field(ge=1, le=LONGEST, description="The number of units of the shortest passage.")
    unit: Unit = Field(
        "characters",
        description="`characters` are code points, `words` are between white space, `tokens` are of the "
        "recipe's tokenizer.",
    )

    @model_validator(mode="after")
    def check_length(self) -> "LongPassages":
        if self.unit in ("characters", "tokens") and self.length < LEAST_CHARACTERS:
            raise ValueError(
                f"length: {self.length} {self.unit} are part of most texts; give at least {LEAST_CHARACTERS}"
            )
        if self.unit == "words" and self.length < 5:
            raise ValueError(f"length: {self.length} words are part of most texts; give at least 5")
        return self

    @property
    def window(self) -> int:
        return self.length

    @property
    def units(self) -> str:
        return self.unit

    @property
    def noun(self) -> str:
        return f"passages of at least {self.length} {self.unit} that several documents"


class RepeatedSegments(PassagePart):
    """The fields of lines and paragraphs."""

    normalise: Literal["none", "ccnet"] = Field(
        "none",
        description="`none` compares without white space at the ends; `ccnet` also in lower case, with 0 for each "
        "digit, and without Unicode punctuation and control characters.",
    )
    except_: Annotated[
        tuple[Except, ...], BeforeValidator(one_or_more, json_schema_input_type=list[Except])
    ] = Field(
        (),
        alias="except",
        description="Not counted: lines of `brackets` only, Markdown `headings`, and `latex` commands.",
    )


class RepeatedLines(RepeatedSegments):
    """Lines that several documents have."""

    lines: SharedUnits = Field(description="In how many documents a repeated line is.")

    @property
    def least(self) -> int:
        return self.lines.in_documents

    @property
    def units(self) -> str:
        return "lines"


class RepeatedParagraphs(RepeatedSegments):
    """Paragraphs that several documents have."""

    paragraphs: SharedUnits = Field(description="In how many documents a repeated paragraph is.")

    @property
    def least(self) -> int:
        return self.paragraphs.in_documents

    @property
    def units(self) -> str:
        return "paragraphs"


KINDS = {"length": LongPassages, "lines": RepeatedLines, "paragraphs": RepeatedParagraphs}


def kind_of(value: Any) -> str:
    """Return the field that identifies the kind of a part."""
    fields = value if isinstance(value, dict) else vars(value)
    return f"<{next((kind for kind in KINDS if kind in fields), 'length')}>"


TAGS = tuple(f"<{kind}>" for kind in KINDS)  # never in a recipe
AnyPart = Annotated[
    Annotated[LongPassages, Tag("<length>")]
    | Annotated[RepeatedLines, Tag("<lines>")]
    | Annotated[RepeatedParagraphs, Tag("<paragraphs>")],
    Discriminator(kind_of),
]


def kind_name(part: PassagePart) -> str:
    """Return the kind of a part: length, lines or paragraphs."""
    return kind_of(part)[1:-1]


def with_preference(parts: Sequence[PassagePart], rounds: Iterable[Dedup]) -> tuple[PassagePart, ...]:
    """Return the parts with the preference of the rounds where they have none of their own."""
    default = next((each.prefer for each in rounds if each.prefer != BY_SOURCE), BY_SOURCE)
    return tuple(part.model_copy(update={"prefer": part.prefer or default}) for part in parts)


def check_kinds_differ(parts: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    """Raise ValueError if two parts are of the same kind."""
    kinds = [kind_name(part) for part in parts]
    for kind in KINDS:
        if kinds.count(kind) > 1:
            raise ValueError(f"two parts with `{kind}`; give one")
    return parts
