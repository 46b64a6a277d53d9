"""A stage: a function from receipts to a manifest, run as a Prefect task over a Dask cluster.

A manifest lists what a stage has written; a receipt is what travels in its place: where it lies, and the
ledger's counts.

`stage` is the object, with its key, and `prefect_tasks` and `prefect_cache` how Prefect retries and caches
it. `runner` names the cluster, `results` hands on what stages gave. `jobs` are a stage's work on shards,
which `fan_out` spreads over the workers, `verdicts` what it decides about documents, and `verdict_jobs` the
work on shards of a stage that does. `groups` are sources that share a task. `progress` says how far a stage
is, and `rebuild_damaged` runs it again where something that it made was damaged.
"""
