"""Encoders with a head, as transformers saves them: config.json, model.safetensors, a tokenizer.

Two kinds are known, told apart by config.json. That of nvidia/quality-classifier-deberta names its
`base_model` and has a linear head on the first position; any other is a sequence classifier of transformers,
as HuggingFaceFW/fineweb-edu-classifier is, which has one output: a score.

Nothing here loads weights: that is `tasks.quality.torch_models`, which imports torch.
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

__all__ = ["FILES", "Fault", "digest_of_model", "is_one", "judge", "load", "missing_libraries"]

LIBRARIES = ("torch", "transformers")


def missing_libraries() -> str:
    """Return which libraries are not installed, with the command that installs them; nothing if all are."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed; pip install 'zyda-flows[models]'" if missing else ""


def is_one(folder: Path) -> bool:
    """Say whether a folder holds such a model, or means to."""
    return (folder / "config.json").is_file()


def judge(folder: Path) -> tuple[str, ...]:
    """Find all that can be found wrong with a model, and return its labels; none for one that gives a score.

    Raises ValueError with what is wrong.
    """
    config = load_config(folder)
    if fault := fault_of(folder, config):
        raise Fault(fault)
    from zyda_flows.tasks.quality.torch_networks import check_model

    check_model(folder)
    return labels_of(config)


def load(folder: Path, max_tokens: int, device: str | None) -> Callable[[Sequence[str]], list[pa.Array]]:
    """Load a model: what it gives takes texts and returns the columns of its answers."""
    from zyda_flows.tasks.quality.torch_models import Classifier

    return Classifier(folder, max_tokens, device).answers
