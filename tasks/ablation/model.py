"""Small causal models: a Llama of a number of parameters, or a base model from a folder or the hub.

This module is imported late, because the import of torch takes seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils import logging

from zyda_flows.tasks.errors import BadRequest, first_line
from zyda_flows.tasks.quality.encoders import locate

HEAD = 32  # width of an attention head; 64 from WIDE on
WIDE = 512
WIDTHS = tuple(range(32, 1025, 32))
TOLERANCE = 0.25  # of the number of parameters
EXPECTED = "expected a folder with config.json, tokenizer.json and model.safetensors, or a hub name"

logging.disable_progress_bar()


@dataclass(frozen=True)
class Shape:
    """The shape of a Llama whose input and output embeddings are the same."""

    vocabulary: int
    width: int

    @property
    def layers(self) -> int:
        return max(2, round(self.width / 64))

    @property
    def heads(self) -> int:
        return self.width // (HEAD if self.width < WIDE else 2 * HEAD)

    @property
    def inner(self) -> int:
        """The width inside the feed-forward layers: 8/3 of the model's width, a multiple of 32."""
        return -(-self.width * 8 // 96) * 32

    @property
    def parameters(self) -> int:
        layer = 4 * self.width**2 + 3 * self.width * self.inner + 2 * self.width
        return self.vocabulary * self.width + self.layers * layer + self.width


def shapes(vocabulary: int) -> Iterator[Shape]:
    """Yield the shapes for a vocabulary, from the smallest to the largest."""
    for width in WIDTHS:
        if width < WIDE or width % (2 * HEAD) == 0:
            yield Shape(vocabulary, width)


def shape_of(parameters: float, vocabulary: int) -> Shape:
    """Return the shape whose number of parameters is nearest. Raises BadRequest if none is within TOLERANCE."""
    nearest = min(shapes(vocabulary), key=lambda shape: abs(shape.parameters - parameters))
    if abs(nearest.parameters / parameters - 1) > TOLERANCE:
        raise BadRequest(
            f"model: no Llama has about {parameters:,.0f} parameters with a vocabulary of {vocabulary:,}; the "
            f"nearest has {nearest.parameters:,}"
        )
    return nearest


def new_model(shape: Shape, sequence: int, seed: int) -> Any:
    """Return a Llama with random weights, which depend on the seed only. sequence: tokens of a sequence."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.inner,
            num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.heads,
            max_position_embeddings=sequence, tie_word_embeddings=True, use_cache=False,
            bos_token_id=None, eos_token_id=None, pad_token_id=None,
        )
    )  # fmt: skip


def base_folder(base: str, revision: str | None, tokenizer: Tokenizer) -> Path:
    """Return the local folder of a base model.

    Raises BadRequest if it is no causal language model with weights in safetensors, or has another tokenizer.
    """
    try:
        folder = locate(base, revision)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers and the hub raise many kinds of errors
        raise BadRequest(f"base: {base} cannot be loaded: {first_line(error)}; {EXPECTED}") from error
    architectures = config.architectures or []
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not any(
        "CausalLM" in name for name in architectures
    ):
        found = ", ".join(architectures) or config.model_type
        raise BadRequest(f"base: {base} is no causal language model: its config.json names {found}")
    if not any(folder.glob("*.safetensors")):
        raise BadRequest(f"base: {base} has no weights in safetensors; {EXPECTED}")
    if not (folder / "tokenizer.json").is_file():
        raise BadRequest(f"base: {base} has no tokenizer.json; {EXPECTED}")
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if theirs.get_vocab(with_added_tokens=True) != tokenizer.get_vocab(with_added_tokens=True):
        raise BadRequest(
            f"base: the tokenizer of {base} has other ids than `tokenizer`; use its tokenizer.json"
        )
    return folder


def base_model(folder: Path) -> Any:
    """Return the model in a folder, in float32."""
    return AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, trust_remote_code=False, local_files_only=True, dtype=torch.float32
    )
