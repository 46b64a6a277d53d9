"""Documents: the steps of a recipe on each text while ingest has it in memory: clean, filter, measure.

`planning` makes of a recipe's steps what is to be done to a source, and `run_steps` does it, with what
`textkernels.texts` has for it (`cleanings`) and with the user's own `functions`. What was measured stands in
the shard; `rules` is the stage that says of it which documents go, by their `bounds`.
"""
