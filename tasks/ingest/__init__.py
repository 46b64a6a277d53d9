"""Ingest: convert the files of a source to shards of documents. All text is read only here.

`source_plan` has the parameters of a source. `ingest` reads the files in `file_pieces`, `numbering` assigns an id
to each row and counts its tokens, and `companions` are computed from a shard while its text is in memory.
"""
