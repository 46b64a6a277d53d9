"""Models of fastText: `file` reads them, `prediction` says which labels texts have.

`model` has what a model is made of, `tables` what is computed when one is read, `hashing` fastText's hashes,
`rows` the rows that n-grams have, and `scores` what follows from their mean.
"""
