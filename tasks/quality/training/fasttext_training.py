"""Train a judge of fastText with its own library. Scores become two labels, above and below their median.

One thread, because several write the same weights at the same time, in any order. A library with one thread gives
random values to the first tenth of a matrix only; the rest is as the system gave the memory, so the training runs
in a new process, whose memory is zero. It is repeated with a lower rate if the library reports NaN.
"""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.quality.training.measures import is_high
from zyda_flows.tasks.quality.training.targets import TargetColumn

LABELS_OF_SCORES = ("low", "high")
PREFIX = "__label__"
OPTIONS: dict[str, Any] = {
    "dim": 64,
    "bucket": 200_000,
    "wordNgrams": 2,
    "minCount": 2,
    "epoch": 12,
    "thread": 1,
}
RATES = (0.3, 0.1, 0.03)
PROGRAM = """
import json, sys, fasttext
lines, file, options = json.load(sys.stdin)
fasttext.train_supervised(lines, verbose=0, **options).save_model(file)
"""


def missing_libraries() -> str:
    return "" if find_spec("fasttext") else "fasttext not installed; pip install 'zyda-flows[fasttext]'"


def train(
    folder: Path, texts: pa.LargeStringArray, target: TargetColumn, seed: int, _: object = None
) -> Path:
    """Train a judge and write its file into a folder; return the file. Raises BadRequest."""
    labels = target.labels or LABELS_OF_SCORES
    values = target.values if target.labels else is_high(target.values)
    if invalid := [label for label in labels if label.split() != [label]]:
        raise BadRequest(
            f"target {target.name}: the label {invalid[0]!r} has white space, or is empty; rename it"
        )
    folder.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as lines:
        for text, value in zip(texts, values, strict=True):
            words = " ".join(text.as_py().split()).replace(PREFIX, "_label_")
            lines.write(f"{PREFIX}{labels[int(value)]} {words}\n")
        lines.flush()
        run(lines.name, folder / "model.bin", seed)
    return folder / "model.bin"


def run(lines: str, file: Path, seed: int) -> None:
    """Train with the lines of a file in another process, and write the model. Raises BadRequest."""
    for rate in RATES:
        given = json.dumps([lines, str(file), {**OPTIONS, "lr": rate, "seed": seed}]).encode()
        done = subprocess.run(  # noqa: S603 (this Python, and code of ours)
            [sys.executable, "-P", "-c", PROGRAM], input=given, capture_output=True, check=False
        )
        if done.returncode == 0:
            return
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"])[
            -1
        ]
        if "NaN" not in reason:
            break
    raise BadRequest(f"fastText cannot be trained with these documents: {reason}")
