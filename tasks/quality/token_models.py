"""Models of token ids: a folder with judge.json, model.safetensors and tokenizer.json.

This module is a form of `tasks.quality.forms`. A text is judged whole. It is encoded by the tokenizer of the model,
also if the tokenizer of the corpus is the same: ingest counts tokens and keeps no ids, which have the size of the
text and can be computed again at 100 MB/s of a core. The cost of a judge includes it.

The numbers on which an answer depends are integers (`tasks.quality.integer_layers`, `textkernels.pooling`,
`textkernels.ngrams`), so answers are the same bits on every machine.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from tokenizers import Tokenizer

from zyda_flows.tasks.errors import BadRecipe, first_line, one_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality.encoder_files import WEIGHTS, Fault
from zyda_flows.tasks.quality.encoders import columns
from zyda_flows.tasks.quality.heads import ModelHead
from zyda_flows.tasks.quality.integer_layers import Layer, expect, layers_of, outputs_of, softmax
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.tokens.engine import TokenEngine, TokenIds, batches
from zyda_flows.tasks.tokens.stored import load_tokenizer

if TYPE_CHECKING:
    from zyda_flows.tasks.quality.ngram_vectors import NgramVectors

__all__ = [
    "EXPECTED", "MODULES", "check", "columns", "digest_of_model", "is_named", "load", "locate", "missing_libraries",
    "precision",
]  # fmt: skip

CONFIG, TOKENIZER = "judge.json", "tokenizer.json"
FILES = (CONFIG, WEIGHTS, TOKENIZER)
EXPECTED = f"expected a folder with {', '.join(FILES)}"
MODULES: tuple[str, ...] = ()  # which workers share
MOST_CONFIG = 1 << 20  # bytes
HIGHEST_SCORE = 5  # of `int_score`


class JudgeConfig(BaseModel):
    """The file CONFIG.

    labels: of the outputs; none for one output, a score. tokenizer: the digest of the tokenizer. window: the most
    tokens of a window of the pooled form. seed: of the training.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal["pooled", "luxical"]
    labels: tuple[str, ...] = ()
    tokenizer: str
    window: int = Field(256, ge=1, le=256)
    seed: int = 0


class PooledEmbeddings(NamedTuple):
    """The pooled form. table: the embeddings of tokens, int8, (vocabulary, dims)."""

    table: NDArray[np.int8]
    window: int

    def features(self, tokens: TokenIds) -> NDArray[np.int32]:
        """Return the inputs of the head for documents: (n, inputs)."""
        from zyda_flows.textkernels.pooling import pooled  # late: it imports numba

        return pooled(tokens.ids, tokens.ends, self.table, self.window)


class TokenModel(NamedTuple):
    """A loaded model. body: computes the inputs of the head. layers: of the head."""

    config: JudgeConfig
    engine: TokenEngine
    body: "PooledEmbeddings | NgramVectors"
    layers: list[Layer]

    def tokens(self, texts: pa.LargeStringArray) -> TokenIds:
        """Return the ids of a batch of texts.

        They are not compared with the reference: the answer for a text would depend on earlier texts.
        """
        return self.engine.encode_unchecked(texts, texts.to_pylist())

    def outputs(self, texts: pa.LargeStringArray) -> NDArray[np.float64]:
        """Return the outputs of the head for texts: (n, labels), or (n, 1) for a score."""
        parts = [np.empty((0, max(1, len(self.config.labels))))]
        parts += (outputs_of(self.layers, self.body.features(self.tokens(batch))) for batch in batches(texts))
        return np.concatenate(parts)


def missing_libraries() -> str:
    return ""


def is_named(name: str) -> bool:
    """Return whether a name is that of a local folder with such a model."""
    with suppress(OSError, RuntimeError):  # too long for a path, or of an unknown user
        return (Path(name).expanduser() / CONFIG).is_file()
    return False


def locate(name: str, revision: str | None) -> Path:
    """Return the local folder of a model; a model of the hub is downloaded."""
    from zyda_flows.tasks.quality import encoders

    return encoders.locate(str(Path(name).expanduser()), revision)


def digest_of_model(folder: Path) -> str:
    """Hash the files on which the answers of a model depend."""
    digest = hashlib.sha256()
    for name in FILES:
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:20]


def precision(device: str | None) -> str:
    """Return the number format, on which answers depend: the same on each device."""
    return "int8"


def check(folder: Path) -> tuple[ModelHead, ...]:
    """Check a model and return its head. Raises Fault."""
    return (ModelHead(labels=read(folder).config.labels),)


def load(
    folder: Path, max_tokens: int, device: str | None, *, every_label: bool = False
) -> Callable[[pa.ChunkedArray], list[pa.Array]]:
    """Load a model; return a function that takes texts and returns the columns of the answers."""
    return partial(answers, read(folder), every_label=every_label)


def answers(model: TokenModel, texts: pa.ChunkedArray, *, every_label: bool) -> list[pa.Array]:
    parts = [model.outputs(chunk) for chunk in texts.cast(pa.large_string()).chunks]
    outputs = np.concatenate([np.empty((0, max(1, len(model.config.labels)))), *parts])
    return answers_of_outputs(model, outputs, every_label=every_label)


def answers_of_outputs(
    model: TokenModel, outputs: NDArray[np.float64], *, every_label: bool
) -> list[pa.Array]:
    """Return the columns of the answers. outputs: of the head, (n, labels), or (n, 1) for a score."""
    labels = model.config.labels
    if not labels:
        scores = outputs[:, 0]
        whole = np.rint(np.clip(scores, 0, HIGHEST_SCORE)).astype(np.int8)
        return [pa.array(scores.astype(np.float32)), pa.array(whole)]
    probabilities = softmax(outputs).astype(np.float32)
    best = pa.array(labels, pa.string()).take(pa.array(outputs.argmax(axis=1)))
    each = np.ascontiguousarray(probabilities.T) if every_label else ()
    return [best, *map(pa.array, (probabilities.max(axis=1, initial=0), *each))]


def read(folder: Path) -> TokenModel:
    """Read a model, and check its files before they are used. Raises Fault."""
    for name, most in zip(FILES, (MOST_CONFIG, limits().model_bytes, limits().tokenizer_bytes), strict=True):
        if not (folder / name).is_file():
            raise Fault(f"it has no {name}; {EXPECTED}")
        if (folder / name).stat().st_size > most:
            raise Fault(f"{name} has more than {most:,} bytes")
    config = config_of(folder)
    try:
        tokenizer = load_tokenizer(str(folder / TOKENIZER))
    except BadRecipe as error:
        raise Fault(first_line(error)) from error
    if digest_of(tokenizer.to_str()) != config.tokenizer:
        raise Fault(f"{TOKENIZER} is not the tokenizer with which the model was trained; copy it again")
    tokens, engine = max(tokenizer.get_vocab().values()) + 1, TokenEngine(tokenizer)
    tensors, outputs = tensors_of(folder), max(1, len(config.labels))
    if config.form == "luxical":
        from zyda_flows.tasks.quality.ngram_vectors import DIMS, NgramVectors  # late: it imports numba

        return TokenModel(config, engine, NgramVectors.of(tensors), layers_of(tensors, DIMS, outputs))
    table = tensors.pop("table", np.empty((0, 0)))
    expect("table", table, np.int8, (max(tokens, len(table)), table.shape[-1]))
    body = PooledEmbeddings(table, config.window)
    return TokenModel(config, engine, body, layers_of(tensors, 3 * table.shape[1], outputs))


def write_model(
    folder: Path, config: JudgeConfig, tensors: dict[str, NDArray[Any]], tokenizer: Tokenizer
) -> Path:
    """Write the files of a model into a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / CONFIG).write_text(config.model_dump_json(indent=1) + "\n")
    (folder / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / WEIGHTS).write_bytes(save(tensors))
    return folder


def config_of(folder: Path) -> JudgeConfig:
    """Read CONFIG. Raises Fault."""
    try:
        return JudgeConfig.model_validate(json.loads((folder / CONFIG).read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        raise Fault(f"{CONFIG}: {'.'.join(map(str, first['loc']))}: {one_line(first['msg'])}") from error
    except (ValueError, RecursionError) as error:
        raise Fault(f"{CONFIG} is no JSON: {first_line(error)}") from error


def tensors_of(folder: Path) -> dict[str, NDArray[Any]]:
    """Read WEIGHTS, whose header safetensors compares with the size of the file. Raises Fault."""
    try:
        with safe_open(folder / WEIGHTS, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (
        SafetensorError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:  # also for types that NumPy lacks
        raise Fault(
            f"{WEIGHTS}: {first_line(error)}; copy the file again, or train the model again"
        ) from error
