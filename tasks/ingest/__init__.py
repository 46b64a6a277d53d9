"""Read the files of a source into shards of documents. All text is read once, here.

`plan` says what ingest needs of a source. `ingest` reads the files in `pieces`, `numbering` gives each row
its id and counts it, and `companions` are made of a shard while its text is in memory.
"""
