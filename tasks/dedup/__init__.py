"""Dedup: near-duplicates, found over all sources and decided by the order of the recipe.

`shingles` cuts a text into overlapping pieces, `minhash` makes its signature and from it one band key for
each band (the hash of one band of the signature, as in LSH); `bands` keeps those sorted on disk. Documents
with the same key in a band share a bucket (they collide in that band): `edges` joins them, `clusters` finds
the connected components, `decisions` says who stays of each, and `removals` cuts that into verdicts, shard by
shard. `audit` compares a sample of those that went, which `pairings` chooses, with what was kept for them, text
by text. `banding` is the arithmetic of bands and rows.
"""
