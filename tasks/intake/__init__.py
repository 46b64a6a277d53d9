"""Intake: from a recipe and its sources to shards of documents, the one time that all text is read.

`prepare` judges everything before work and makes a `plan` for each source. `ingest` reads the files,
`numbering` gives each row its id and counts it. `built` and `watching` remember what the last build saw, so
that the next knows whether there is anything to do.
"""
