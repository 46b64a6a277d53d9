"""The columns that documents receive beside the columns of their source.

`join` finds the labels of each document, which others published, by its address, its id or the hash of its text.
`buckets` divides documents by the percentiles of their scores. `agreement` compares the scores of near-duplicates.
"""
