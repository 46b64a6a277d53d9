"""Vectors for cosines by encoders of sentences: which files they have, and how they pool.

Three layouts are known: an encoder with head.json, whose heads are not used; a folder of sentence-transformers
with modules.json, whose modules are Transformer, Pooling (mean or cls) and optionally Normalize; and the bare
encoder of transformers, whose pooling is the mean. `tasks.quality.window_encoder` runs them; this module does not
import torch.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality.encoder_files import (
    FILES,
    HEAD_CONFIG,
    SENTENCES,
    Fault,
    fault_of,
    load_head,
)
from zyda_flows.tasks.quality.encoder_vectors import digests_of_body
from zyda_flows.tasks.quality.text_vectors import TextVectors
from zyda_flows.tasks.storage.records import digest_of

MOST_WINDOWS = 64  # of a text that are read
MODULES, PROMPTS, CONFIG = "modules.json", "config_sentence_transformers.json", "config.json"
MOST_SETTINGS = 1 << 20  # bytes of a file of settings
KINDS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
POOLINGS: dict[str, Literal["mean", "cls"]] = {"mean": "mean", "cls": "cls"}
MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}  # of older files; others are not known


class Layout(NamedTuple):
    """How an encoder embeds a window. folder: of its config.json, weights and tokenizer. dims: of the embedding."""

    folder: Path
    pooling: Literal["mean", "cls"]
    normalize: bool
    dims: int


def dims_of(folder: Path) -> int:
    """Check a model, embed a text with it, and return the length of its vectors. Raises Fault."""
    from zyda_flows.tasks.quality.window_encoder import WindowEncoder  # late: it imports torch

    WindowEncoder(folder, "cpu").vectors(pa.chunked_array([["A text."]]))
    return layout_of(folder).dims


def digest_of_vectors(folder: Path) -> str:
    """Hash all on which the vectors depend: all files except the files of heads, and how head.json pools."""
    layout = layout_of(folder)
    return digest_of([layout.pooling, layout.normalize, MOST_WINDOWS, digests_of_body(folder)])


def precision(device: str | None) -> str:
    """Return the class of the device and the number format, on which vectors depend."""
    from zyda_flows.tasks.quality import window_encoder  # late: it imports torch

    return window_encoder.precision(device)


def load(folder: Path, device: str | None) -> Callable[[pa.ChunkedArray], TextVectors]:
    """Load a model; return the function of its vectors."""
    from zyda_flows.tasks.quality.window_encoder import WindowEncoder  # late: it imports torch

    return WindowEncoder(folder, device).vectors


def layout_of(folder: Path) -> Layout:
    """Return the layout of an encoder, and check its files. Raises Fault."""
    encoder, pooling = folder, Path()
    modules = modules_of(folder) if (folder / MODULES).is_file() else []
    if modules:
        encoder, pooling = modules[0][1], modules[1][1]
    if not (encoder / CONFIG).is_file():
        raise Fault(f"it has no {CONFIG}, or is a model of another kind")
    expect_sizes(folder)
    config = settings_of(encoder / CONFIG)
    has_head = (folder / HEAD_CONFIG).is_file()
    if fault := fault_of(encoder, config | ({"head": True} if has_head else {})):
        raise Fault(fault)
    if not has_head and is_classifier(config):
        raise Fault("it is a classifier, whose embeddings are not made for cosines")
    dims = config.get("hidden_size", config.get("dim"))
    if not isinstance(dims, int) or dims < 1:
        raise Fault(f"{CONFIG}: hidden_size is {dims!r}, expected the number of dimensions")
    expect_plain_texts(folder, encoder)
    if has_head:
        head = load_head(folder / HEAD_CONFIG)
        return Layout(encoder, head.pooling, head.normalize, dims)
    if not modules:
        return Layout(encoder, "mean", False, dims)
    return Layout(encoder, pooling_of(pooling / CONFIG, dims), len(modules) == len(KINDS[1]), dims)


def expect_sizes(folder: Path) -> None:
    """Raise Fault if a file is too large."""
    for path in {path for pattern in FILES for path in folder.rglob(pattern)}:
        most = limits().model_bytes if path.suffix == ".safetensors" else limits().tokenizer_bytes
        if path.stat().st_size > most:
            raise Fault(f"{path.relative_to(folder)} has more than {most:,} bytes")


def settings_of(path: Path) -> dict[str, Any]:
    """Read a JSON object of settings. Raises Fault."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise Fault(f"{path.name}: expected a JSON object")
    return settings


def read_json(path: Path) -> Any:
    if not path.is_file():
        raise Fault(f"it has no {path.parent.name}/{path.name}")
    if path.stat().st_size > MOST_SETTINGS:
        raise Fault(f"{path.name} has more than {MOST_SETTINGS:,} bytes")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Fault(f"{path.name} is no JSON: {first_line(error)}") from error


def modules_of(folder: Path) -> list[tuple[str, Path]]:
    """Return the kinds and folders of the modules of sentence-transformers. Raises Fault for others."""
    modules = read_json(folder / MODULES)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise Fault(f"{MODULES}: expected a list of objects")
    types, paths = ([str(module.get(key, "")) for module in modules] for key in ("type", "path"))
    kinds = [kind.rpartition(".")[2] for kind in types]
    if strange := [kind for kind in types if not kind.startswith("sentence_transformers.")]:
        raise Fault(f"it comes with code of its own, which is never run ({strange[0]} in {MODULES})")
    if kinds not in KINDS:
        raise Fault(f"{MODULES}: expected {', '.join(KINDS[1])}, got {', '.join(kinds) or 'none'}")
    if outside := [path for path in paths if not (folder / path).resolve().is_relative_to(folder.resolve())]:
        raise Fault(f"{MODULES}: the path {outside[0]} is outside of the folder")
    return [(kind, folder / path) for kind, path in zip(kinds, paths, strict=True)]


def pooling_of(path: Path, dims: int) -> Literal["mean", "cls"]:
    """Return how a module pools. Raises Fault if it is not known. dims: of the encoder."""
    settings = settings_of(path)
    flags = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    mode = settings.get("pooling_mode", MODES.get(flags[0]) if len(flags) == 1 else None)
    if not isinstance(mode, str) or mode not in POOLINGS:
        raise Fault(f"{path.parent.name}/{path.name}: the pooling is {mode or flags}, expected mean or cls")
    stated = settings.get("embedding_dimension", settings.get("word_embedding_dimension", dims))
    if stated != dims:
        raise Fault(
            f"{path.parent.name}/{path.name}: it states {stated} dimensions, and the encoder has {dims}"
        )
    return POOLINGS[mode]


def expect_plain_texts(folder: Path, encoder: Path) -> None:
    """Raise Fault if sentence-transformers would change texts before it encodes them."""
    prompts = settings_of(folder / PROMPTS) if (folder / PROMPTS).is_file() else {}
    if prompts.get("default_prompt_name") is not None:
        raise Fault(f"{PROMPTS}: default_prompt_name is set, and prompts before texts are not supported")
    sentences = settings_of(encoder / SENTENCES) if (encoder / SENTENCES).is_file() else {}
    if sentences.get("do_lower_case"):
        raise Fault(f"{SENTENCES}: do_lower_case is set, expected a tokenizer that does so")
    if (task := sentences.get("transformer_task", "feature-extraction")) != "feature-extraction":
        raise Fault(f"{SENTENCES}: transformer_task is {task}, expected feature-extraction")


def is_classifier(config: dict[str, Any]) -> bool:
    return "base_model" in config or any(
        "Classification" in str(name) for name in config.get("architectures") or ()
    )
