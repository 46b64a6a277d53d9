"""A tokenizer, tried in a process of its own: one that asks for too much memory ends the process that uses it."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from zyda_flows.tasks.limits import limits

# It has this much to say: `tokenizers` and nothing of ours is imported in that process.
TRY = """
import json, sys
from tokenizers import Tokenizer
written, texts = json.load(sys.stdin)
tokenizer = Tokenizer.from_str(written)
tokenizer.encode(texts[0], add_special_tokens=False)
tokenizer.no_padding()
tokenizer.no_truncation()
for text in texts:
    print(len(tokenizer.encode(text, add_special_tokens=False).ids))
"""
TEXTS = ["The quick brown fox jumps over the lazy dog.", "0123456789 \t\n", "Füße, café, 漢字, हिन्दी, 🙂"]
MOST_TEXTS, LONGEST = 1000, 1000


def fault_of_tokenizer(written: str) -> str:
    """Say why a tokenizer.json cannot be used, or nothing. What its own library says of it is no fault here."""
    return tried(written, limits().tokenizer_memory, limits().tokenizer_seconds, limits().tokenizer_growth)


@lru_cache(maxsize=16)
def tried(written: str, memory: int, seconds: int, growth: int) -> str:
    """Try a tokenizer with texts, those that it replaces among them, with bounds of memory and CPU time."""
    with suppress(ValueError):
        settings = json.loads(written)
        texts = [
            *TEXTS,
            *dict.fromkeys(written_texts(settings.get("normalizer"), settings.get("pre_tokenizer"))),
        ]
        return fault_with([text[:LONGEST] for text in texts[:MOST_TEXTS]], written, memory, seconds, growth)
    return ""


def fault_with(texts: list[str], written: str, memory: int, seconds: int, growth: int) -> str:
    def lower_limits() -> None:
        for kind, most in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):  # a lower limit is in force
                resource.setrlimit(kind, (most, most))

    # One thread: each would map memory of its own, which counts.
    environment = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
    }
    done = subprocess.run(  # noqa: S603 (this Python, and code of ours)
        [sys.executable, "-P", "-c", TRY], input=json.dumps([written, texts]).encode(), capture_output=True,
        check=False, env=environment, preexec_fn=lower_limits,
    )  # fmt: skip
    if done.returncode < 0 or b"MemoryError" in done.stderr:
        return f"it was ended while it was tried with {memory >> 20:,} MiB of memory and {seconds} seconds"
    for text, count in zip(texts, done.stdout.split(), strict=False):
        if int(count) > growth * max(1, len(text)):
            return f"it makes {int(count):,} tokens of the {len(text)} characters of {text[:40]!r}"
    return ""


def written_texts(*settings: Any) -> Iterator[str]:
    """Yield the texts in the settings of a tokenizer, at any level."""
    left = list(settings)
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list):
            left += one.values() if isinstance(one, dict) else one
