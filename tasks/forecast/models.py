"""The trial of a model for some seconds, on a core or on the worker's GPU."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from zyda_flows.tasks.quality.conditions import Condition, only_if
from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.quality.keep import keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.stage.cost import ModelTrial, SourceSize

MODEL_SECONDS, WINDOW = 8.0, 32  # the time for a model, and the number of texts in a call
LABEL = "quality_pred"


def columns_of_conditions(source: Source, judges: Sequence[Judge]) -> set[str]:
    """Return the columns that the `only_if` of judges read."""
    conditions = [condition for judge in judges if (condition := only_if(source, judge)) is not None]
    return {column for condition in conditions for column in condition.columns}


def try_judges(
    source: Source, models: Sequence[Model], judges: Sequence[Judge], documents: pa.Table
) -> dict[str, ModelTrial]:
    """Run the models of a source's judges on documents, and return their trials by the names of the judges.

    documents: with `text`, and the columns of the source that conditions read.
    """
    trials, texts = dict[str, ModelTrial](), documents.column("text")
    labels = source.classify.keep if source.classify else ()
    for judge, model in zip(judges, models, strict=True):
        condition = only_if(source, judge)
        judged = share_of(condition, documents) if condition is not None else 1.0
        trial, answers = try_model(judge, model, labels, texts)
        trials[judge.name] = trial._replace(judged=judged)
        documents = documents.slice(0, len(answers))
        for name in answers.column_names:
            documents = documents.append_column(name, answers.column(name).slice(0, len(documents)))
    return trials


def device_seconds(sources: Mapping[str, SourceSize], *, without_only_if: bool = False) -> dict[str, float]:
    """Return the seconds of one device for each source and judge.

    without_only_if: of the judges with an `only_if` that is not true for all documents, if they judged all.
    """
    return {
        f"{name}, judge {judge}": model.seconds
        * source.entering_model
        * (1 if without_only_if else model.judged)
        for name, source in sources.items()
        for judge, model in source.models.items()
        if model.judged < 1 or not without_only_if
    }


def share_of(condition: Condition, documents: pa.Table) -> float:
    """Return the share of documents for which a condition is true; 1 if it cannot be evaluated."""
    for name in condition.names_of_text:
        if name not in documents.column_names:
            documents = documents.append_column(name, documents.column("text"))
    if not {*condition.columns} <= {*documents.column_names}:  # a join, for example, is not in a trial
        return 1.0
    try:
        return float(keep_mask(condition.expression, documents).mean()) if len(documents) else 1.0
    except BadKeep:  # the build raises it with file and row
        return 1.0


def try_model(
    judge: Judge, model: Model, labels_to_keep: tuple[str, ...], texts: pa.ChunkedArray
) -> tuple[ModelTrial, pa.Table]:
    """Run a model on texts for some seconds, on its GPU or on one core, as a worker does.

    Returns the trial, and the columns of the answers for the first texts. labels_to_keep: of `classify`.
    """
    loading = time.process_time()
    run = load_model(model, judge.max_tokens)
    clock = time.monotonic if model.form == "kenlm" else on_one_core()  # KenLM runs in another process
    run(texts[:1])  # the first call loads the model
    loading = time.process_time() - loading
    schema = pa.schema(model.added_columns)
    parts, began, spent, done = [schema.empty_table()], time.monotonic(), clock(), 0
    while done < len(texts) and time.monotonic() - began < MODEL_SECONDS:
        parts.append(pa.table(run(texts[done : done + WINDOW]), schema=schema))
        done = min(len(texts), done + WINDOW)
    seconds, answers = (clock() - spent) / max(1, done), pa.concat_tables(parts)
    kept = 1.0
    if labels_to_keep and LABEL in schema.names and done:
        kept = sum(label in labels_to_keep for label in answers.column(LABEL).to_pylist()) / done
    return ModelTrial(done, seconds, kept, loading), answers


def on_one_core() -> Callable[[], float]:
    """Limit models to one core, as workers do, and return the clock of the core or of the GPU.

    Threads that wait for each other take many times as long if other programs run, too.
    """
    torch = sys.modules.get("torch")  # some models do not use torch
    if torch is None:
        return time.process_time
    torch.set_num_threads(1)
    return time.monotonic if torch.cuda.is_available() else time.process_time
