"""Deduplication: the settings that all kinds of rounds share, and the properties that each kind defines.

The kinds are in `tasks.recipe.kinds`. `tasks.signatures.keys` computes the keys of a text, and
`tasks.dedup.comparison` compares the documents of a cluster.
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
    "across": "In a cluster with documents of several sources, the documents of the best-ranked source were kept "
    "and the others were removed; duplicates inside one source were kept.",
    "global": "One document of each cluster was kept, a document of the best-ranked source.",
}


def preference(entry: str) -> str:
    """Refuse an unknown preference."""
    column, _, direction = entry.rpartition(" ")
    if entry not in PREFERENCES and not (column.strip() and direction in DIRECTIONS):
        raise ValueError("`source`, `longest`, or a column with `asc` or `desc` is expected")
    return entry


def preferences(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse equal preferences."""
    if len(set(entries)) < len(entries):
        raise ValueError("an entry is given twice; remove one of them")
    return entries


Scope = Annotated[
    Literal["across", "global"],
    Field(
        description="`across`: removes duplicates between sources only; the documents of the best source of a "
        "cluster are kept. `global`: keeps one document of each cluster."
    ),
]
Prefer = Annotated[
    tuple[Annotated[str, AfterValidator(preference)], ...],
    Field(
        min_length=1,
        description="Which document of a cluster is kept: `source` (the order of the sources), `longest`, or a "
        "column with `asc` or `desc`. A later entry decides between documents that are equal by the earlier ones.",
    ),
    BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=OneOrMore),
    AfterValidator(preferences),
]
Against = Annotated[
    tuple[Url, ...],
    Field(
        max_length=255,
        description="Published corpora to compare with: documents that duplicate a document of these corpora are "
        "removed. Give their folders, any fsspec URL. Their texts are read only with `verify`, "
        "and in semantic rounds.",
    ),
    BeforeValidator(one_or_more, json_schema_input_type=OneOrMore),
]


class Reason(NamedTuple):
    """The reason for which documents are removed: its name in `removed/`, and a sentence about such a document."""

    name: str
    sentence: str


class Sentences(NamedTuple):
    """The texts of a kind of round for the published reports.

    reason: for documents removed as duplicates inside this corpus. reference_reason: for duplicates of a corpus in
    `against`. method: how duplicates were identified, for the card. keys: the values that were compared, for the
    report.
    """

    reason: Reason
    reference_reason: Reason
    method: str
    keys: tuple[str, ...]


class Verify(Strict):
    """The similarity of a document to a kept document that is needed to remove it, over their distinct shingles."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["containment"]}, {"required": ["jaccard"]}]}
    )

    containment: Annotated[float, Number] | None = Field(
        None, gt=0, le=1, description="The share of the document's shingles that the kept document contains."
    )
    jaccard: Annotated[float, Number] | None = Field(
        None, gt=0, le=1, description="The share of all shingles of the two documents that both contain."
    )

    @model_validator(mode="after")
    def check_single_measure(self) -> "Verify":
        if (self.containment is None) == (self.jaccard is None):
            raise ValueError("give one of containment and jaccard")
        return self

    @property
    def measure(self) -> str:
        """The given measure: `jaccard` or `containment`."""
        return "containment" if self.jaccard is None else "jaccard"

    @property
    def share(self) -> float:
        """The lowest similarity for which a document is removed."""
        share: float = getattr(self, self.measure)
        return share

    def kept_sentence(self) -> str:
        """Return a sentence for the card about the kept document of each removed document."""
        share = f"{self.share:.0%}"
        if self.jaccard is None:
            return f"A document was removed only if a kept document contains {share} of its shingles."
        return f"A document was removed only if it and a kept document share {share} of the shingles of both."


class Dedup(Strict):
    """How duplicates are identified, and which documents are removed.

    is_wide: whether the keys have 128 bits instead of 64. has_signatures: whether the keys are computed from
    MinHash signatures, which a GPU can compute. has_keys: whether documents are compared by keys of their texts.
    """

    is_wide: ClassVar[bool] = False
    has_signatures: ClassVar[bool] = False
    has_keys: ClassVar[bool] = True

    # Each kind declares these fields among its own: the order of the fields is part of the published recipe.
    if TYPE_CHECKING:
        scope: Scope
        prefer: Prefer
        against: Against

    @model_validator(mode="after")
    def check_preferences(self) -> "Dedup":
        if self.scope == "across" and self.prefer[0] != "source":
            raise ValueError(
                "prefer: scope across keeps all documents of a cluster's best source, so `source` must be "
                "the first entry: [source, longest]"
            )
        return self

    @property
    @abstractmethod
    def key_bands(self) -> int:
        """The highest number of keys of a document."""

    @property
    @abstractmethod
    def key_parameters(self) -> dict[str, Any]:
        """The settings on which the keys depend. The scope is not among them."""

    @property
    @abstractmethod
    def sentences(self) -> Sentences:
        """The texts of the round for the published reports."""

    @property
    def key_column(self) -> str:
        """The column from which the keys are computed; `a.b` for a field of a column of objects."""
        return "text"

    @property
    def compares_texts(self) -> bool:
        """Whether the round compares the texts of the documents of a cluster."""
        return False

    def kept_sentence(self) -> str:
        """Return a sentence for the card about the kept documents of a cluster."""
        if self.scope == "across" or self.prefer[0] == "source":
            return SCOPES[self.scope]
        order = ", then ".join(f"`{entry}`" for entry in self.prefer)
        return f"One document of each cluster was kept: the first by {order}."

    def removal_rules(self) -> Iterator[str]:
        """Yield the rules for the removed documents, for the report."""
        yield f"scope: {self.scope}"
        yield f"kept first: {', '.join(self.prefer)}"
