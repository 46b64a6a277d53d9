"""Measure constants that were chosen by measuring: the time with other values, as a multiple of the time with ours.

Each value is tried in a new process, on one core, with compiled code of its own.
"""

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.clusters import cluster_keys, write_keys
from benchmarks.corpora import batches_of_files, load_texts
from benchmarks.harness import (
    DEMO,
    DEMO_TOKENIZER,
    Table,
    TextsFolder,
    TokenizerFile,
    benchmark,
    in_new_process,
    shortest_time,
)
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import band_keys
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.engine import TokenEngine

DOCUMENTS = 4_000_000  # whose band keys are clustered
ROUNDS = 3  # of all values in turn: the speed of a machine changes with time


@dataclass(frozen=True)
class Trial:
    """One value of a constant, and the inputs of the work that is timed with it."""

    module: str
    constant: str
    value: int
    folder: Path
    tokenizer: Path


def signatures(trial: Trial) -> Callable[[], object]:
    return partial(band_keys, load_texts(trial.folder), MinHashRound())


def token_counts(trial: Trial) -> Callable[[], object]:
    return partial(TokenEngine(Tokenizer.from_file(str(trial.tokenizer))).count, load_texts(trial.folder))


def sketches_while_reading(trial: Trial) -> Callable[[], object]:
    def sketch_batches() -> None:
        for batch in batches_of_files([f"{trial.folder}/**/*.parquet"]):
            band_keys(batch.column("text"), MinHashRound())

    return sketch_batches


def clusters(trial: Trial) -> Callable[[], object]:
    folder = Folder(tempfile.mkdtemp(dir=os.environ["TMPDIR"]))
    return partial(cluster_keys, folder, write_keys(folder, DOCUMENTS), DOCUMENTS)


# (module, constant): the work, and the values; the first value is ours.
TRIED = {
    ("textkernels.sketch", "SCRATCH_HASHES"): (signatures, [1 << n for n in (14, 10, 12, 16, 18)]),
    ("tasks.tokens.engine", "BATCH_BYTES"): (token_counts, [1 << n for n in (22, 16, 19, 25)]),
    ("tasks.sources.formats.parquet", "BATCH_ROWS"): (sketches_while_reading, [1024, 64, 256, 4096, 16384]),
    ("tasks.signatures.bands", "GROUP_ROWS"): (clusters, [1 << n for n in (16, 13, 19)]),
    ("tasks.signatures.bands", "RANGE_ROWS"): (clusters, [1 << n for n in (23, 19, 21)]),
}


def time_trial(prepare: Callable[[Trial], Callable[[], object]], trial: Trial) -> float:
    """Set the constant before code is compiled with it; return the shortest time of the work."""
    setattr(importlib.import_module(f"zyda_flows.{trial.module}"), trial.constant, trial.value)
    work = prepare(trial)
    work()
    return shortest_time(work)


def time_in_new_process(prepare: Callable[[Trial], Callable[[], object]], trial: Trial) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"NUMBA_CACHE_DIR": f"{scratch}/numba", "TMPDIR": scratch}
        return in_new_process(partial(time_trial, prepare, trial), environment)


@benchmark("constants")
def measure(folder: TextsFolder = DEMO, tokenizer: TokenizerFile = DEMO_TOKENIZER) -> Iterator[Table]:
    rows = []
    for (module, constant), (prepare, values) in TRIED.items():
        trials = [Trial(module, constant, value, folder, tokenizer) for value in values]
        rounds = [[time_in_new_process(prepare, trial) for trial in trials] for _ in range(ROUNDS)]
        times = [min(times_of_value) for times_of_value in zip(*rounds, strict=True)]
        others = ", ".join(f"{v:,}: {t / times[0]:.2f}" for v, t in zip(values[1:], times[1:], strict=True))
        rows.append({
            "constant": f"{module}.{constant} = {values[0]:,}", "work": prepare.__name__.replace("_", " "),
            "time as a multiple of ours": others,
        })  # fmt: skip
    yield Table("constants", rows)


if __name__ == "__main__":
    measure.main()
