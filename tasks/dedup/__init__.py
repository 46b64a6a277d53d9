"""Dedup: near-duplicates, decided by the order of the recipe.

`clusters` finds the connected components of the documents that share buckets, `decisions` says who stays of each,
in the order of `preference`, and `removals` cuts that into verdicts, shard by shard. With `verify` the texts have
the last word: `contested` gathers them by cluster, `large` compares in clusters that no memory holds. `audit`
compares a sample of those that went, which `pairings` chooses, with what was kept for them, text by text.
"""
