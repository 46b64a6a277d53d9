"""Dedup: find near-duplicates and decide which documents are kept, by the order of the recipe.

`clusters` finds the connected components of the documents that share buckets. `decisions` chooses the kept
documents of each cluster, in the order of `preference`, and `removals` writes the decisions as verdicts, shard by
shard. With `verify`, the texts decide: `contested` gathers them by cluster, and `large` compares clusters that
exceed memory. `audit` compares a sample of the removed documents, chosen by `pairings`, with the documents that
were kept for them.
"""
