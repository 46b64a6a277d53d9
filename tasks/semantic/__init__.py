"""Semantic: find documents with the same content in other words, which signatures of shingles cannot see.

A cheap model proposes pairs: `bands` computes keys of its vectors, the signs of random projections, and `propose`
compares the documents that share a bucket. A strong model confirms the pairs: `confirm` computes its vectors for
these documents only, compares them, and compares the facts of the two texts. `links` are the pairs by which
documents may be removed; they are clustered, and `tasks.dedup.by_pairs` chooses the kept documents. `groups`
divides the shards into groups of neighbours, and `exchange` sends documents between groups.
"""
