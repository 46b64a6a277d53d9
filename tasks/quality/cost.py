"""What a model is likely to cost: by its size, before it has answered anything in a build."""

from functools import lru_cache
from math import prod

from safetensors import SafetensorError, safe_open

from tasks.quality.forms import model_folder
from tasks.recipe.fields import Classify

OPERATIONS = 3e10  # a second, of two cores that multiply matrices of 32-bit floats
SECONDS_A_DOCUMENT = 0.001  # for its tokens and for Python
USUAL_WEIGHTS = 85_000_000  # of an encoder of the usual size, without its vocabulary


def seconds_of(classify: Classify, documents: float, tokens: float) -> float:
    """Return about how long a model takes for so many documents, with so many tokens of the corpus's together."""
    read = min(tokens, documents * classify.max_tokens)
    return (
        documents * SECONDS_A_DOCUMENT + 2 * weights_of(classify.model, classify.revision) * read / OPERATIONS
    )


@lru_cache
def weights_of(name: str, revision: str | None) -> int:
    """Count the weights that a model multiplies for each token: all but those of its vocabulary."""
    try:
        files = [*model_folder(name, revision).glob("*.safetensors")]
        return sum(map(weights_in, map(str, files))) or USUAL_WEIGHTS
    except (OSError, ValueError, SafetensorError):  # whoever runs it says what is wrong with it
        return USUAL_WEIGHTS


def weights_in(path: str) -> int:
    with safe_open(path, "np") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys() if "embed" not in name)  # noqa: SIM118
