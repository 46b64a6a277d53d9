"""Encoders with a head, as transformers saves them: config.json, model.safetensors, a tokenizer.

Two kinds are supported. A model whose config.json names a `base_model`, such as nvidia/quality-classifier-deberta,
has a linear head on the first position. Other models are sequence classifiers of transformers, such as
HuggingFaceFW/fineweb-edu-classifier, which has one output, a score.

This module is a form of `tasks.quality.forms`. It does not import torch: `tasks.quality.torch_models` runs models.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from zyda_flows.tasks.quality.encoder_files import (
    FILES,
    Fault,
    digest_of_model,
    fault_of,
    labels_of,
    load_config,
)

__all__ = ["FILES", "Fault", "check", "digest_of_model", "is_model", "load", "missing_libraries"]

LIBRARIES = ("torch", "transformers")


def missing_libraries() -> str:
    """Return which libraries are not installed, with the command that installs them; "" if all are installed."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed; pip install 'zyda-flows[models]'" if missing else ""


def is_model(folder: Path) -> bool:
    """Return whether a folder has the config.json of such a model."""
    return (folder / "config.json").is_file()


def check(folder: Path) -> tuple[str, ...]:
    """Check a model, and return its labels; () for a model that returns a score.

    Raises:
        Fault: the model cannot be loaded.
        ValueError: the weights do not fit the configuration.
    """
    config = load_config(folder)
    if fault := fault_of(folder, config):
        raise Fault(fault)
    from zyda_flows.tasks.quality.torch_networks import check_model

    check_model(folder)
    return labels_of(config)


def load(folder: Path, max_tokens: int, device: str | None) -> Callable[[Sequence[str]], list[pa.Array]]:
    """Load a model; return a function that takes texts and returns the columns of the answers."""
    from zyda_flows.tasks.quality.torch_models import Classifier

    return Classifier(folder, max_tokens, device).answers
