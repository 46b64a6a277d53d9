"""Quality models: where they come from, what they say, and what their columns are called.

Two forms are known, told apart by the model's config.json. The form of
nvidia/quality-classifier-deberta names its `base_model`, has a linear head on the first position and
says a label: columns `quality_pred`, `quality_prob`. The form of
HuggingFaceFW/fineweb-edu-classifier is a sequence classifier with one output: columns `score`,
`int_score`. Any sequence classifier with several labels is read like the first.

`prepare` judges a model once, before any work, and notes its digest; every stage after it goes by that,
so a model that is trained again in its folder is never taken for the one before.

Nothing here loads weights: that is `tasks.models`, which imports torch.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from huggingface_hub import hf_hub_download, snapshot_download

from tasks.errors import BadInput, bad_input, first_line
from tasks.recipe import Classify
from tasks.records import Record

PREDICTION = pa.schema(
    [("doc_id", pa.uint64()), ("quality_pred", pa.string()), ("quality_prob", pa.float32())]
)
SCORE = pa.schema([("doc_id", pa.uint64()), ("score", pa.float32()), ("int_score", pa.int8())])
MODEL_FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]
WEIGHTS, PICKLED = "model.safetensors", ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
EXPECTED = "expected a folder with config.json and model.safetensors, or a hub name"


class Model(Record):
    """A quality model as `prepare` found it: `revision` is the commit of a hub name."""

    name: str
    revision: str | None
    digest: str
    labels: tuple[str, ...]

    @property
    def table_schema(self) -> pa.Schema:
        return PREDICTION if self.labels else SCORE

    @property
    def added_columns(self) -> list[pa.Field]:
        """The columns that the model gives a source."""
        return [field for field in self.table_schema if field.name != "doc_id"]


def model_folder(name: str, revision: str | None = None) -> Path:
    """Return the local folder of a model, fetched from the hub where it is a hub name."""
    return Path(name) if Path(name).is_dir() else hub_folder(name, revision)


def hub_folder(name: str, revision: str | None) -> Path:
    return Path(snapshot_download(name, revision=revision, allow_patterns=MODEL_FILES))


def load_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


@lru_cache(maxsize=16)
def hub_config(base_model: str) -> Path:
    return Path(hf_hub_download(base_model, "config.json"))


def backbone_config(folder: Path, base_model: str) -> Path:
    """Return the config.json of the backbone that a config names: a folder beside it or a hub name."""
    beside = folder / base_model / "config.json"
    return beside if beside.is_file() else hub_config(base_model)


def labels_of(config: dict[str, Any]) -> tuple[str, ...]:
    """Return a model's labels in the order of its outputs; none for one output, which is a score."""
    labels = config.get("id2label", {})
    outputs = config.get("num_labels", len(labels))
    ordered = tuple(labels[key] for key in sorted(labels, key=int))
    return () if outputs <= 1 else ordered


def judged_model(source: str, classify: Classify) -> Model:
    """Find a source's model and all that can be found wrong with it. Raises BadInput."""
    where = f"classify.model: {classify.model}"
    try:
        folder = model_folder(classify.model, classify.revision)
        config = load_config(folder)
        if fault := fault_of(folder, config):
            raise bad_input(source, f"{where}: {fault}")
        from tasks.models import check_model

        check_model(folder)
        digest = digest_of_model(folder)
    except BadInput:
        raise
    except Exception as error:  # transformers, torch and the hub raise whatever they like
        raise bad_input(source, f"{where} cannot be loaded: {first_line(error)}; {EXPECTED}") from error
    is_local = Path(classify.model).is_dir()
    revision = None if is_local else folder.name  # the hub's cache names a snapshot by its commit
    return Model(name=classify.model, revision=revision, digest=digest, labels=labels_of(config))


def fault_of(folder: Path, config: dict[str, Any]) -> str | None:
    """Say what is wrong with a model's files, before anything of them is loaded."""
    tokenizer = folder / "tokenizer_config.json"
    settings = json.loads(tokenizer.read_text()) if tokenizer.is_file() else {}
    if "auto_map" in config or "auto_map" in settings:
        return "it comes with code of its own, which is never run (auto_map in its configuration)"
    if not (folder / WEIGHTS).is_file():
        pickled = [path.name for pattern in PICKLED for path in sorted(folder.glob(pattern))]
        why = f" ({pickled[0]} may hold code, so it is not read)" if pickled else ""
        return f"it has no {WEIGHTS}{why}; save it as one file of safetensors"
    if not any(
        (folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json")
    ) and not any(folder.glob("*.model")):
        return "it has no tokenizer.json, nor another file of a tokenizer"
    return None


def digest_of_model(folder: Path) -> str:
    """Hash all the files of a model that decide what it says, a backbone's elsewhere included."""
    files = {
        file.relative_to(folder).as_posix(): file for pattern in MODEL_FILES for file in folder.rglob(pattern)
    }
    base_model = load_config(folder).get("base_model")
    if base_model:
        files["backbone"] = backbone_config(folder, base_model)
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode())
        with files[name].open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:20]
