"""Run the benchmarks that need no input beside the demo's texts, with their default, small sizes.

python -m benchmarks.all
"""

from benchmarks import (
    classifier,
    clusters,
    constants,
    duplicates,
    end_to_end,
    lookup,
    orchestration,
    signatures,
    tokens,
)  # fmt: skip
from benchmarks.harness import restart_as_worker

MODULES = (
    signatures, tokens, clusters, duplicates, lookup, end_to_end, classifier, constants, orchestration,
)  # fmt: skip


if __name__ == "__main__":
    restart_as_worker()
    for module in MODULES:
        module.measure.main([])
