"""Passages: find what several documents share, and cut it from all documents except its owner.

`units` divides texts into code points, words, tokens, sentences, lines or paragraphs. `fingerprints` are hashes
by which repeated windows are proposed; `contexts` are the units around repeated fingerprints, which decide. `marks`
are the repeated windows of texts with their owners, and `spans` sets of bytes. `search` finds the repeated windows
of all sources in jobs, `shards` decides what is cut of each shard, and `cuts` is the stage that accounts for it.
"""
