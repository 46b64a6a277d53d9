"""Measure exact token ids: MB/s of one core and memory, ours and of other libraries, each in a new process."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import awkward
import gigatoken
import numpy as np
import pyarrow as pa
import typer
import zstandard
from tokenizers import Tokenizer

from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import (
    DEMO,
    DEMO_TOKENIZER,
    Table,
    TextsFolder,
    benchmark,
    in_new_process,
    peak_mib,
    shortest_time,
)
from zyda_flows.tasks.tokens.engine import TokenEngine

FEW = 300  # documents for the slow library
ROUNDS = 2
Count = Callable[[pa.LargeStringArray], object]  # returns the number of tokens of each text


def by_gigatoken(tokenizer: Tokenizer) -> Count:
    fast = gigatoken.Tokenizer(tokenizer)
    return lambda texts: awkward.num(
        fast.encode_batch(texts.cast(pa.large_binary()).to_pylist(), parallel=False)
    )


LIBRARIES: dict[str, Callable[[Tokenizer], Count]] = {
    "zyda-flows (fastokens, checked)": lambda tokenizer: TokenEngine(tokenizer).count,
    "gigatoken": by_gigatoken,
    "tokenizers": lambda tokenizer: TokenEngine(tokenizer, is_exact=True).count,
}
SLOW = "tokenizers"


def load_tokenizer(path: Path) -> Tokenizer:
    content = path.read_bytes()
    return Tokenizer.from_str((zstandard.decompress(content) if path.suffix == ".zst" else content).decode())


def measure_library(library: str, path: Path, folder: Path) -> dict[str, float]:
    """Time the first pass over the texts, and the fastest later pass; compare the counts with tokenizers'."""
    texts, tokenizer = load_texts(folder), load_tokenizer(path)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, min(len(texts), FEW)).astype(int)))
    chosen = few if library == SLOW else texts
    before = peak_mib()
    count, size = LIBRARIES[library](tokenizer), megabytes_of(chosen)
    cold = size / shortest_time(lambda: count(chosen), 1)
    warm = size / shortest_time(lambda: count(chosen))
    grown = peak_mib() - before
    exact = [
        len(encoded) for encoded in tokenizer.encode_batch_fast(few.to_pylist(), add_special_tokens=False)
    ]
    wrong = float(np.mean(np.array(count(few)) != np.array(exact)))
    return {"cold, MB/s": cold, "warm, MB/s": warm, "memory, MiB": grown, "wrong": wrong}


@benchmark("tokens")
def measure(
    folder: TextsFolder = DEMO,
    tokenizers: Annotated[list[Path], typer.Argument(help="Files tokenizer.json, or tokenizer.json.zst.")] = [  # noqa: B006
        DEMO_TOKENIZER
    ],
) -> Iterator[Table]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for path in tokenizers:
        rounds = [
            {name: in_new_process(partial(measure_library, name, path, folder)) for name in LIBRARIES}
            for _ in range(ROUNDS)
        ]
        rows = []
        for name in LIBRARIES:
            figures = {key: max(results[name][key] for results in rounds) for key in rounds[0][name]}
            wrong = figures.pop("wrong")
            rows.append({"library": name, **figures, "documents with other counts": f"{wrong:.1%}"})
        yield Table(f"token ids of {path.name}, one core", rows)


if __name__ == "__main__":
    measure.main()
