"""Check and hash the files of an encoder of transformers: config.json, model.safetensors, a tokenizer."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zyda_flows.tasks.errors import one_line
from zyda_flows.tasks.quality.heads import ModelHead

FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]
HEAD_CONFIG, HEAD_WEIGHTS = "head.json", "head.safetensors"
HeadName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
Weights = TypeVar("Weights")
SENTENCES = "sentence_bert_config.json"
MEAN = "mean.safetensors"  # see `tasks.quality.similarity_mean`; answers of judges do not depend on it
WEIGHTS, PICKLED = "model.safetensors", ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class HeadLayers(BaseModel):
    """The layers of a head on an embedding.

    activation: between the layers. labels: none for a head with one output, which is a score. multi_label: whether
    each label has a probability of its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    activation: Literal["relu", "gelu", "tanh"] = "relu"
    labels: tuple[str, ...] = ()
    multi_label: bool = False

    @model_validator(mode="after")
    def check_labels(self) -> Self:
        if self.multi_label and not self.labels:
            raise ValueError("multi_label needs labels")
        if len(self.labels) == 1 and not self.multi_label:
            raise ValueError("a single label needs multi_label, because its probability would be 1")
        if len({*self.labels}) < len(self.labels):
            raise ValueError("two labels are equal")
        return self


class HeadConfig(HeadLayers):
    """The file HEAD_CONFIG: how an embedding is computed, and the heads on it.

    pooling: the embedding is the mean of all positions, or the first position (`cls`). normalize: to the length 1.
    heads: several heads by name, instead of one.
    """

    pooling: Literal["mean", "cls"] = "mean"
    normalize: bool = False
    heads: dict[HeadName, HeadLayers] = {}

    @model_validator(mode="after")
    def check_heads(self) -> Self:
        if self.heads and (twice := sorted(self.model_fields_set & HeadLayers.model_fields.keys())):
            raise ValueError(f"with heads, each head has {twice[0]} of its own")
        return self

    @property
    def layers(self) -> dict[str, HeadLayers]:
        """The layers of each head by its name; "" for the only head."""
        return dict(self.heads) or {"": self}

    def weights_of(self, weights: dict[str, Weights], name: str) -> dict[str, Weights]:
        """Return the weights of a head: those whose names begin with its name."""
        if not name:
            return weights
        return {
            key.removeprefix(f"{name}."): value
            for key, value in weights.items()
            if key.startswith(f"{name}.")
        }


class Fault(ValueError):
    """A model cannot be loaded; the message names the reason, which a user can correct."""


def load_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a model; if the folder has HEAD_CONFIG, with this in `head`."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    if (folder / HEAD_CONFIG).is_file():
        config["head"] = load_head(folder / HEAD_CONFIG)
    return config


def heads_of(config: dict[str, Any]) -> tuple[ModelHead, ...]:
    """Return the heads of a model in the order of its outputs."""
    if "head" not in config:
        is_multi_label = config.get("problem_type") == "multi_label_classification"
        return (ModelHead(labels=labels_of(config), multi_label=is_multi_label),)
    return tuple(
        ModelHead(name=name, labels=layers.labels, multi_label=layers.multi_label)
        for name, layers in config["head"].layers.items()
    )


def load_head(path: Path) -> HeadConfig:
    """Read HEAD_CONFIG. Raises Fault."""
    try:
        return HeadConfig.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Fault(f"{HEAD_CONFIG}: {f'{place}: ' if place else ''}{one_line(first['msg'])}") from error


@lru_cache(maxsize=16)
def hub_config(base_model: str) -> Path:
    from huggingface_hub import hf_hub_download  # late: it imports much

    return Path(hf_hub_download(base_model, "config.json"))


def backbone_config(folder: Path, base_model: str) -> Path:
    """Return the config.json of the backbone that a config names: a folder beside it or a hub name."""
    config_path = folder / base_model / "config.json"
    return config_path if config_path.is_file() else hub_config(base_model)


def labels_of(config: dict[str, Any]) -> tuple[str, ...]:
    """Return a model's labels in the order of its outputs; () for a model with one output, which is a score."""
    labels = config.get("id2label", {})
    outputs = config.get("num_labels", len(labels))
    ordered = tuple(labels[key] for key in sorted(labels, key=int))
    return () if outputs <= 1 else ordered


def fault_of(folder: Path, config: dict[str, Any]) -> str | None:
    """Return what is wrong with a model's files, or None. No file except JSON files is read."""
    tokenizer = folder / "tokenizer_config.json"
    settings = json.loads(tokenizer.read_text()) if tokenizer.is_file() else {}
    if "auto_map" in config or "auto_map" in settings:
        return "it comes with code of its own, which is never run (auto_map in its configuration)"
    if not (folder / WEIGHTS).is_file():
        pickled = [path.name for pattern in PICKLED for path in sorted(folder.glob(pattern))]
        why = f" ({pickled[0]} may hold code, so it is not read)" if pickled else ""
        return f"it has no {WEIGHTS}{why}; save it as one file of safetensors"
    if (folder / HEAD_CONFIG).is_file() != (folder / HEAD_WEIGHTS).is_file():
        return f"it has only one of {HEAD_CONFIG} and {HEAD_WEIGHTS}; a head on embeddings needs both"
    if "head" not in config and config.get("problem_type") == "regression" and labels_of(config):
        return (
            f"it has {len(labels_of(config))} outputs that are scores (problem_type regression), expected one"
        )
    return None if has_tokenizer(folder) else "it has no tokenizer.json, nor another file of a tokenizer"


def most_tokens(folder: Path) -> int | None:
    """Return the largest number of tokens of an encoder of sentences, as sentence-transformers saves it, or None.

    Raises Fault.
    """
    path = folder / SENTENCES
    most = json.loads(path.read_text()).get("max_seq_length") if path.is_file() else None
    if most is not None and not (isinstance(most, int) and most > 0):
        raise Fault(f"{SENTENCES}: max_seq_length is {most!r}, expected a number of tokens")
    return most


def has_tokenizer(folder: Path) -> bool:
    names = ("tokenizer.json", "vocab.txt", "vocab.json")
    return any((folder / name).is_file() for name in names) or any(folder.glob("*.model"))


def digests_of_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files on which the answers and vectors of a model depend, by their paths."""
    paths = {path for pattern in FILES for path in folder.rglob(pattern)}
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: digest_of_file(named[name]) for name in sorted(named) if name != MEAN}


def digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_model(folder: Path) -> str:
    """Hash all files on which the answers of a model depend, including the configuration of its backbone."""
    digests = digests_of_files(folder)
    base_model = load_config(folder).get("base_model")
    if base_model:
        digests["backbone"] = digest_of_file(backbone_config(folder, base_model))
    digest = hashlib.sha256()
    for name in sorted(digests):
        digest.update(name.encode() + bytes.fromhex(digests[name]))
    return digest.hexdigest()[:20]
