"""Ingest: from the files of a source to shards of documents, the one time that all text is read.

`plan` says what ingest needs of a source. `ingest` reads the files in `pieces`, `numbering` gives each row
its id and counts it, and `companions` are made of a shard while its text is in memory.
"""
