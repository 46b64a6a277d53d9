"""Check and hash the files of an encoder of transformers: config.json, model.safetensors, a tokenizer."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from zyda_flows.tasks.errors import one_line

FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]
HEAD_CONFIG, HEAD_WEIGHTS = "head.json", "head.safetensors"
WEIGHTS, PICKLED = "model.safetensors", ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class HeadConfig(BaseModel):
    """The file HEAD_CONFIG: how an embedding is computed, and the labels of the head's outputs.

    pooling: the embedding is the mean of all positions, or the first position (`cls`). normalize: to the length 1.
    activation: between the layers of the head. labels: none for a head with one output, which is a score.
    multi_label: whether each label has a probability of its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pooling: Literal["mean", "cls"] = "mean"
    normalize: bool = False
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    labels: tuple[str, ...] = ()
    multi_label: bool = False


class Fault(ValueError):
    """A model cannot be loaded; the message names the reason, which a user can correct."""


def load_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a model; if the folder has a head, with the labels of HEAD_CONFIG."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    if (folder / HEAD_CONFIG).is_file():
        head = load_head(folder / HEAD_CONFIG)
        labels = {str(number): label for number, label in enumerate(head.labels)}
        kind = "multi_label_classification" if head.multi_label else None
        config |= {"head": head, "id2label": labels, "num_labels": len(labels), "problem_type": kind}
    return config


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


def is_multi_label(config: dict[str, Any]) -> bool:
    """Return whether each label of a model has a probability of its own: the sigmoid of its output."""
    return config.get("problem_type") == "multi_label_classification"


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
    if config.get("problem_type") == "regression" and labels_of(config):
        return (
            f"it has {len(labels_of(config))} outputs that are scores (problem_type regression), expected one"
        )
    return None if has_tokenizer(folder) else "it has no tokenizer.json, nor another file of a tokenizer"


def has_tokenizer(folder: Path) -> bool:
    names = ("tokenizer.json", "vocab.txt", "vocab.json")
    return any((folder / name).is_file() for name in names) or any(folder.glob("*.model"))


def digest_of_model(folder: Path) -> str:
    """Hash all files on which the answers of a model depend, including the configuration of its backbone."""
    files = {file.relative_to(folder).as_posix(): file for pattern in FILES for file in folder.rglob(pattern)}
    base_model = load_config(folder).get("base_model")
    if base_model:
        files["backbone"] = backbone_config(folder, base_model)
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode())
        with files[name].open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:20]
