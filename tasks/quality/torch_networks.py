"""The networks of quality models in torch, and a check of a model's weights.

This module is imported late, as `tasks.quality.torch_models` is, because the import of torch takes seconds.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from zyda_flows.tasks.quality.encoder_files import WEIGHTS, backbone_config, load_config


class HeadOnFirst(nn.Module):
    """A backbone, dropout and a linear head over the first position, as NVIDIA's classifiers are."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = load_config(folder)
        backbone = AutoConfig.from_pretrained(
            backbone_config(folder, config["base_model"]), trust_remote_code=False
        )
        self.model = AutoModel.from_config(backbone)
        self.dropout = nn.Dropout(config.get("fc_dropout", 0.0))
        self.fc = nn.Linear(backbone.hidden_size, len(config["id2label"]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits: Tensor = self.fc(self.dropout(hidden[:, 0]))
        return logits


class SequenceClassifier(nn.Module):
    """A sequence classifier of transformers that returns only the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def tokenizer_of(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def check_model(folder: Path) -> None:
    """Raise ValueError if the names and shapes of a model's weights are not those of its configuration."""
    logging.disable_progress_bar()
    tokenizer_of(folder)
    with torch.device("meta"):  # shapes without memory for the weights
        if "base_model" in load_config(folder):
            network: nn.Module = HeadOnFirst(folder)
        else:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            network = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
    expected = {name: list(weights.shape) for name, weights in network.state_dict().items()}
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            actual = f"got {shapes[name]}" if name in shapes else "they are missing"
            raise ValueError(f"weights {name} in {WEIGHTS}: expected the shape {shape}, {actual}")
