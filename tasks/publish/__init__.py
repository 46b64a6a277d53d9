"""Publish: the corpus as people get it, and everything that can be asked of it afterwards.

`files` writes the documents that stay and the list of those that went, `corpus` puts them in place with
`card` and `origins`. `explain` and `findings` answer from the published files alone; `upkeep` verifies and
cleans what lies there.
"""
