"""Documents: what is cleaned in each text, measured of it, and lets it go, while ingest has it in memory.

`plan` makes of a recipe's steps what is to be done to a source, and `steps` does it. `cleaning` and `repair` change
a text (`cleanings` has them in their order); `counting`, `patterns`, `zyda1` and `prose` measure it: pure functions
from Arrow arrays to Arrow arrays, over `tasks.kernels`. What was measured stands in the shard, and `rules` is the
stage that says of it which documents go. `functions` are the user's own steps.
"""
