"""Signatures: which documents may be near-duplicates, over all sources.

`shingles` cuts a text into overlapping pieces, `minhash` makes its signature and from it one band key for
each band (the hash of one band of the signature, as in LSH); `bands` keeps those sorted on disk. Documents
with the same key in a band share a bucket (they collide in that band): `edges` joins them. `banding` is the
arithmetic of bands and rows.
"""
