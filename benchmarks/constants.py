"""Constants that were chosen by measuring: what their other values cost, as a multiple of the time of ours.

    python -m benchmarks.constants [FOLDER] [TOKENIZER.JSON]

Each value is tried in a process of its own, on one core, and compiled anew where compiled code has it.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.clusters import find_clusters, write_keys
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, seconds, show
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.signatures.keys import band_keys
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.engine import Engine

DOCUMENTS = 4_000_000  # of whose band keys clusters are made
REPEATS = 3
ROUNDS = 3  # of all values in turn, for machines have slow minutes


@dataclass(frozen=True)
class Trial:
    """One value of a constant, and the work that is timed with it."""

    module: str
    constant: str
    value: int
    work: str
    folder: str
    tokenizer: str


# Ours first.
TRIED = {
    ("zyda_flows.textkernels.sketch", "SCRATCH_HASHES", "signatures"): [1 << n for n in (14, 10, 12, 16, 18)],
    ("zyda_flows.tasks.tokens.engine", "BATCH_BYTES", "token counts"): [1 << n for n in (22, 16, 19, 25)],
    ("zyda_flows.tasks.sources.formats.parquet", "BATCH_ROWS", "sketches while reading"): [
        1024,
        64,
        256,
        4096,
        16384,
    ],
    ("zyda_flows.tasks.signatures.bands", "GROUP_ROWS", "clusters"): [1 << n for n in (16, 13, 19)],
    ("zyda_flows.tasks.signatures.bands", "RANGE_ROWS", "clusters"): [1 << n for n in (23, 19, 21)],
}


def signatures(trial: Trial) -> Callable[[], object]:
    return partial(band_keys, load_texts(Path(trial.folder)), MinHashRound())


def token_counts(trial: Trial) -> Callable[[], object]:
    return partial(Engine(Tokenizer.from_file(trial.tokenizer)).count, load_texts(Path(trial.folder)))


def sketches_of_what_is_read(trial: Trial) -> Callable[[], object]:
    """Read Parquet, and sketch every batch as it comes."""
    source = Source(name="text", files=(f"{trial.folder}/**/*.parquet",))
    files = [inspect("text", file, "text", 1 << 30, may_be_bad=True).file for file in list_files(source)]

    def work() -> None:
        for file in files:
            for piece in file.pieces:
                for chunk in read("text", file, piece, "text"):
                    for batch in chunk.table.to_batches():
                        band_keys(batch.column("text"), MinHashRound())

    return work


def clusters(trial: Trial) -> Callable[[], object]:
    folder = Folder(tempfile.mkdtemp(dir=os.environ["TMPDIR"]))
    return partial(find_clusters, folder, write_keys(folder, DOCUMENTS), DOCUMENTS)


WORKS = {
    "signatures": signatures,
    "token counts": token_counts,
    "sketches while reading": sketches_of_what_is_read,
    "clusters": clusters,
}


def try_it(trial: Trial) -> float:
    """Give the constant its value before anything is compiled with it; return the shortest time."""
    setattr(importlib.import_module(trial.module), trial.constant, trial.value)
    work = WORKS[trial.work](trial)
    work()
    return seconds(work, REPEATS)


def apart(trial: Trial) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{scratch}/numba", "TMPDIR": scratch}
        command = [sys.executable, "-m", "benchmarks.constants", json.dumps(asdict(trial))]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else str(DEMO)
    tokenizer = sys.argv[2] if len(sys.argv) > 2 else str(REPOSITORY / "recipes/models/demo-tokenizer.json")
    rows = list[dict[str, str | float]]()
    for (module, constant, work), values in TRIED.items():
        trials = [Trial(module, constant, value, work, folder, tokenizer) for value in values]
        rounds = [[apart(trial) for trial in trials] for _ in range(ROUNDS)]
        times = [min(of_value) for of_value in zip(*rounds, strict=True)]
        others = ", ".join(f"{v:,}: {t / times[0]:.2f}" for v, t in zip(values[1:], times[1:], strict=True))
        rows.append({"constant": f"{module}.{constant} = {values[0]:,}", "work": work, "times ours": others})
    show("constants", rows)


if __name__ == "__main__":
    as_workers_are()
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        print(try_it(Trial(**json.loads(sys.argv[1]))))
    else:
        main()
