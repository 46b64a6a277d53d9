"""Stages: functions from receipts to a manifest, each run as a Prefect task on a Dask cluster.

A manifest lists the artifacts of a stage. Tasks exchange receipts in its place: a receipt has the path of the
manifest and the counts for the ledger.

`stage` is the object, with its key; `prefect_tasks` and `prefect_cache` configure Prefect's retries and cache.
`runner` chooses the cluster, and `results` passes results to later stages. `jobs` is the work of a stage on shards,
`fan_out` sends jobs to the workers, `verdicts` are decisions about documents, and `verdict_jobs` is the work on
shards of a stage that decides about documents. `groups` divides sources among tasks. `progress` reports finished
shards, and `rebuild_damaged` runs a stage again if its artifacts are damaged.
"""
