"""The program of a process that computes perplexities by a KenLM model: texts in, numbers out.

    python kenlm_process.py MODEL MEMORY SECONDS

It first writes a line: `null` if it has loaded the model, or why it cannot. It then reads a text from each line,
and writes its perplexity. Lines are JSON. It ends at the end of its input, or beyond its limits: MEMORY bytes of
address space, and SECONDS of CPU time for the model and for each text, and one more for each MiB. It imports
nothing else of this package, so it starts in a moment.
"""

import json
import math
import os
import resource
import signal
import sys
from typing import Any


def perplexity(model: Any, text: str) -> float:
    """Return CCNet's perplexity of a text, or infinity: see `tasks.quality.kenlm_models`."""
    lines = text.split("\n")
    score = math.fsum(map(model.score, lines))
    tokens = len(text.split()) + len(lines)  # a token for the end of each line
    try:
        return float(10.0 ** (-score / tokens))
    except OverflowError:
        return math.inf


def main(path: str, memory: int, seconds: int) -> None:
    def limit_time(size: int) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds + size / (1 << 20))

    def answer(value: str | float | None) -> None:
        print(json.dumps(value), flush=True)  # noqa: T201

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    import kenlm

    config = kenlm.Config()
    config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    limit_time(os.path.getsize(path))
    try:
        model = kenlm.Model(path, config)
    except (OSError, MemoryError, RuntimeError) as error:
        return answer(str(error))
    answer(None)
    for line in sys.stdin:
        limit_time(len(line))
        answer(perplexity(model, json.loads(line)))
    return None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
