"""Dedup: near-duplicates, found over all sources and decided by the order of the recipe.

`shingles` cuts a text into overlapping pieces, `minhash` makes its signature and from it one band key for
each band; `bands` keeps those sorted on disk. Documents with the same key in a band share a bucket: `edges`
joins them, `clusters` finds the connected components, `removals` decides who stays of each.
"""
