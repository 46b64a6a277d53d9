"""What a model is likely to cost: by its size and the lengths of texts, before it has answered anything."""

import json
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from zyda_flows.tasks.quality.forms import model_folder
from zyda_flows.tasks.recipe.source import Classify

# Of one core, measured with the demo's model and texts of 1,024 tokens (recipes/models/demo-quality).
SECONDS_A_DOCUMENT = 0.001  # for its tokens and for Python
SECONDS_A_PRODUCT = 1.3e-10  # of a weight and a value
SECONDS_A_PAIR = 4e-8  # of two tokens, in one head of one layer that weighs them by their distance
CORES = 2  # for which the costs of stages are meant


class Size(NamedTuple):
    """The weights that a model multiplies for each token, and the heads in all its layers."""

    weights: int
    heads: int


USUAL = Size(85_000_000, 144)  # an encoder of the usual size, without its vocabulary


def seconds_of(classify: Classify, documents: float, tokens: float) -> float:
    """Return about how long a model takes for so many documents, with so many tokens of the corpus's together."""
    size = size_of(classify.model, classify.revision)
    length = min(classify.max_tokens, tokens / max(1.0, documents))
    of_one = SECONDS_A_DOCUMENT + length * (
        size.weights * SECONDS_A_PRODUCT + length * size.heads * SECONDS_A_PAIR
    )
    return documents * of_one / CORES


@lru_cache
def size_of(name: str, revision: str | None) -> Size:
    """Look at a model's files: all weights but those of its vocabulary, and the heads that it has."""
    try:
        folder = model_folder(name, revision)
        weights = sum(map(weights_in, map(str, folder.glob("*.safetensors"))))
        heads = max(map(heads_in, folder.rglob("config.json")), default=0)
    except (OSError, ValueError, SafetensorError):  # whoever runs it says what is wrong with it
        return USUAL
    return Size(weights or USUAL.weights, heads or USUAL.heads)


def weights_in(path: str) -> int:
    with safe_open(path, "np") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys() if "embed" not in name)  # noqa: SIM118


def heads_in(path: Path) -> int:
    config = json.loads(path.read_bytes())
    return int(config.get("num_hidden_layers", 0) * config.get("num_attention_heads", 0))
