"""The trial of a model for some seconds, on a core or on the worker's GPU."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba.core.event import install_timer
from numpy.typing import NDArray

from zyda_flows.tasks.quality.conditions import Condition, judge_keep, only_if
from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.quality.keep import keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.quality.vector_forms import body_of
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.stage.cost import ModelTrial, SourceSize

MODEL_SECONDS, WINDOW = 8.0, 32  # the time for a model, and the number of texts in a call
LABEL = "quality_pred"


def columns_of_conditions(source: Source, judges: Sequence[Judge]) -> set[str]:
    """Return the columns that the conditions of judges read."""
    conditions = (each(source, judge) for judge in judges for each in (only_if, judge_keep))
    return {column for condition in conditions if condition for column in condition.columns}


def try_judges(
    source: Source, models: Sequence[Model], judges: Sequence[Judge], documents: pa.Table
) -> dict[str, ModelTrial]:
    """Run the models of a source's judges on documents, and return their trials by the names of the judges.

    documents: with `text`, and the columns of the source that conditions read. If a judge keeps none of them, later
    judges are tried with the same documents.
    """
    trials, entering = dict[str, ModelTrial](), 1.0
    labels = source.classify.keep if source.classify else ()
    for judge, model in zip(judges, models, strict=True):
        trial, answers = try_model(judge, model, documents.column("text"))
        documents = documents.slice(0, len(answers))
        is_judged = true_rows(only_if(source, judge), documents)
        for name in answers.column_names:
            column = pc.if_else(pa.array(is_judged), answers.column(name), None)
            documents = documents.append_column(name, column)
        is_kept = true_rows(judge_keep(source, judge), documents)
        if labels and judge.is_classify and LABEL in documents.column_names:
            is_kept &= pc.is_in(documents.column(LABEL), pa.array(labels)).to_numpy()
        trial = trial._replace(entering=entering, judged=share_of(is_judged), kept=share_of(is_kept))
        trials[judge.name], entering = trial, entering * trial.kept
        documents = documents.filter(pa.array(is_kept)) if is_kept.any() else documents
    return trials


def device_seconds(sources: Mapping[str, SourceSize], *, without_only_if: bool = False) -> dict[str, float]:
    """Return the seconds of one device for each source and judge.

    without_only_if: of the judges with an `only_if` that is not true for all documents, if they judged all.
    """
    return {
        f"{name}, judge {judge}": model.seconds
        * source.entering_judge(judge)
        * (1 if without_only_if else model.judged)
        for name, source in sources.items()
        for judge, model in source.models.items()
        if model.judged < 1 or not without_only_if
    }


def share_of(rows: NDArray[np.bool_]) -> float:
    return float(rows.mean()) if len(rows) else 1.0


def true_rows(condition: Condition | None, documents: pa.Table) -> NDArray[np.bool_]:
    """Return the documents for which a condition is true: bool, (n,); all if it cannot be evaluated."""
    everything = np.ones(len(documents), np.bool_)
    if condition is None:
        return everything
    for name in condition.names_of_text:
        if name not in documents.column_names:
            documents = documents.append_column(name, documents.column("text"))
    if not {*condition.columns} <= {*documents.column_names}:  # a join, for example, is not in a trial
        return everything
    try:
        return keep_mask(condition.expression, documents)
    except BadKeep:  # the build raises it with file and row
        return everything


def try_model(judge: Judge, model: Model, texts: pa.ChunkedArray) -> tuple[ModelTrial, pa.Table]:
    """Run a model on texts for some seconds, on its GPU or on one core, as a worker does.

    Returns the trial, and the columns of the answers for the first texts.
    """
    loading, compiling = time.process_time(), list[float]()
    with install_timer("numba:compile", compiling.append):
        run = load_model(model, judge.max_tokens)
        clock = time.monotonic if model.form == "kenlm" else on_one_core()  # KenLM runs in another process
        run(texts[:1])  # the first call loads the model
    # Kernels are compiled once for all processes of a machine, and stored.
    loading = max(0.0, time.process_time() - loading - sum(compiling))
    schema = pa.schema(model.added_columns)
    parts, began, spent, done = [schema.empty_table()], time.monotonic(), clock(), 0
    while done < len(texts) and time.monotonic() - began < MODEL_SECONDS:
        parts.append(pa.table(run(texts[done : done + WINDOW]), schema=schema))
        done = min(len(texts), done + WINDOW)
    seconds, answers = (clock() - spent) / max(1, done), pa.concat_tables(parts)
    body = body_of(model, judge.max_tokens)
    return ModelTrial(done, seconds, 1.0, loading, dims=body.dims if body else 0), answers


def on_one_core() -> Callable[[], float]:
    """Limit models to one core, as workers do, and return the clock of the core or of the GPU.

    Threads that wait for each other take many times as long if other programs run, too.
    """
    torch = sys.modules.get("torch")  # some models do not use torch
    if torch is None:
        return time.process_time
    torch.set_num_threads(1)
    return time.monotonic if torch.cuda.is_available() else time.process_time
