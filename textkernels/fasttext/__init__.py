"""Models of fastText: `file` reads a model, `prediction` predicts the labels of texts.

`model` declares the parts of a model. When a model is read, `tables` computes lookup tables, and `matrices`
multiplies its matrices. `hashing` has fastText's hashes, `words` finds the words of a text, `rows` adds up the rows
of n-grams, and `scores` computes scores from the mean of the rows.
"""
