"""Estimate the time that a model takes, from its size and the lengths of texts, before it is run."""

import json
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from zyda_flows.tasks.quality import encoders
from zyda_flows.tasks.quality.forms import form_of
from zyda_flows.tasks.recipe.judges import ModelSettings

# Seconds of one core, measured with the model of the demo (recipes/models/demo-quality) and texts of 1,024 tokens.
SECONDS_A_DOCUMENT = 0.001  # for tokenization and Python
SECONDS_A_PRODUCT = 1.3e-10  # for a multiplication of a weight
SECONDS_A_PAIR = 4e-8  # for two tokens, in a head of a layer with relative positions
SECONDS_A_TOKEN = {
    "fasttext": 1e-7,  # 40 MB of English in a second
    "kenlm": 1e-6,
    "tokens": 1.5e-7,  # for the tokenizer, and for n-grams of ids; to pool ids takes less
}
CORES = 2  # the costs of stages are given for so many cores


class ModelSize(NamedTuple):
    """The number of weights that a model multiplies for each token, and of heads in all its layers."""

    weights: int
    heads: int


USUAL_SIZE = ModelSize(85_000_000, 144)  # an encoder of the usual size, without its vocabulary


def seconds_of(judge: ModelSettings, documents: float, tokens: float) -> float:
    """Return the estimated seconds of a model. tokens: of all documents, by the tokenizer of the corpus."""
    if seconds_a_token := SECONDS_A_TOKEN.get(form_of(judge.model)):
        return tokens * seconds_a_token / CORES
    size = size_of(judge.model, judge.revision)
    length = min(judge.max_tokens, tokens / max(1.0, documents))
    seconds_a_token = size.weights * SECONDS_A_PRODUCT + length * size.heads * SECONDS_A_PAIR
    return documents * (SECONDS_A_DOCUMENT + length * seconds_a_token) / CORES


@lru_cache
def size_of(name: str, revision: str | None) -> ModelSize:
    """Return the size of a model without its vocabulary, from its files; USUAL_SIZE if they are invalid."""
    try:
        folder = encoders.locate(name, revision)
        weights = sum(map(weights_in, map(str, folder.glob("*.safetensors"))))
        heads = max(map(heads_in, folder.rglob("config.json")), default=0)
    except (OSError, ValueError, SafetensorError):  # reported when the model is run
        return USUAL_SIZE
    return ModelSize(weights or USUAL_SIZE.weights, heads or USUAL_SIZE.heads)


def weights_in(path: str) -> int:
    with safe_open(path, "np") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys() if "embed" not in name)  # noqa: SIM118


def heads_in(path: Path) -> int:
    config = json.loads(path.read_bytes())
    return int(config.get("num_hidden_layers", 0) * config.get("num_attention_heads", 0))
