"""Experiment files: YAML that names variants of a corpus, the model that compares them, and the measure."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.mixture import Tokens, placed
from zyda_flows.tasks.recipe.faults import faults, with_place
from zyda_flows.tasks.recipe.loading import read_mapping
from zyda_flows.tasks.recipe.source import Name
from zyda_flows.tasks.recipe.values import Expression, Flag, Number, SpecialAs, Strict, Url
from zyda_flows.tasks.storage.folder import Folder, absolute

HELD_OUT, FILE, GOLD, ACCURACY = "held_out", "file:", "gold", "accuracy"
Share = Annotated[float, Number]


class Variant(Strict):
    """A variant: a published corpus, the corpus of a recipe, or a mixture."""

    name: Name = Field(description="Name of the variant on the page. Variants are compared with the first.")
    corpus: Url | None = Field(None, description="A published corpus: each of its sources is a part.")
    recipe: str | None = Field(None, min_length=1, description="A recipe whose corpus is published.")
    mixture: str | None = Field(
        None, min_length=1, description="A mixture file: its parts and their weights."
    )
    where: Expression | None = Field(
        None, description="SQL condition on the published columns of a document, with `corpus` or `recipe`."
    )

    @model_validator(mode="after")
    def has_one_origin(self) -> "Variant":
        if sum(origin is not None for origin in (self.corpus, self.recipe, self.mixture)) != 1:
            raise ValueError("expected one of `corpus`, `recipe` and `mixture`")
        if self.where is not None and self.mixture is not None:
            raise ValueError("the parts of a mixture have their own `where`")
        return self


def as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


class AblationModel(Strict):
    """The model: a new Llama of a number of parameters, or a base model that is trained on."""

    parameters: Annotated[tuple[Tokens, ...], BeforeValidator(as_list)] | None = (
        Field(
            None, min_length=1, max_length=2,
            description="Parameters of a new Llama, with its embeddings: 1M. Claims about single tasks need two "
            "sizes: [1M, 4M].",
        )
    )  # fmt: skip
    base: str | None = Field(
        None,
        min_length=1,
        description="A causal language model, a folder or a hub name, to anneal on each variant.",
    )
    revision: str | None = Field(None, description="Branch, tag or commit of `base` on the hub.")

    @model_validator(mode="after")
    def has_one_origin(self) -> "AblationModel":
        if (self.parameters is None) == (self.base is None):
            raise ValueError("expected either `parameters` or `base`")
        if self.revision is not None and self.base is None:
            raise ValueError("revision: it applies to `base`")
        if any(not 5e4 <= count <= 1.5e8 for count in self.parameters or ()):
            raise ValueError("parameters: expected 50K to 150M")
        return self


class NamedFile(Strict):
    """A file with held-out texts, or with an evaluation set."""

    name: Name = Field(description="Name of the file in measures.")
    url: Url = Field(description="Its path or URL.")


class Controls(Strict):
    """Runs that show whether the comparison can be trusted."""

    equal: Flag = Field(
        True, description="Train the first variant again with other seeds: no difference may be claimed."
    )
    degraded: Literal["noise", "replay"] | None = Field(
        "noise",
        description="Train the first variant with `noise` (a fifth of its tokens is replaced), or `replay` (half "
        "of its documents is replaced by copies of the other half): a difference must be seen.",
    )


class Experiment(Strict):
    """An experiment: variants, model, budget, repeats and measures."""

    name: Name = Field(description="The experiment is stored in `<storage>/<name>`.")
    storage: Url = Field(min_length=1, exclude=True, description="Any fsspec URL of a folder.")
    tokenizer: str = Field(min_length=1, description="A hub name or a tokenizer.json.")
    special_tokens: SpecialAs = Field(
        "text", description="Encoding of special tokens in a text, as in mixtures."
    )
    separator: str = Field("<|endoftext|>", min_length=1, description="Token before each document.")
    variants: tuple[Variant, ...] = Field(min_length=1, max_length=16, description="The variants.")
    model: AblationModel = Field(description="The model.")
    sequence: int = Field(256, ge=16, le=8192, description="Tokens of a sequence.")
    batch: int = Field(16, ge=1, le=4096, description="Sequences of a step.")
    tokens: Tokens = Field(ge=1000, le=1e11, description="Tokens of a run: 300K, 20M, 1B.")
    target_tokens: Tokens | None = Field(
        None, ge=1000, le=1e16, description="Tokens of the large run. Parts are subsampled so that the small run "
        "repeats them as often. Default: the `budget` of a mixture; otherwise nothing is repeated.",
    )  # fmt: skip
    rate: Share | None = Field(
        None, gt=0, le=1, description="Largest learning rate. Default: 0.003 for 1M parameters, divided by the "
        "third root of their number in millions; 0.0001 for a base model.",
    )  # fmt: skip
    warmup: Share = Field(0.05, ge=0, le=0.5, description="Share of the steps in which the rate grows.")
    schedule: Literal["linear", "1-sqrt"] = Field(
        "linear", description="How the rate falls to zero afterwards."
    )
    repeats: int = Field(
        3, ge=2, le=32, description="Runs of each variant, with other seeds and other documents."
    )
    seed: int = Field(1, ge=0, lt=1 << 31, description="Seed of the first run of each variant.")
    measure: str = Field(
        HELD_OUT,
        description="The decisive measure: `held_out`, `file:NAME`, `gold` or `accuracy`. Only it can end in a "
        "verdict about a variant.",
    )
    alpha: Share = Field(0.05, gt=0, lt=0.5, description="Rate of false claims, of all comparisons together.")
    weights: Literal["pinned", "own"] | None = Field(
        None, description="Shares of the parts: `pinned` to those of the first variant, or each variant's `own`. "
        "Default: pinned, or own if a variant is a mixture.",
    )  # fmt: skip
    held_out: int = Field(
        100, ge=1, le=100_000, description="Documents to hold out of each source, at most a tenth of them."
    )
    files: tuple[NamedFile, ...] = Field((), description="Files with texts that are measured, too.")
    evaluations: tuple[NamedFile, ...] = Field((), description="Files of evaluation sets.")
    questions: int = Field(500, ge=1, le=1_000_000, description="Questions of an evaluation set, at most.")
    controls: Controls = Field(default_factory=Controls, description="Runs that test the comparison itself.")
    _file: tuple[str, str] = PrivateAttr(("", ""))

    @property
    def folder(self) -> Folder:
        return Folder(f"{self.storage.rstrip('/')}/{self.name}")

    @property
    def is_pinned(self) -> bool:
        weights = self.weights or ("own" if any(v.mixture for v in self.variants) else "pinned")
        return weights == "pinned"

    @field_validator("variants", "files", "evaluations")
    @classmethod
    def names_differ(cls, entries: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [entry.name for entry in entries]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two entries have the name {twice}")
        return entries

    @model_validator(mode="after")
    def measure_is_known(self) -> "Experiment":
        known = [HELD_OUT, *(f"{FILE}{file.name}" for file in self.files)]
        known += [GOLD, ACCURACY] if self.evaluations else []
        if self.measure not in known:
            raise ValueError(f"measure: {self.measure} is not measured here; expected {', '.join(known)}")
        if len(self.variants) == 1 and not self.controls.equal and self.controls.degraded is None:
            raise ValueError("variants: a single variant can only be compared with controls")
        if self.target_tokens is not None and self.target_tokens < self.tokens:
            raise ValueError("target_tokens: expected at least the `tokens` of a run")
        if self.tokens < self.sequence * self.batch:
            raise ValueError(f"tokens: expected at least a step of {self.sequence * self.batch:,} tokens")
        return self

    def fault(self, fault: str, *location: int | str) -> BadRecipe:
        """Return the error for a fault of a field that is noticed after the file is read."""
        return BadRecipe(with_place(self, location, fault))


MODELS: dict[str, type[BaseModel]] = {
    "": Experiment, "variants": Variant, "model": AblationModel, "files": NamedFile, "evaluations": NamedFile,
    "controls": Controls,
}  # fmt: skip


def load_experiment(path: str, *, storage: str | None = None) -> Experiment:
    """Read an experiment file. `storage` overrides its field.

    Relative paths are relative to the folder of the file. Raises BadRecipe with all faults.
    """
    text, content = read_mapping(path, "experiment", "name, storage, tokenizer, variants, model and tokens")
    if storage is not None:
        content["storage"] = absolute(storage)
    try:
        experiment = Experiment.model_validate(content)
    except ValidationError as error:
        given = {"storage"} if storage is not None else set()
        raise BadRecipe(*faults(path, text, error, given, "experiment", MODELS)) from error
    at = Path(os.path.abspath(path)).parent
    variants = [
        variant.model_copy(
            update={
                name: placed(at, url, always=True)
                for name in ("corpus", "recipe", "mixture")
                if (url := getattr(variant, name)) is not None
            }
        )
        for variant in experiment.variants
    ]
    model, base = experiment.model, experiment.model.base
    changed: dict[str, Any] = {
        "storage": placed(at, experiment.storage, always=True),
        "tokenizer": placed(at, experiment.tokenizer, always=experiment.tokenizer.endswith(".json")),
        "variants": tuple(variants),
        "model": model.model_copy(update={"base": placed(at, base, always=False)}) if base else model,
        **{
            name: tuple(at_place(at, file) for file in getattr(experiment, name))
            for name in ("files", "evaluations")
        },
    }
    placed_experiment = experiment.model_copy(update=changed)
    placed_experiment._file = path, text
    return placed_experiment


def at_place(at: Path, file: NamedFile) -> NamedFile:
    return file.model_copy(update={"url": placed(at, file.url, always=True)})
