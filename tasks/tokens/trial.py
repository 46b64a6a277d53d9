"""Try a tokenizer in another process, because a tokenizer that needs too much memory ends its process."""

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

# The program of the other process, which imports `tokenizers` alone.
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
MAX_TEXTS, MAX_CHARACTERS = 1000, 1000


def fault_of_tokenizer(written: str) -> str:
    """Return why a tokenizer.json exceeds the limits, or "". Errors of `tokenizers` itself are not reported.

    written: the content of the tokenizer.json.
    """
    bounds = limits()
    return try_tokenizer(written, bounds.tokenizer_memory, bounds.tokenizer_seconds, bounds.tokenizer_growth)


@lru_cache(maxsize=16)
def try_tokenizer(written: str, memory: int, seconds: int, growth: int) -> str:
    """Try a tokenizer with TEXTS and with the texts in its settings, within limits of memory and CPU time.

    Args:
        written: the content of the tokenizer.json.
        memory: bytes of address space.
        seconds: of CPU time.
        growth: the most tokens for each character of a text.
    """
    with suppress(ValueError):
        settings = json.loads(written)
        texts = [
            *TEXTS,
            *dict.fromkeys(written_texts(settings.get("normalizer"), settings.get("pre_tokenizer"))),
        ]
        texts = [text[:MAX_CHARACTERS] for text in texts[:MAX_TEXTS]]
        return fault_with(texts, written, memory, seconds, growth)
    return ""


def fault_with(texts: list[str], written: str, memory: int, seconds: int, growth: int) -> str:
    """Encode texts in another process; return which limit is exceeded, or ""."""

    def lower_limits() -> None:
        for kind, limit in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):  # the process has a lower limit already
                resource.setrlimit(kind, (limit, limit))

    # One thread, because the address space of each thread counts towards the limit.
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
    pending = list(settings)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
