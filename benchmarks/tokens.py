"""Exact token ids: MB/s of one core and memory, ours and others'; each library in a process of its own.

python -m benchmarks.tokens [FOLDER] [TOKENIZER.JSON ...]
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import awkward
import gigatoken
import numpy as np
import pyarrow as pa
import tiktoken
import zstandard
from tokenizers import Tokenizer

from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, megabytes_of, seconds, show
from zyda_flows.tasks.tokens.engine import Engine

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
SLOW_DOCUMENTS = 300
ROUNDS = 2
Counts = Callable[[pa.LargeStringArray], object]  # gives the number of tokens of each text


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in a byte-level vocabulary (as GPT-2 chose them)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


def by_tiktoken(tokenizer: Tokenizer) -> Counts:
    """Give tiktoken the same vocabulary, without the added tokens and the normaliser that it lacks."""
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    vocabulary = tokenizer.get_vocab(with_added_tokens=False).items()
    ranks = {
        bytes(byte_of[c] for c in token): n for token, n in vocabulary if all(c in byte_of for c in token)
    }
    encoding = tiktoken.Encoding("same", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [len(encoding.encode_ordinary(text)) for text in texts.to_pylist()]


def by_gigatoken(tokenizer: Tokenizer) -> Counts:
    fast = gigatoken.Tokenizer(tokenizer)
    return lambda texts: awkward.num(
        fast.encode_batch(texts.cast(pa.large_binary()).to_pylist(), parallel=False)
    )


LIBRARIES: dict[str, Callable[[Tokenizer], Counts]] = {
    "zyda-flows (fastokens, checked)": lambda tokenizer: Engine(tokenizer).count,
    "gigatoken": by_gigatoken,
    "tokenizers": lambda tokenizer: Engine(tokenizer, is_exact=True).count,
    "tiktoken, same vocabulary": by_tiktoken,
}
SLOW = ("tokenizers", "tiktoken, same vocabulary")


def load(path: str) -> Tokenizer:
    content = Path(path).read_bytes()
    return Tokenizer.from_str((zstandard.decompress(content) if path.endswith(".zst") else content).decode())


def some_of(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    return texts.take(pa.array(np.linspace(0, len(texts) - 1, min(len(texts), SLOW_DOCUMENTS)).astype(int)))


def measure(library: str, path: str, folder: str) -> dict[str, float]:
    """Time one library: the first pass over the text, and the best of the next; and compare it with tokenizers."""
    texts, tokenizer = load_texts(Path(folder)), load(path)
    few = some_of(texts)
    given = few if library in SLOW else texts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count, size = LIBRARIES[library](tokenizer), megabytes_of(given)
    cold = size / seconds(lambda: count(given), 1)
    warm = size / seconds(lambda: count(given))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    exact = np.array(
        [len(one) for one in tokenizer.encode_batch_fast(few.to_pylist(), add_special_tokens=False)]
    )
    return {
        "cold": cold,
        "warm": warm,
        "mib": grown / 1024,
        "wrong": float(np.mean(np.array(count(few)) != exact)),
    }


def apart(library: str, path: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.tokens", "--one", library, path, folder]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else str(DEMO)
    for path in sys.argv[2:] or [str(REPOSITORY / "recipes/models/demo-tokenizer.json")]:
        libraries = [
            name
            for name in LIBRARIES
            if name != SLOW[1] or "ByteLevel" in load(path).pre_tokenizer.__repr__()[:20]
        ]
        rounds = [{name: apart(name, path, folder) for name in libraries} for _ in range(ROUNDS)]
        rows = [
            {
                "ids by": name,
                "cold, MB/s": max(one[name]["cold"] for one in rounds),
                "warm, MB/s": max(one[name]["warm"] for one in rounds),
                "memory, MiB": max(one[name]["mib"] for one in rounds),
                "documents with other counts": f"{rounds[0][name]['wrong']:.1%}",
            }
            for name in libraries
        ]
        show(f"token ids of {Path(path).name}, one core", rows)


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    as_workers_are()
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main()
