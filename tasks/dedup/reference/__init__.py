"""Deduplication of a new corpus against reference corpora: published corpora that are only read.

`corpora` opens the reference corpora and checks before a build that they can be used. `matches` finds the documents
that share a bucket with a reference document, from published band keys only. If the recipe has `verify`, `texts`
reads the texts of the reference documents and `compare` compares them. `against` decides which documents are
removed.
"""
