"""Run the benchmarks that need no input beside the demo's texts, with their default, small sizes.

python -m benchmarks.all
"""

from importlib import import_module

from benchmarks.harness import restart_as_worker

NAMES = [
    "signatures", "tokens", "clusters", "duplicates", "passages", "lookup", "end_to_end",
    "classifier", "orchestration",
]  # fmt: skip

if __name__ == "__main__":
    restart_as_worker()
    for name in NAMES:
        import_module(f"benchmarks.{name}").measure.main([])
