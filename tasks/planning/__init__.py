"""Planning: what there is to build, and whether anything has changed.

`prepare` checks the whole recipe before any work, by a `survey` of its sources and an `inspection` of their
new files, and makes a plan for each source; `try_rules` runs its rules on a few documents, and `fetching` copies
sources to where a build reads them. `last_build` is the record of the build before, `watching` compares it with
the sources as they are (`changes`), and `build_history` keeps what came of each build.
"""
