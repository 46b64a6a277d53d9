"""Documents: the steps of a recipe that run on each text while ingest has it in memory: clean, filter, measure.

`steps` has a class for each step. `planning` plans the steps of a source, and `run_steps` runs them on each `batch`
of documents, with the kernels of `textkernels.texts` (`cleanings`, `passes`) and with the user's own `functions`.
The statistics are stored in the shard. The stage `rules` removes documents whose statistics are outside their
`bounds`.
"""
