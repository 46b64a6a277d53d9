"""The networks of quality models in torch, and a check of a model's weights.

This module is imported late, as `tasks.quality.torch_models` is, because the import of torch takes seconds.
"""

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from zyda_flows.tasks.quality.encoder_files import (
    HEAD_CONFIG,
    HEAD_WEIGHTS,
    WEIGHTS,
    Fault,
    HeadConfig,
    HeadLayers,
    backbone_config,
    load_config,
    most_tokens,
)

MOST_LAYERS = 4
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


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


class SentenceEncoder(nn.Module):
    """An encoder of sentences: a backbone of transformers, and its pooling.

    pooling: the embedding is the mean of all positions, or the first position (`cls`). normalize: to the length 1.
    Raises Fault if weights are missing or do not fit.
    """

    def __init__(self, folder: Path, pooling: Literal["mean", "cls"], *, normalize: bool) -> None:
        super().__init__()
        self.pooling, self.normalize = pooling, normalize
        self.model = AutoModel.from_config(AutoConfig.from_pretrained(folder, trust_remote_code=False))
        prefix = f"{self.model.base_model_prefix}."
        stored = {name.removeprefix(prefix): value for name, value in load_file(folder / WEIGHTS).items()}
        expected = {
            name: value.shape for name, value in self.model.state_dict().items() if not is_pooler(name)
        }
        unfit = [
            name for name, shape in expected.items() if name not in stored or stored[name].shape != shape
        ]
        if unfit:
            raise Fault(
                f"weights {unfit[0]} in {WEIGHTS} are missing, or of another shape than in config.json"
            )
        self.model.load_state_dict({name: stored[name] for name in expected}, strict=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the embeddings of texts: (n, tokens) to (n, width)."""
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        if self.pooling == "mean":
            mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
            embedding = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        else:
            embedding = hidden[:, 0]
        if self.normalize:
            embedding = nn.functional.normalize(embedding, dim=1)
        return embedding


class EmbeddingHead(nn.Module):
    """An encoder of sentences, whose embedding is the input of heads of one to MOST_LAYERS linear layers.

    A head's weights have the names of `torch.nn.Sequential` with an activation between linear layers:
    `0.weight` and `0.bias`, `2.weight` and so on; with several heads, the name of the head precedes:
    `edu.0.weight`. Raises Fault if weights are missing or do not fit.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        settings: HeadConfig = load_config(folder)["head"]
        self.encoder = SentenceEncoder(folder, settings.pooling, normalize=settings.normalize)
        width, weights = int(self.encoder.model.config.hidden_size), load_file(folder / HEAD_WEIGHTS)
        layers = settings.layers
        self.heads = nn.ModuleList(
            head_of(settings.weights_of(weights, name), width, layers[name], name) for name in layers
        )
        if unknown := [key for key in weights if "" not in layers and key.partition(".")[0] not in layers]:
            raise Fault(f"{HEAD_WEIGHTS}: {unknown[0]} belongs to none of the heads of {HEAD_CONFIG}")

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.outputs(self.encoder(input_ids, attention_mask))

    def outputs(self, embedding: Tensor) -> Tensor:
        """Return the outputs of all heads: (n, width) to (n, outputs)."""
        return torch.cat([head(embedding) for head in self.heads], dim=1)


def is_pooler(name: str) -> bool:
    """Return whether weights are of a layer that is not used, and which not all files have."""
    return name.startswith("pooler.")


def head_of(weights: dict[str, Tensor], width: int, settings: HeadLayers, name: str) -> nn.Sequential:
    """Return the layers of a head with these weights. width: of the embedding. name: as in HEAD_CONFIG.

    Raises Fault.
    """
    outputs, prefix = max(1, len(settings.labels)), f"{name}." if name else ""
    number = len(weights) // 2
    expected = {f"{2 * layer}.{kind}" for layer in range(number) for kind in ("weight", "bias")}
    if not 0 < number <= MOST_LAYERS or weights.keys() != expected:
        raise Fault(
            f"{HEAD_WEIGHTS}: expected {prefix}0.weight, {prefix}0.bias, {prefix}2.weight and so on "
            f"for at most {MOST_LAYERS} layers, "
            f"got {', '.join(sorted(weights)[:8]) or 'no weights'}"
        )
    layers = list[nn.Module]()
    for layer in range(number):
        weight, bias = weights[f"{2 * layer}.weight"], weights[f"{2 * layer}.bias"]
        rows = outputs if layer == number - 1 else len(bias)
        if list(weight.shape) != [rows, width] or list(bias.shape) != [rows]:
            raise Fault(
                f"{HEAD_WEIGHTS}: {prefix}{2 * layer}.weight: "
                f"expected the shape [{rows}, {width}] and as many biases, "
                f"got {list(weight.shape)} and {list(bias.shape)}"
            )
        layers += [ACTIVATIONS[settings.activation]()] if layer else []
        layers.append(nn.Linear(width, rows))
        width = rows
    head = nn.Sequential(*layers)
    head.load_state_dict(weights)
    return head


class SequenceClassifier(nn.Module):
    """A sequence classifier of transformers that returns only the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def most_positions(network: nn.Module) -> int | None:
    """Return the largest number of tokens that a network can read; None without a table of positions."""
    tables = [
        module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
    ]  # RoBERTa counts the positions from the number of its padding on
    return min(tables, default=None)


def tokenizer_of(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def check_model(folder: Path) -> None:
    """Raise ValueError if the names and shapes of a model's weights are not those of its configuration."""
    logging.disable_progress_bar()
    tokenizer_of(folder)
    if "head" in load_config(folder):
        EmbeddingHead(folder)
        most_tokens(folder)
        return
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
