"""All measurements, small.

python -m benchmarks.all
"""

from benchmarks import (
    classifier,
    clusters,
    constants,
    duplicates,
    end_to_end,
    orchestration,
    signatures,
    tokens,
)
from benchmarks.measure import as_workers_are


def main() -> None:
    for module in (
        signatures,
        tokens,
        clusters,
        duplicates,
        end_to_end,
        classifier,
        constants,
        orchestration,
    ):
        module.main()


if __name__ == "__main__":
    as_workers_are()
    main()
