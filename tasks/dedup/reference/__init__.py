"""Reference corpora: published corpora that stay as they are, against which a new one is deduplicated.

`corpora` finds them and says before any work whether they can be used. `matches` finds which documents share a
bucket with one of theirs, by their published band keys alone; `texts` reads the texts of those where the recipe
asks for `verify`, `compare` compares them, and `against` decides which documents go.
"""
