"""Exact token counts: MB/s of one core, ours and others'.

python -m benchmarks.tokens [FOLDER] [TOKENIZER.JSON]
"""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import tiktoken
from tokenizers import Tokenizer

from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, megabytes_of, seconds, show
from tasks.tokens.byte_level import byte_characters, character_classes, why_slow
from tasks.tokens.counter import Counter

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
SLOW_DOCUMENTS = 300


def as_tiktoken(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """Give tiktoken the same vocabulary, without the added tokens and the normaliser that it lacks."""
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    ranks = {
        bytes(byte_of[c] for c in token): number
        for token, number in vocabulary.items()
        if all(c in byte_of for c in token)
    }
    return tiktoken.Encoding("same", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = load_texts(Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO)
    path = sys.argv[2] if len(sys.argv) > 2 else str(REPOSITORY / "recipes/models/demo-tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    if reason := why_slow(tokenizer):
        raise SystemExit(f"{path}: {reason}")
    classes = character_classes(tokenizer)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, SLOW_DOCUMENTS).astype(int)))
    few_texts, few_size = few.to_pylist(), megabytes_of(few)
    Counter(tokenizer, classes).count(few)
    cold = Counter(tokenizer, classes)
    size = megabytes_of(texts)
    counts = cold.count_by_library(few_texts)
    encoding = as_tiktoken(tokenizer)
    wrong = np.mean([len(encoding.encode_ordinary(t)) != n for t, n in zip(few_texts, counts, strict=True)])
    speeds = {
        "zyda-flows, first sight of the text": size / seconds(lambda: cold.count(texts), 1),
        "zyda-flows, every word seen before": size / seconds(lambda: cold.count(texts)),
        f"tiktoken (wrong on {wrong:.0%} of the documents)": few_size
        / seconds(lambda: [len(encoding.encode_ordinary(text)) for text in few_texts], 1),
        "tokenizers": few_size / seconds(lambda: cold.count_by_library(few_texts), 1),
    }
    if not np.array_equal(cold.count(few), counts):
        raise SystemExit("our counts are not those of tokenizers")
    ours = next(iter(speeds.values()))
    show(
        "token counts, MB/s of one core",
        [
            {"what": name, "MB/s": speed, "zyda-flows is faster by": ours / speed}
            for name, speed in speeds.items()
        ],
    )


if __name__ == "__main__":
    as_workers_are()
    main()
