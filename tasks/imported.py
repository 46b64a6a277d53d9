"""Everything that the stages import, for the process that workers are forked from."""

from importlib import import_module

STAGES = (
    "prepare", "ingest", "minhash", "edges", "clusters", "removals", "classify", "filter", "publish",
    "corpus", "ledger", "watching",
)  # fmt: skip

for stage in STAGES:
    import_module(f"tasks.{stage}")
