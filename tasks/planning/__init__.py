"""The preparation of a build: the sources, their files, and their changes since the last build.

`prepare` checks the whole recipe before a build, by a `survey` of its sources and an `inspection` of their new
files, and plans the ingest of each source. `try_rules` runs its rules on a few documents, and `fetching` copies the
files of sources to a folder from which a build reads them. `last_build` records the input of the last build,
`watching` compares it with the current sources (`changes`), and `build_history` records the result of each build.
"""
