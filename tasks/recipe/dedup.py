"""Deduplication: what every kind of round says, and has to say of itself.

The kinds are in `tasks.recipe.kinds`. What takes more than the recipe is not here: `tasks.signatures.keys` makes
the keys of a text, `tasks.dedup.comparison` compares the documents of a cluster.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from zyda_flows.tasks.recipe.values import Number, OneOrMore, Strict, Url, one_or_more

PREFERENCES = ("source", "longest")
DIRECTIONS = {"asc": "ascending", "desc": "descending"}
SCOPES = {
    "across": "In a cluster with documents of several sources, those of the best-ranked source stayed "
    "and the others were removed; duplicates inside one source stayed.",
    "global": "One document of each cluster stayed, that of the best-ranked source.",
}


def preference(entry: str) -> str:
    """Refuse what is no preference."""
    column, _, direction = entry.rpartition(" ")
    if entry not in PREFERENCES and not (column.strip() and direction in DIRECTIONS):
        raise ValueError("`source`, `longest`, or a column with `asc` or `desc` is expected")
    return entry


Scope = Annotated[
    Literal["across", "global"],
    Field(
        description="`across`: removes duplicates between sources only; within the best source of a cluster "
        "they stay. `global`: keeps one document of each cluster."
    ),
]
Prefer = Annotated[
    tuple[Annotated[str, AfterValidator(preference)], ...],
    Field(
        min_length=1,
        description="Which document of a cluster stays: `source` (the order of the sources), `longest`, or a "
        "column with `asc` or `desc`; the first that tells two documents apart.",
    ),
    BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
]
Against = Annotated[
    tuple[Url, ...],
    Field(
        max_length=255,
        description="Published corpora that stay as they are: documents that duplicate one of theirs are "
        "removed. Their folders, any fsspec URL; their texts are read with `verify` only.",
    ),
    BeforeValidator(one_or_more, json_schema_input_type=OneOrMore),
]


class Reason(NamedTuple):
    """Why documents go, as `removed/` has it, and a sentence about one."""

    name: str
    sentence: str


class Sentences(NamedTuple):
    """What a kind of round says of itself.

    reason: why a document goes for another one of this corpus, reference_reason: for one of a corpus that the round
    is `against`. method: how duplicates were found, for the card. keys: of what its keys are, for the report.
    """

    reason: Reason
    reference_reason: Reason
    method: str
    keys: tuple[str, ...]


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
    def measure(self) -> str:
        """The one that is given: `jaccard` or `containment`."""
        return "containment" if self.jaccard is None else "jaccard"

    @property
    def share(self) -> float:
        """What is asked of it."""
        share: float = getattr(self, self.measure)
        return share

    def who_stayed(self) -> str:
        """Say in a sentence of the card for what a document went."""
        share = f"{self.share:.0%}"
        if self.jaccard is None:
            return f"A document went only for one that stays and holds {share} of its shingles."
        return f"A document went only for one that stays and has {share} of the shingles of both in common with it."


class Dedup(Strict):
    """How duplicates are found, and which of them are removed.

    is_wide: whether its keys have 128 bits, not 64. has_signatures: whether they are of MinHash signatures, which a
    GPU can make.
    """

    is_wide: ClassVar[bool] = False
    has_signatures: ClassVar[bool] = False

    # Each kind names them, in their places among its own: the order of the fields is part of what is published.
    if TYPE_CHECKING:
        scope: Scope
        prefer: Prefer
        against: Against

    @model_validator(mode="after")
    def preference_tells_sources_apart(self) -> "Dedup":
        if len(set(self.prefer)) < len(self.prefer):
            raise ValueError("prefer: one of these is there twice; leave it out")
        if self.scope == "across" and self.prefer[0] != "source":
            raise ValueError(
                "prefer: scope across keeps all documents of a cluster's best source, so that `source` comes "
                "first: [source, longest]"
            )
        return self

    @property
    @abstractmethod
    def key_bands(self) -> int:
        """The keys that a document has at the most."""

    @property
    @abstractmethod
    def key_parameters(self) -> dict[str, Any]:
        """What the keys depend on; the scope decides later who goes."""

    @property
    @abstractmethod
    def sentences(self) -> Sentences:
        """What it says of itself to people."""

    @property
    def key_column(self) -> str:
        """The column that its keys are made of, or a field of a column of objects."""
        return "text"

    @property
    def compares_texts(self) -> bool:
        """Whether the texts of documents decide which of them go."""
        return False

    def who_stayed(self) -> str:
        """Say in a sentence of the card which documents of a cluster stayed."""
        if self.scope == "across" or self.prefer[0] == "source":
            return SCOPES[self.scope]
        order = ", then ".join(f"`{entry}`" for entry in self.prefer)
        return f"One document of each cluster stayed: the first by {order}."

    def who_goes_in_words(self) -> Iterator[str]:
        """Yield what the report says of who goes."""
        yield f"scope: {self.scope}"
        yield f"who stays first: {', '.join(self.prefer)}"
