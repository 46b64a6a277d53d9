"""Mixture files: YAML that defines the data of a training run and the formats of its files."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.formats import WRITERS
from zyda_flows.tasks.recipe.faults import Location, faults, with_place
from zyda_flows.tasks.recipe.loading import NumberedKeys, read_mapping
from zyda_flows.tasks.recipe.source import Name
from zyda_flows.tasks.recipe.values import (
    Number,
    OneOrMore,
    SpecialAs,
    Strict,
    Url,
    one_or_more,
    without_credentials,
)
from zyda_flows.tasks.storage.folder import Folder, absolute

Format = Literal["megatron", "datatrove", "olmo", "torchtitan", "parquet", "text"]
TEXT = "text"  # the only format without tokens
SUFFIXES = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?) ?([KMBT]?)")
SHARES_NOTHING = 1e-12
FIELD = re.compile(r"(?P<name>\w+)(?:\[(?P<number>\d+)\] \S+)?(?:[,:] (?P<below>where)?|$)")


def expect_writers(formats: Iterable[str], writers: Iterable[str]) -> None:
    """Raise TypeError unless each format of tokens has a writer, and each writer its format."""
    if different := {*formats} ^ {*writers, TEXT}:
        names = ", ".join(sorted(different))
        raise TypeError(
            f"Format of tasks.mixing.mixture and WRITERS of tasks.mixing.formats differ in {names}"
        )


expect_writers(get_args(Format), WRITERS)


def amount(value: object) -> object:
    """Return the number of tokens in texts such as 1e9, which YAML reads as a text, and 100B."""
    match = AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return float(match[1]) * SUFFIXES[match[2]]
    if isinstance(value, bool | str):
        raise ValueError("expected a number of tokens: 1000000, 1e9, 100B, 5T")
    return value


Tokens = Annotated[
    float,
    BeforeValidator(
        amount,
        json_schema_input_type=float
        | Annotated[str, Field(json_schema_extra={"pattern": f"^{AMOUNT.pattern}$"})],
    ),
]


class Budget(Strict):
    """The size of the mixture: a number of tokens, or a number of epochs of all its parts."""

    tokens: Tokens | None = Field(None, gt=0, le=1e16, description="Tokens: 1000000, 1e9, 100B, 5T.")
    epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="Multiple of the tokens of all parts."
    )

    @model_validator(mode="after")
    def has_one_field(self) -> "Budget":
        if (self.tokens is None) == (self.epochs is None):
            raise ValueError("expected either `tokens` or `epochs`")
        return self


class Part(Strict):
    """A part: documents of some sources, and their share of the mixture."""

    name: Name = Field(description="Name of the part in reports.")
    source: str | tuple[str, ...] | None = Field(
        None, min_length=1, description="A source, or a list of sources; by default all."
    )
    corpus: str | tuple[str, ...] | None = Field(
        None, min_length=1, description="The name of a corpus, or a list of names; by default all."
    )
    where: str | None = Field(
        None, min_length=1, description="SQL condition on the published columns of a document, as in "
        "`keep`: a quality bucket, a language.",
    )  # fmt: skip
    weight: Annotated[float, Number] | None = Field(
        None, ge=0, le=1e9, description="Share of the tokens, relative to the weights of the other parts."
    )
    epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="Number of epochs, if there is no budget: 1.5."
    )
    max_epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="Maximum number of epochs; by default `max_epochs` of the mixture."
    )

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source or ()

    @property
    def corpora(self) -> tuple[str, ...]:
        return (self.corpus,) if isinstance(self.corpus, str) else self.corpus or ()


class Validation(Strict):
    """Held-out documents: chosen by hash from documents without published near-duplicates."""

    share: Annotated[float, Number] = Field(gt=0, lt=1, description="Share of the documents of each part.")


class Mixture(Strict):
    """A mixture: its corpora, parts, amounts and output files."""

    name: Name = Field(description="The mixture is stored in `<storage>/<name>`.")
    storage: Url = Field(min_length=1, exclude=True, description="Any fsspec URL of a folder.")
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or a tokenizer.json."
    )
    special_tokens: SpecialAs = Field(
        "text",
        description="Encoding of special tokens in a text, such as `<|endoftext|>`: as ordinary `text`, or as "
        "`control` tokens.",
    )
    corpora: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = (
        Field(exclude=True, min_length=1, description="Published corpora, each by the URL of its folder.")
    )
    parts: tuple[Part, ...] = Field(
        min_length=1, max_length=4096,
        description="The parts. A document that matches several parts belongs to the first. Documents that "
        "match no part are left out.",
    )  # fmt: skip
    budget: Budget | None = Field(None, description="Size of all parts together; required with weights.")
    max_epochs: Annotated[float, Number] = Field(
        4,
        gt=0,
        le=1000,
        description="Maximum number of epochs of a part to fill its weight.",
    )
    shortfall: Literal["fail", "share"] = Field(
        "fail",
        description="If a part cannot fill its weight: `fail`, or `share` the rest among the other parts.",
    )
    repeat: dict[int, int] = Field(
        default_factory=dict,
        description="Copies of a document in one epoch by the minimum size of its clusters of near-duplicates: "
        "{1: 1, 2: 2, 5: 3, 1000: 1}. The published documents of a cluster share its copies.",
    )
    end: str | None = Field(
        "<|endoftext|>", min_length=1, description="Token after each document; null for none."
    )
    begin: str | None = Field(None, min_length=1, description="Token before each document.")
    packed: int | None = Field(
        None, ge=2, le=1 << 20, description="Pack documents into sequences of this number of tokens, by best fit; "
        "by default documents follow one another.",
    )  # fmt: skip
    order: Literal["shuffled", "epochs"] = Field(
        "shuffled",
        description="Order of the copies of documents: all `shuffled`, or by `epochs`: one copy of every document, "
        "shuffled, then the second copies, shuffled, and so on.",
    )
    validation: Validation | None = Field(None, description="Documents to hold out.")
    formats: tuple[Format, ...] = Field(("megatron",), min_length=1, description="Output formats.")
    file_gib: Annotated[float, Number] = Field(10, ge=1e-6, le=1024, description="Size of a file's ids, GiB.")
    seed: int = Field(
        1, ge=0, lt=1 << 63, description="Seed of the order and of the documents of a fraction of an epoch."
    )
    _file: tuple[str, str] = PrivateAttr(("", ""))  # its path and its text

    @property
    def folder(self) -> Folder:
        return Folder(f"{self.storage.rstrip('/')}/{self.name}")

    @field_validator("source", "corpus", "formats", mode="before", check_fields=False)
    @classmethod
    def as_tuple(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("repeat")
    @classmethod
    def repeat_starts_at_one(cls, repeat: dict[int, int]) -> dict[int, int]:
        if repeat and (min(repeat) != 1 or min(repeat.values()) < 0 or max(repeat.values()) > 255):
            raise ValueError("the smallest size must be 1, and each number of copies from 0 to 255")
        return dict(sorted(repeat.items()))

    @model_validator(mode="after")
    def amounts_are_consistent(self) -> "Mixture":
        names = [part.name for part in self.parts]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two parts have the name {twice}")
        if len(set(self.formats)) < len(self.formats):
            raise ValueError("formats: a format is listed twice")
        by_weight = [part.weight is not None for part in self.parts]
        by_epochs = [part.epochs is not None for part in self.parts]
        if any(w and e for w, e in zip(by_weight, by_epochs, strict=True)):
            raise ValueError("a part has both `weight` and `epochs`; remove one")
        if all(by_epochs) and self.budget is not None:
            raise ValueError("parts have `epochs`, so the mixture needs no `budget`; remove it")
        if not all(by_epochs) and not all(by_weight):
            raise ValueError("every part needs a `weight`, or every part needs `epochs`")
        if all(by_weight) and self.budget is None:
            raise ValueError("parts with a `weight` need a `budget`: {tokens: 1e9} or {epochs: 1}")
        if all(by_weight) and sum(part.weight or 0 for part in self.parts) <= SHARES_NOTHING:
            raise ValueError("the sum of the weights is 0")
        return self


MODELS: dict[str, type[BaseModel]] = {"": Mixture, "parts": Part, "budget": Budget, "validation": Validation}


def is_mixture(path: str) -> bool:
    """Return whether a YAML file is a mixture, not a recipe. Raises BadRecipe if it cannot be read."""
    return "corpora" in read_mapping(path, "recipe", "name and storage", NumberedKeys)[1]


def load_mixture(path: str, *, storage: str | None = None) -> Mixture:
    """Read a mixture file. `storage` overrides its field. Relative paths are relative to the folder of the file.

    Raises BadRecipe with all faults.
    """
    text, content = read_mapping(path, "mixture", "name, storage, tokenizer, corpora and parts", NumberedKeys)
    if storage is not None:
        content["storage"] = absolute(storage)
    try:
        mixture = Mixture.model_validate(content)
    except ValidationError as error:
        raise BadRecipe(
            *faults(path, text, error, {"storage"} if storage is not None else (), "mixture", MODELS)
        ) from error
    at = Path(os.path.abspath(path)).parent
    changed: dict[str, Any] = {
        "storage": placed(at, mixture.storage, always=True),
        "corpora": tuple(placed(at, url, always=True) for url in mixture.corpora),
        "tokenizer": placed(at, mixture.tokenizer, always=mixture.tokenizer.endswith(".json")),
    }
    placed_mixture = mixture.model_copy(update=changed)
    placed_mixture._file = path, text
    return placed_mixture


@contextmanager
def faults_with_lines(mixture: Mixture) -> Iterator[None]:
    """Add the file and the line of the field to each fault of a BadRecipe that begins with the field."""
    try:
        yield
    except BadRecipe as error:
        placed_faults = [with_place(mixture, location_of(fault), fault) for fault in error.faults]
        raise BadRecipe(*placed_faults) from error


def location_of(fault: str) -> Location:
    """Return the location of the field with which a fault begins: `budget: ...`, `parts[1] name: where: ...`."""
    match = FIELD.match(fault)
    if match is None or match["name"] not in Mixture.model_fields:
        return ()
    steps = [match["name"], int(match["number"]) if match["number"] else None, match["below"]]
    return tuple(step for step in steps if step is not None)


def placed(at: Path, path: str, *, always: bool) -> str:
    """Return a path relative to a folder as an absolute path. Hub names are not changed."""
    if "://" in path or not (always or (at / path).exists()):
        return path
    return os.path.abspath(at / Path(path).expanduser())
