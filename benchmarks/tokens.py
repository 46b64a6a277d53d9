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
import tiktoken
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

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
FEW = 300  # documents for the slow libraries
ROUNDS = 2
Count = Callable[[pa.LargeStringArray], object]  # returns the number of tokens of each text


def byte_characters() -> list[str]:
    """Return the character of each byte in a byte-level vocabulary, as defined by GPT-2."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


def by_tiktoken(tokenizer: Tokenizer) -> Count:
    """Give tiktoken the same vocabulary, without added tokens and normaliser, which it does not have."""
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    vocabulary = tokenizer.get_vocab(with_added_tokens=False).items()
    ranks = {
        bytes(byte_of[c] for c in token): n for token, n in vocabulary if all(c in byte_of for c in token)
    }
    encoding = tiktoken.Encoding("same", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [len(encoding.encode_ordinary(text)) for text in texts.to_pylist()]


def by_gigatoken(tokenizer: Tokenizer) -> Count:
    fast = gigatoken.Tokenizer(tokenizer)
    return lambda texts: awkward.num(
        fast.encode_batch(texts.cast(pa.large_binary()).to_pylist(), parallel=False)
    )


TIKTOKEN = "tiktoken, same vocabulary"
LIBRARIES: dict[str, Callable[[Tokenizer], Count]] = {
    "zyda-flows (fastokens, checked)": lambda tokenizer: TokenEngine(tokenizer).count,
    "gigatoken": by_gigatoken,
    "tokenizers": lambda tokenizer: TokenEngine(tokenizer, is_exact=True).count,
    TIKTOKEN: by_tiktoken,
}
SLOW = ("tokenizers", TIKTOKEN)


def load_tokenizer(path: Path) -> Tokenizer:
    content = path.read_bytes()
    return Tokenizer.from_str((zstandard.decompress(content) if path.suffix == ".zst" else content).decode())


def measure_library(library: str, path: Path, folder: Path) -> dict[str, float]:
    """Time the first pass over the texts, and the fastest later pass; compare the counts with tokenizers'."""
    texts, tokenizer = load_texts(folder), load_tokenizer(path)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, min(len(texts), FEW)).astype(int)))
    chosen = few if library in SLOW else texts
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
        is_of_bytes = "ByteLevel" in repr(load_tokenizer(path).pre_tokenizer)[:20]
        libraries = [name for name in LIBRARIES if is_of_bytes or name != TIKTOKEN]
        rounds = [
            {name: in_new_process(partial(measure_library, name, path, folder)) for name in libraries}
            for _ in range(ROUNDS)
        ]
        rows = []
        for name in libraries:
            figures = {key: max(results[name][key] for results in rounds) for key in rounds[0][name]}
            wrong = figures.pop("wrong")
            rows.append({"library": name, **figures, "documents with other counts": f"{wrong:.1%}"})
        yield Table(f"token ids of {path.name}, one core", rows)


if __name__ == "__main__":
    measure.main()
