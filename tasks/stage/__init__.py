"""A stage: a function from receipts to a manifest, run as a Prefect task over a Dask cluster.

`task` gives it its cache, retries and name; `workers` spreads its shards over the cluster, on processes as
`worker_process` makes them; `progress` says how far it is, and `healing` runs it again where something that
it made was damaged.
"""
