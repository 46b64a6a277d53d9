"""Encoders with a head, as transformers saves them: config.json, model.safetensors, a tokenizer.

Three kinds are supported. A model whose config.json names a `base_model`, such as
nvidia/quality-classifier-deberta, has a linear head on the first position. An encoder of sentences with head.json
and head.safetensors beside it has heads of linear layers on its embedding. Other models are sequence classifiers
of transformers, such as HuggingFaceFW/fineweb-edu-classifier, which has one output, a score.

This module is a form of `tasks.quality.forms`. It does not import torch: `tasks.quality.torch_models` runs models.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from zyda_flows.tasks.quality.encoder_files import (
    FILES,
    Fault,
    digest_of_model,
    fault_of,
    heads_of,
    load_config,
)
from zyda_flows.tasks.quality.heads import ModelHead

__all__ = [
    "EXPECTED", "MODULES", "check", "columns", "digest_of_model", "is_named", "load", "locate", "missing_libraries",
    "precision",
]  # fmt: skip

EXPECTED = "expected a folder with config.json and model.safetensors, or a hub name"
PREDICTION = [("pred", pa.string()), ("prob", pa.float32())]
SCORE = [("score", pa.float32()), ("int_score", pa.int8())]
LIBRARIES = ("torch", "transformers")
MODULES = ("transformers.modeling_utils", "zyda_flows.tasks.quality.torch_models")


def missing_libraries() -> str:
    """Return which libraries are not installed, with the command that installs them; "" if all are installed."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed; pip install 'zyda-flows[models]'" if missing else ""


def is_named(name: str) -> bool:
    """Return True: each model whose name is not that of another form is expected to have this form."""
    return True


def locate(name: str, revision: str | None) -> Path:
    """Return the local folder of a model; a model of the hub is downloaded."""
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise FileNotFoundError(f"there is no folder {name}")
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download  # late: it imports much

    return Path(snapshot_download(name, revision=revision, allow_patterns=FILES))


def columns(heads: tuple[ModelHead, ...], judge: str, *, every_label: bool) -> list[pa.Field]:
    """Return the columns of the answers: for each head, the most probable label and its probability, or a score.

    every_label: whether the probability of each label follows.
    """
    return [
        pa.field(f"{head.prefix(judge)}_{name}", kind)
        for head in heads
        for name, kind in (
            *(PREDICTION if head.labels else SCORE),
            *((label, pa.float32()) for label in head.labels if every_label),
        )
    ]


def precision(device: str | None) -> str:
    """Return the device and the number format on which the answers depend."""
    from zyda_flows.tasks.quality import torch_models

    return torch_models.precision(device)


def check(folder: Path) -> tuple[ModelHead, ...]:
    """Check a model, and return its heads.

    Raises:
        Fault: the model cannot be loaded.
        ValueError: the weights do not fit the configuration.
    """
    if not (folder / "config.json").is_file():
        raise ValueError("the folder has no model of a known form")
    config = load_config(folder)
    if fault := fault_of(folder, config):
        raise Fault(fault)
    from zyda_flows.tasks.quality.torch_networks import check_model

    check_model(folder)
    return heads_of(config)


def load(
    folder: Path, max_tokens: int, device: str | None, *, every_label: bool = False
) -> Callable[[pa.ChunkedArray], list[pa.Array]]:
    """Load a model; return a function that takes texts and returns the columns of the answers."""
    from zyda_flows.tasks.quality.torch_models import Classifier

    classifier = Classifier(folder, max_tokens, device, every_label=every_label)
    return lambda texts: classifier.answers(texts.to_pylist())
