"""Measure fastText models for quality on one core, ours beside fastText's own library in the same run.

The models are stand-ins, trained here on the first half of the texts to tell their sources apart, in the forms of
published models: two labels, 100 columns and word bigrams, as DCLM's model has.
"""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fasttext
import numpy as np

from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import DEMO, Size, Table, TextsFolder, benchmark, shortest_time
from zyda_flows.textkernels.fasttext.file import read_model
from zyda_flows.textkernels.fasttext.prediction import probabilities_of

MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "dense": ({}, False),
    "quantised": ({}, True),
    "hierarchical softmax": ({"loss": "hs"}, False),
    "one-vs-all": ({"loss": "ova"}, False),
    "with n-grams of 3 to 5 characters": ({"minn": 3, "maxn": 5}, False),
}
REPEAT = 5
THREADS = 10  # each initialises a tenth of a matrix; with fewer, the library leaves the rest to chance
LINE = 300  # words of a line of the training


def trained(lines: Path, file: Path, arguments: dict[str, Any], buckets: int, *, quantised: bool) -> Any:
    """Train a model and save it; return it as the library reads it."""
    usual = {
        "dim": 100,
        "wordNgrams": 2,
        "bucket": buckets,
        "thread": THREADS,
        "lr": 0.1,
        "epoch": 2,
        "verbose": 0,
    }
    model = fasttext.train_supervised(str(lines), **usual | arguments)
    if quantised:
        model.quantize(str(lines), qnorm=True, thread=THREADS, verbose=0)
    model.save_model(str(file))
    return fasttext.load_model(str(file))


def write_lines(texts: list[str], file: Path) -> None:
    """Write labelled lines: the longer half of the texts has one label, the other half another."""
    middle = float(np.median([len(text) for text in texts]))
    with file.open("w") as lines:
        for text in texts[::2]:
            words = text.split()
            for start in range(0, min(len(words), 10 * LINE), LINE):
                label = "long" if len(text) > middle else "short"
                lines.write(f"__label__{label} {' '.join(words[start : start + LINE])}\n")


def answers_of(model: Any, lines: list[str]) -> list[dict[str, float]]:
    return [dict(zip(*model.predict(line, k=-1), strict=True)) for line in lines]


@benchmark("fasttext_models")
def measure(folder: TextsFolder = DEMO, megabytes: Size = 20, buckets: Size = 200_000) -> Iterator[Table]:
    texts = load_texts(folder, int(megabytes))
    size, lines = megabytes_of(texts), [text.replace("\n", " ") for text in texts.to_pylist()]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        write_lines(lines, Path(scratch) / "lines.txt")
        for name, (arguments, quantised) in MODELS.items():
            file = Path(scratch) / "model"
            theirs = trained(Path(scratch) / "lines.txt", file, arguments, int(buckets), quantised=quantised)
            model = read_model(file.read_bytes())
            ours = probabilities_of(model, texts)  # compiles
            furthest = max(
                abs(float(ours[i, j]) - answer.get(f"__label__{label}", 0.0))
                for i, answer in enumerate(answers_of(theirs, lines))
                for j, label in enumerate(model.labels)
            )
            spent = shortest_time(partial(probabilities_of, model, texts), REPEAT, time.process_time)
            library = shortest_time(partial(answers_of, theirs, lines), 2, time.process_time)
            rows.append(
                {"model": name, "MB/s": size / spent, "fastText, MB/s": size / library,
                 "times": library / spent, "largest difference": f"{furthest:.1e}"}
            )  # fmt: skip
    yield Table(f"Probabilities of fastText models, {len(texts):,} documents, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    measure.main()
