"""The trial of a model for some seconds, on a core or on the worker's GPU."""

import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.stage.cost import ModelTrial

MODEL_SECONDS, WINDOW = 8.0, 32  # the time for a model, and the number of texts in a call
LABEL = "quality_pred"


def try_model(
    judge: Judge, model: Model, labels_to_keep: tuple[str, ...], texts: pa.ChunkedArray
) -> ModelTrial:
    """Run a model on texts for some seconds, on its GPU or on one core, as a worker does.

    labels_to_keep: of `classify`.
    """
    loading = time.process_time()
    answers = load_model(model, judge.max_tokens)
    clock = on_one_core()
    answers(texts[:1])  # the first call loads the model
    loading = time.process_time() - loading
    labels, began, spent, done = list[Any](), time.monotonic(), clock(), 0
    while done < len(texts) and time.monotonic() - began < MODEL_SECONDS:
        columns = dict(zip(model.table_schema.names[1:], answers(texts[done : done + WINDOW]), strict=True))
        done = min(len(texts), done + WINDOW)
        labels += columns[LABEL].to_pylist() if LABEL in columns else []
    kept = (
        sum(label in labels_to_keep for label in labels) / len(labels) if labels and labels_to_keep else 1.0
    )
    return ModelTrial(done, (clock() - spent) / max(1, done), kept, loading)


def on_one_core() -> Callable[[], float]:
    """Limit models to one core, as workers do, and return the clock of the core or of the GPU.

    Threads that wait for each other take many times as long if other programs run, too.
    """
    torch = sys.modules.get("torch")  # some models do not use torch
    if torch is None:
        return time.process_time
    torch.set_num_threads(1)
    return time.monotonic if torch.cuda.is_available() else time.process_time
