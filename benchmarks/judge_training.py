"""Train each form of cheap judge for two targets, and measure agreement, noise and speed, on one core.

The documents have no formatting: their words are joined by spaces. The first target is the score of a stand-in for
an expensive judge: an encoder of sentences with a linear head, which is trained here to tell two sources apart, on
half of their documents. The second target is whether a document is of the source `peps`.
"""

import re
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpora import batches_of_files, megabytes_of
from benchmarks.harness import Size, Table, TextsFolder, benchmark, shortest_time
from zyda_flows.tasks.quality import fasttext_models, token_models
from zyda_flows.tasks.quality.integer_layers import outputs_of
from zyda_flows.tasks.quality.training import luxical_training, training
from zyda_flows.tasks.quality.training.card import text_of
from zyda_flows.tasks.quality.training.sample import MOST_CHARACTERS
from zyda_flows.tasks.tokens.engine import batches
from zyda_flows.textkernels.fasttext.prediction import probabilities_of

WORD = re.compile(r"\w+")
TAUGHT, OTHERS = "powershell-concepts", "powershell"  # the sources that the head of the stand-in tells apart
SECOND = "peps"


def documents_of(folder: Path) -> tuple[pa.Array, list[str]]:
    """Return the words of the documents of a folder, without repeated texts, and their sources."""
    found = dict[str, str]()
    for source in sorted(path for path in folder.iterdir() if path.is_dir()):
        for batch in batches_of_files(sorted(source.iterdir())):
            found |= {" ".join(WORD.findall(text)): source.name for text in batch.column("text").to_pylist()}
    return pa.array([*found], pa.large_string()), [*found.values()]


def stand_in_scores(vectors: np.ndarray, sources: list[str]) -> np.ndarray:
    """Return the outputs of a head (ridge regression) that was trained with half of the documents of OTHERS."""
    chosen = [i for i, source in enumerate(sources) if source.startswith(OTHERS)][::2]
    expected = np.array([1.0 if sources[i] == TAUGHT else -1.0 for i in chosen])
    taught = vectors[chosen].astype(np.float64)
    head = np.linalg.solve(taught.T @ taught + np.eye(taught.shape[1]), taught.T @ expected)
    return vectors @ head


def speed_of(folder: Path, texts: pa.Array) -> float:
    """Return the megabytes of text that a judge reads in a second of a core, from token ids if it reads these."""
    if (folder / "model.bin").exists():
        run = partial(probabilities_of, fasttext_models.read(folder / "model.bin"), texts)
    else:
        model = token_models.read(folder)
        ids = [model.tokens(batch) for batch in batches(texts)]

        def run() -> None:
            for tokens in ids:
                outputs_of(model.layers, model.body.features(tokens))

    run()  # compiles
    return megabytes_of(texts) / shortest_time(run, 3, time.process_time)


@benchmark("judge_training")
def measure(folder: TextsFolder, tokenizer: str, teacher: str, repeats: Size = 5) -> Iterator[Table]:
    texts, sources = documents_of(folder)
    vectors = luxical_training.teacher_vectors(Path(teacher), texts)
    place_of = {text: place for place, text in enumerate(texts.to_pylist())}
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        is_second = ["yes" if source == SECOND else "no" for source in sources]
        scores = stand_in_scores(vectors, sources)
        pq.write_table(
            pa.table({"text": texts, "score": scores, "second": is_second}), f"{scratch}/t.parquet"
        )

        def vectors_read_before(_: str, some: pa.Array) -> np.ndarray:
            by_start = {text[:MOST_CHARACTERS]: i for text, i in place_of.items()}
            return vectors[[by_start[text] for text in some.to_pylist()]]

        with patch.object(training, "vectors_of_teacher", vectors_read_before):
            for form in training.FORMS:
                row: dict[str, str | float] = {"form": form}
                for name, column in (("stand_in", "score"), ("source", "second")):
                    began, judge = time.monotonic(), Path(scratch) / f"{form}-{name}"
                    settings = training.Training(
                        [f"{scratch}/t.parquet"], [(name, column)], form=form, tokenizer=tokenizer, teacher=teacher,
                        documents=100_000, repeats=int(repeats),
                    )  # fmt: skip
                    (result,) = training.train_judge(judge, settings, lambda _: None)
                    if name == "stand_in":
                        row["stand-in: rank correlation"] = text_of(result.spearman)
                    row[f"{name.replace('_', '-')}: AUC"] = text_of(result.auc)
                    row["seconds of a training"] = (time.monotonic() - began) / int(repeats)
                row["MB/s"] = speed_of(judge, texts)
                rows.append(row)
    yield Table(
        f"Judges of {len(texts):,} documents, {megabytes_of(texts):.1f} MB, {int(repeats)} repeats", rows
    )


if __name__ == "__main__":
    measure.main()
