"""The trial of judges: shares of documents that enter a judge, that it reads and that it keeps."""

from time import process_time

import fasttext
import numpy as np
import pyarrow as pa
import pytest
from language_models import TEXTS, train_model
from numba.core.event import trigger_event

from zyda_flows.tasks.forecast import models
from zyda_flows.tasks.forecast.models import device_seconds, try_judges
from zyda_flows.tasks.quality.forms import judged_model
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.stage.cost import SourceSize


def test_compiling_kernels_is_no_part_of_loading_a_model(tmp_path, monkeypatch):
    compiled = []

    def load_cold(*_):
        with trigger_event("numba:compile"):
            compiled.append(len({hash(str(number)) for number in range(300_000)}))
        return lambda texts: [pa.array([0.5] * len(texts), pa.float32())] * len(schema)

    judge = Judge(name="a", model=str(train_model(tmp_path, ("hq", "cc"))))
    model = judged_model(judge)
    schema = [pa.field("a", pa.float32())]
    monkeypatch.setattr(type(model), "added_columns", schema)
    monkeypatch.setattr(models, "load_model", load_cold)
    started = process_time()
    trial, _ = models.try_model(judge, model, pa.chunked_array([["one", "two"]]))
    assert compiled
    assert trial.loading < (process_time() - started) / 2


def between_scores(scores, share):
    """Return a number about the quantile of scores that differs from all of them: training with threads varies."""
    ordered = np.sort(scores)
    gaps = np.flatnonzero(np.diff(ordered) > 2e-5)
    place = gaps[np.abs(gaps - share * len(scores)).argmin()]
    return (ordered[place] + ordered[place + 1]) / 2


def test_shares_of_judges_are_those_of_the_library_and_of_numpy(tmp_path):
    path = train_model(tmp_path, ("hq", "cc"))
    texts = [text.replace("\n", " ") for language in TEXTS.values() for text in language]
    library = fasttext.load_model(str(path))
    scores = np.array([dict(zip(*library.predict(text, k=-1), strict=True))["__label__hq"] for text in texts])
    low, middle, high = (between_scores(scores, share) for share in (0.2, 0.5, 0.7))
    judges = [
        Judge(name="a", model=str(path), keep=f"a_hq >= {low:.6f}"),
        Judge(
            name="b",
            model=str(path),
            only_if=f"a_hq < {high:.6f}",
            keep=f"b_hq IS NULL OR b_hq >= {middle:.6f}",
        ),
        Judge(name="c", model=str(path), only_if="missing > 1", keep="a_hq < 0"),
        Judge(name="d", model=str(path)),
    ]
    source = Source(name="s", files=("x.parquet",))
    judged = [judged_model(judge) for judge in judges]
    trials = try_judges(source, judged, judges, pa.table({"text": pa.array(texts, pa.large_string())}))
    entering_b = scores[scores >= low]
    entering_c = entering_b[entering_b >= middle]
    found = {name: (trial.entering, trial.judged, trial.kept) for name, trial in trials.items()}
    expected = {
        "a": (1, 1, len(entering_b) / len(scores)),
        "b": (len(entering_b) / len(scores), (entering_b < high).mean(), len(entering_c) / len(entering_b)),
        "c": (
            len(entering_c) / len(scores),
            1,
            0,
        ),  # without the column, all documents are expected to be read
        "d": (0, 1, 1),
    }
    for name, shares in expected.items():
        assert found[name] == pytest.approx(shares, abs=1e-9), name
    size = SourceSize(1000, 1e6, 1, 0.5, (), models=trials)
    seconds = device_seconds({"s": size})
    assert seconds["s, judge b"] == pytest.approx(trials["b"].seconds * 500 * np.prod(expected["b"][:2]))
    assert device_seconds({"s": size}, without_only_if=True).keys() == {"s, judge b"}
