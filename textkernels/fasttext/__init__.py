"""Models of fastText: `file` reads a model, `prediction` predicts the labels of texts.

`model` declares the parts of a model, `tables` computes lookup tables when a model is read, `hashing` has
fastText's hashes, `rows` adds up the rows of n-grams, and `scores` computes scores from the mean of the rows.
"""
