"""Quality models: where they come from, what they say, and what their columns are called.

Two forms are known, told apart by the model's config.json. The form of
nvidia/quality-classifier-deberta names its `base_model`, has a linear head on the first position and
says a label: columns `quality_pred`, `quality_prob`. The form of
HuggingFaceFW/fineweb-edu-classifier is a sequence classifier with one output: columns `score`,
`int_score`. Any sequence classifier with several labels is read like the first.

Nothing here loads weights: that is `tasks.models`, which imports torch.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from huggingface_hub import hf_hub_download, snapshot_download

from tasks.errors import bad_input
from tasks.recipe import Classify

PREDICTION = pa.schema(
    [("doc_id", pa.uint64()), ("quality_pred", pa.string()), ("quality_prob", pa.float32())]
)
SCORE = pa.schema([("doc_id", pa.uint64()), ("score", pa.float32()), ("int_score", pa.int8())])
MODEL_FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]


@lru_cache(maxsize=16)
def model_folder(model: str) -> Path:
    """Return the local folder of a model, fetched from the hub where it is a hub name."""
    folder = Path(model)
    return folder if folder.is_dir() else Path(snapshot_download(model, allow_patterns=MODEL_FILES))


def load_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def backbone_config(folder: Path, base_model: str) -> Path:
    """Return the config.json of the backbone that a config names: a folder beside it or a hub name."""
    beside = folder / base_model / "config.json"
    return beside if beside.is_file() else Path(hf_hub_download(base_model, "config.json"))


def labels_of(config: dict[str, Any]) -> tuple[str, ...]:
    """Return a model's labels in the order of its outputs; none for one output, which is a score."""
    labels = config.get("id2label", {})
    outputs = config.get("num_labels", len(labels))
    ordered = tuple(labels[key] for key in sorted(labels, key=int))
    return () if outputs <= 1 else ordered


def load_labels(source: str, model: str) -> tuple[str, ...]:
    """Return the labels of a source's model. Raises BadInput where there is no such model."""
    try:
        return labels_of(load_config(model_folder(model)))
    except (OSError, ValueError) as error:
        expected = "expected a folder with config.json and model.safetensors, or a hub name"
        raise bad_input(source, f"classify.model: {model} cannot be loaded: {error}; {expected}") from error


def added_columns(classify: Classify) -> list[pa.Field]:
    """Return the columns that a model gives a source."""
    schema = PREDICTION if labels_of(load_config(model_folder(classify.model))) else SCORE
    return [field for field in schema if field.name != "doc_id"]


@lru_cache(maxsize=16)
def digest_of_model(model: str) -> str:
    """Hash all the files of a model that decide what it says."""
    folder = model_folder(model)
    digest = hashlib.sha256()
    for path in sorted(file for pattern in MODEL_FILES for file in folder.rglob(pattern)):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:20]
