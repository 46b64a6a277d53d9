"""A mixture: the YAML file that says of which corpora a training run reads how much, and in which files."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.formats import WRITERS
from zyda_flows.tasks.recipe.faults import faults
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
TEXT = "text"  # the one format without tokens
SUFFIXES = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?) ?([KMBT]?)")
SHARES_NOTHING = 1e-12


def expect_writers(formats: Iterable[str], writers: Iterable[str]) -> None:
    """Raise TypeError unless each format of tokens has a writer, and each writer its format."""
    if different := {*formats} ^ {*writers, TEXT}:
        names = ", ".join(sorted(different))
        raise TypeError(
            f"Format of tasks.mixing.mixture and WRITERS of tasks.mixing.formats differ in {names}"
        )


expect_writers(get_args(Format), WRITERS)


def amount(value: object) -> object:
    """Read 1e9, which is a text in YAML, and 100B."""
    found = AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        return float(found[1]) * SUFFIXES[found[2]]
    if isinstance(value, bool | str):
        raise ValueError("a number of tokens is expected: 1000000, 1e9, 100B, 5T")
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
    """How much the mixture has: so many tokens, or so many epochs of all that its parts can give."""

    tokens: Tokens | None = Field(None, gt=0, le=1e16, description="Tokens: 1000000, 1e9, 100B, 5T.")
    epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="Times the tokens of all parts together."
    )

    @model_validator(mode="after")
    def one_of_them(self) -> "Budget":
        if (self.tokens is None) == (self.epochs is None):
            raise ValueError("`tokens` or `epochs` is expected, and one of them alone")
        return self


class Part(Strict):
    """A part: documents of some sources, and how much of the mixture they are."""

    name: Name = Field(description="What the accounts call it.")
    source: str | tuple[str, ...] | None = Field(
        None, min_length=1, description="A source, or a list; all of them without."
    )
    corpus: str | tuple[str, ...] | None = Field(
        None, min_length=1, description="The name of a corpus, or a list; all of them without."
    )
    where: str | None = Field(
        None, min_length=1, description="SQL over the published columns of a document, as `keep` has it: a bucket "
        "of quality, a language.",
    )  # fmt: skip
    weight: Annotated[float, Number] | None = Field(
        None, ge=0, le=1e9, description="Its share of the tokens, as a ratio to the weights of the others."
    )
    epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="How often its documents are read, without a budget: 1.5."
    )
    max_epochs: Annotated[float, Number] | None = Field(
        None, gt=0, le=1000, description="How often at most; without, as often as the mixture says."
    )

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source or ()

    @property
    def corpora(self) -> tuple[str, ...]:
        return (self.corpus,) if isinstance(self.corpus, str) else self.corpus or ()


class Validation(Strict):
    """Documents that are held out: by hash, each alone among what is published of its clusters."""

    share: Annotated[float, Number] = Field(gt=0, lt=1, description="Of the documents of each part.")


class Mixture(Strict):
    """A mixture: where it goes, of which corpora, in which parts, and how it is written."""

    name: Name = Field(description="The mixture lies in `<storage>/<name>`.")
    storage: Url = Field(min_length=1, exclude=True, description="Any fsspec URL of a folder.")
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or a tokenizer.json."
    )
    special_tokens: SpecialAs = Field(
        "text",
        description="What special tokens that are written in a text, `<|endoftext|>` say, become: the `text` that "
        "they are, or the `control` tokens that they name.",
    )
    corpora: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = (
        Field(exclude=True, min_length=1, description="Published corpora, each by the URL of its folder.")
    )
    parts: tuple[Part, ...] = Field(
        min_length=1, max_length=4096,
        description="The parts. A document that several name is of the first; one that none names is left out.",
    )  # fmt: skip
    budget: Budget | None = Field(None, description="With weights: how much all parts have together.")
    max_epochs: Annotated[float, Number] = Field(
        4,
        gt=0,
        le=1000,
        description="How often the documents of a part are read at most, to fill its weight.",
    )
    shortfall: Literal["fail", "share"] = Field(
        "fail",
        description="What becomes of a weight that a part cannot fill: an error, or the others share it.",
    )
    repeat: dict[int, int] = Field(
        default_factory=dict,
        description="How often a document is there in one epoch, by how many documents its clusters of "
        "near-duplicates stood for: {1: 1, 2: 2, 5: 3, 1000: 1}, each from that size on. What is published of a "
        "cluster shares it.",
    )
    end: str | None = Field(
        "<|endoftext|>", min_length=1, description="The token after each document; null for none."
    )
    begin: str | None = Field(None, min_length=1, description="The token before each document.")
    packed: int | None = Field(
        None, ge=2, le=1 << 20, description="Pack documents into sequences of so many tokens, by best fit; "
        "without, they stand one after another.",
    )  # fmt: skip
    validation: Validation | None = Field(None, description="A part that is held out.")
    formats: tuple[Format, ...] = Field(("megatron",), min_length=1, description="For which readers.")
    file_gib: Annotated[float, Number] = Field(10, ge=1e-6, le=1024, description="Tokens in one file, GiB.")
    seed: int = Field(
        1, ge=0, lt=1 << 63, description="Decides the order, and which documents an epoch's part has."
    )

    @property
    def folder(self) -> Folder:
        return Folder(f"{self.storage.rstrip('/')}/{self.name}")

    @field_validator("source", "corpus", "formats", mode="before", check_fields=False)
    @classmethod
    def one_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("repeat")
    @classmethod
    def repeats_are_from_one_on(cls, repeat: dict[int, int]) -> dict[int, int]:
        if repeat and (min(repeat) != 1 or min(repeat.values()) < 0 or max(repeat.values()) > 255):
            raise ValueError("the sizes begin with 1, and each has a number of copies from 0 to 255")
        return dict(sorted(repeat.items()))

    @model_validator(mode="after")
    def amounts_are_said_once(self) -> "Mixture":
        names = [part.name for part in self.parts]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two parts are called {twice}")
        if len(set(self.formats)) < len(self.formats):
            raise ValueError("formats: one is named twice")
        by_weight = [part.weight is not None for part in self.parts]
        by_epochs = [part.epochs is not None for part in self.parts]
        if any(w and e for w, e in zip(by_weight, by_epochs, strict=True)):
            raise ValueError("a part has a `weight` or `epochs`, not both")
        if all(by_epochs) and self.budget is not None:
            raise ValueError("parts with `epochs` say how much there is; leave out `budget`")
        if not all(by_epochs) and not all(by_weight):
            raise ValueError("every part needs a `weight`, or every part needs `epochs`")
        if all(by_weight) and self.budget is None:
            raise ValueError("parts with a `weight` need a `budget`: {tokens: 1e9} or {epochs: 1}")
        if all(by_weight) and sum(part.weight or 0 for part in self.parts) <= SHARES_NOTHING:
            raise ValueError("the weights add up to nothing")
        return self


MODELS: dict[str, type[BaseModel]] = {"": Mixture, "parts": Part, "budget": Budget, "validation": Validation}


def is_mixture(path: str) -> bool:
    """Return whether a YAML file describes a mixture, and no corpus. Raises BadRecipe where it cannot be read."""
    return "corpora" in read_mapping(path, "recipe", "name and storage", NumberedKeys)[1]


def load_mixture(path: str, *, storage: str | None = None) -> Mixture:
    """Read a mixture; `storage` overrides what it says. Relative paths are relative to its own folder.

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
    return mixture.model_copy(update=changed)


def placed(at: Path, path: str, *, always: bool) -> str:
    """Make a relative path absolute, seen from a folder; a hub name stays as it is."""
    if "://" in path or not (always or (at / path).exists()):
        return path
    return os.path.abspath(at / Path(path).expanduser())
