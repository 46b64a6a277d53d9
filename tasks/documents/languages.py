"""The language of each text, by a model of fastText's, and which documents go for theirs."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.language_rules import SCORE, language_rules
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.steps.language_id import LanguageId
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files, read_planned_file
from zyda_flows.tasks.storage.records import Record

if TYPE_CHECKING:
    from zyda_flows.textkernels.fasttext.model import Model

RULE = "language_id"
LANGUAGE, PROBABILITY, SCRIPT = "language", "probability", "script"
OTHER, DOUBTFUL = f"{RULE}.language", f"{RULE}.probability"
RULES = {
    OTHER: "its language is none of those to keep",
    DOUBTFUL: "its language is one to keep, and is not probable enough",
}
PUBLISHED = {"language": LANGUAGE, "language_probability": PROBABILITY, "language_script": SCRIPT}
TYPES = {"language": pa.string(), "language_probability": pa.float64(), "language_script": pa.string()}
NONE = "(none)"
VERSION = "1"  # raised when a text gets another language


class PlannedLanguages(Record):
    """What a step says of languages, with the file of its model as it was listed."""

    model: PlannedFile
    keep: dict[str, float]
    version: str = VERSION


def planned_languages(said: LanguageId) -> PlannedLanguages:
    """Find a step's model. Raises BadInput where it is none, or knows none of the languages to keep."""
    files = planned_files(f"{RULE}.model", (said.model,), most=limits().model_bytes)
    if len(files) != 1:
        raise BadInput(f"{RULE}.model: {said.model} names {len(files):,} files, expected one")
    labels, keep = model_of(files[0]).labels, kept_languages(said)
    if unknown := [name for name in keep if name not in labels]:
        near = ([label for label in labels if label[:2] == unknown[0][:2]] or [*labels])[:5]
        more = f" and {len(labels) - len(near):,} others" if len(labels) > len(near) else ""
        raise BadInput(
            f"{RULE}.keep: the model knows no language {unknown[0]!r}; it has {', '.join(near)}{more}"
        )
    return PlannedLanguages(model=files[0], keep=keep)


def kept_languages(said: LanguageId) -> dict[str, float]:
    """Return the languages to keep, each with its least probability. Raises BadInput."""
    if isinstance(said.keep, dict):
        return said.keep
    found = language_rules(f"{RULE}.keep", said.keep)
    if without := [name for name, rules in found.items() if rules.score is None]:
        raise BadInput(f"{RULE}.keep: the file of {without[0]} has no {SCORE}")
    return {name: float(rules.score or 0) for name, rules in found.items()}


@lru_cache(maxsize=2)
def model_of(file: PlannedFile) -> "Model":
    """Read a model. Raises BadInput where it is none, or has changed."""
    from zyda_flows.textkernels.fasttext.file import read_model

    try:
        return read_model(read_planned_file(f"{RULE}.model", file, limits().model_bytes))
    except ValueError as error:
        raise BadInput(f"{RULE}.model, file {file.listed.url}: {error}") from error


def judged_languages(planned: PlannedLanguages, texts: pa.LargeStringArray) -> dict[str, pa.Array]:
    """Return the language of each text, (n,), how probable it is, and what breaks each of RULES, null elsewhere.

    Its script, too, as ISO 15924 names it: that of most of its letters.
    """
    from zyda_flows.textkernels.fasttext.prediction import predict
    from zyda_flows.textkernels.texts.scripts import script_of_texts

    model = model_of(planned.model)
    places, probabilities = (found[:, 0] for found in predict(model, texts, 1))
    labels = pa.array(model.labels, pa.string())
    is_blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0).to_numpy(zero_copy_only=False)
    is_known = (places >= 0) & ~is_blank  # a model has a label for no text, too
    language = labels.take(pa.array(np.maximum(places, 0), mask=~is_known))
    probability = np.where(is_known, np.minimum(probabilities.astype(np.float64), 1.0), 0.0)
    columns = {
        LANGUAGE: language,
        PROBABILITY: pa.array(probability, mask=~is_known),
        SCRIPT: script_of_texts(texts),
    }
    if not planned.keep:
        return columns
    least = np.array([planned.keep.get(label, np.inf) for label in model.labels] or [np.inf])
    wanted = np.where(is_known, least[np.maximum(places, 0)], np.inf)
    notes = [
        f"{name or NONE} {p:.2f}" for name, p in zip(language.to_pylist(), probability.tolist(), strict=True)
    ]
    is_other, is_doubtful = np.isinf(wanted), ~np.isinf(wanted) & (probability < wanted)
    return columns | {
        OTHER: pa.array(notes, pa.string(), mask=~is_other),
        DOUBTFUL: pa.array(notes, pa.string(), mask=~is_doubtful),
    }
