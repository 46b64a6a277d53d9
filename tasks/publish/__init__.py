"""Publish: the corpus as people get it.

`files` writes the documents that stay and the list of those that were removed, with their `published_columns`.
`corpus` puts them in place (`placing`) with `card` and `provenance`, `audits` reads what an audit found, and
`differences` compares two published corpora.
"""
