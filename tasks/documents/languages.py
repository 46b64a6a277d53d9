"""The language of each text, by a fastText model, and the documents to remove for their language."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.language_rules import SCORE, read_language_rules
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.steps.language_id import LanguageId
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files, read_planned_file
from zyda_flows.tasks.storage.records import Record

if TYPE_CHECKING:
    from zyda_flows.textkernels.fasttext.model import FasttextModel

RULE = "language_id"
LANGUAGE, PROBABILITY, SCRIPT = "language", "probability", "script"
OTHER, DOUBTFUL = f"{RULE}.language", f"{RULE}.probability"
RULES = {
    OTHER: "its language is not one of the languages to keep",
    DOUBTFUL: "its language is one to keep, but not probable enough",
}
PUBLISHED = {"language": LANGUAGE, "language_probability": PROBABILITY, "language_script": SCRIPT}
TYPES = {"language": pa.string(), "language_probability": pa.float64(), "language_script": pa.string()}
NONE = "(none)"
VERSION = "1"  # raised when the identification of languages changes


class PlannedLanguages(Record):
    """The settings of a step, with the file of its model as it was listed."""

    model: PlannedFile
    keep: dict[str, float]
    version: str = VERSION


def plan_languages(settings: LanguageId) -> PlannedLanguages:
    """Look up a step's model. Raises BadInput for an invalid model and for languages that it does not know."""
    files = planned_files(f"{RULE}.model", (settings.model,), most=limits().model_bytes)
    if len(files) != 1:
        raise BadInput(f"{RULE}.model: {settings.model} names {len(files):,} files, expected one")
    labels, keep = model_of(files[0]).labels, kept_languages(settings)
    if unknown := [name for name in keep if name not in labels]:
        near = ([label for label in labels if label[:2] == unknown[0][:2]] or [*labels])[:5]
        more = f" and {len(labels) - len(near):,} others" if len(labels) > len(near) else ""
        raise BadInput(
            f"{RULE}.keep: the model has no language {unknown[0]!r}; it has {', '.join(near)}{more}"
        )
    return PlannedLanguages(model=files[0], keep=keep)


def kept_languages(settings: LanguageId) -> dict[str, float]:
    """Return the languages to keep, each with its lowest accepted probability. Raises BadInput."""
    if isinstance(settings.keep, dict):
        return settings.keep
    languages = read_language_rules(f"{RULE}.keep", settings.keep)
    if missing := [name for name, rules in languages.items() if rules.score is None]:
        raise BadInput(f"{RULE}.keep: the file of {missing[0]} has no {SCORE}; add it")
    return {name: float(rules.score or 0) for name, rules in languages.items()}


@lru_cache(maxsize=2)
def model_of(file: PlannedFile) -> "FasttextModel":
    """Read a model. Raises BadInput for a file that is not a model or has changed."""
    from zyda_flows.textkernels.fasttext.file import read_model

    try:
        return read_model(read_planned_file(f"{RULE}.model", file, limits().model_bytes))
    except ValueError as error:
        raise BadInput(f"{RULE}.model, file {file.listed.url}: {error}") from error


def language_columns(planned: PlannedLanguages, texts: pa.LargeStringArray) -> dict[str, pa.Array]:
    """Return the language of each text, (n,), its probability and the script of most of its letters (ISO 15924).

    If languages are to keep, also a column for each of RULES: a note for texts that break it, else null.
    """
    from zyda_flows.textkernels.fasttext.prediction import predict
    from zyda_flows.textkernels.texts.scripts import script_of_texts

    model = model_of(planned.model)
    places, probabilities = (values[:, 0] for values in predict(model, texts, k=1))
    labels = pa.array(model.labels, pa.string())
    is_blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0).to_numpy(zero_copy_only=False)
    is_known = (places >= 0) & ~is_blank  # a model returns a label for a blank text, too
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
