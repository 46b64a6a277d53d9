"""Signatures: find the documents that may be near-duplicates, over all sources.

`shingles` cuts a text into overlapping pieces. `keys` computes its signature, and a band key for each band (the
hash of a band of the signature, as in LSH), or with `exact` a key of the text itself. `minhash` does this for the
shards of a source, `bands` stores the keys sorted, and `merging` merges their files. Documents with the same key in
a band share a bucket (they collide in that band): `edges` joins them. `index` sorts the keys of the published
documents, in which `lookup` finds keys without reading the rest. `banding` computes the properties of bands and
rows.
"""
