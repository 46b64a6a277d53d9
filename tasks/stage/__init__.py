"""A stage: a function from receipts to a manifest, run as a Prefect task over a Dask cluster.

A manifest lists what a stage has written; a receipt is what travels in its place: where it lies, and the
ledger's counts.

`task` gives it its cache, retries and name, `runner` the cluster; `jobs` are its work on shards, which
`spread` spreads over the workers, and `verdicts` what it says of documents (who goes, and why). `progress`
says how far it is, and `healing` runs it again where something that it made was damaged.
"""
