"""The vectors of encoders of sentences: the embedding that their heads read (`tasks.quality.torch_models`)."""

from pathlib import Path

from zyda_flows.tasks.quality.encoder_files import HEAD_CONFIG, HEAD_WEIGHTS, digests_of_files, load_config
from zyda_flows.tasks.quality.vector_body import VectorBody, VectorFunctions
from zyda_flows.tasks.storage.records import digest_of

MEASURES = "measures.json"  # of a trained judge


def body(folder: Path, max_tokens: int) -> VectorBody | None:
    """Return the encoder of a model with heads on its embedding; None for another model."""
    config = load_config(folder)
    if "head" not in config:
        return None
    from transformers import AutoConfig  # late: it imports much

    digests = digests_of_body(folder)
    settings = config["head"]
    width = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True).hidden_size
    return VectorBody(
        digest=digest_of([settings.pooling, settings.normalize, max_tokens, digests]),
        dims=int(width),
        kind="float32",
        unit=1.0,
    )


def digests_of_body(folder: Path) -> list[list[str]]:
    """Return the names and digests of the files of an encoder, without those of its heads."""
    digests = digests_of_files(folder)
    return [[name, digests[name]] for name in digests if name not in (HEAD_CONFIG, HEAD_WEIGHTS, MEASURES)]


def load(folder: Path, max_tokens: int, device: str | None, *, every_label: bool) -> VectorFunctions:
    """Load a model; return the function of its vectors, and the function of its answers for vectors."""
    from zyda_flows.tasks.quality.torch_models import Embedder  # late: it imports torch

    embedder = Embedder(folder, max_tokens, device, every_label=every_label)
    return VectorFunctions(embedder.vectors, embedder.answers_of_vectors)
