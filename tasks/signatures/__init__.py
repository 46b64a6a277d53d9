"""Signatures: which documents may be near-duplicates, over all sources.

`shingles` cuts a text into overlapping pieces, and `keys` makes its signature and from it one band key for
each band (the hash of one band of the signature, as in LSH), or with `exact` one of the text itself. `minhash` does
so to a source's shards, `bands` keeps the keys sorted on disk, and `merging` in few files. Documents
with the same key in a band share a bucket (they collide in that band): `edges` joins them. `index` sorts the keys
of what is published, in which `lookup` finds a few without reading the rest. `banding` is the arithmetic of bands
and rows.
"""
