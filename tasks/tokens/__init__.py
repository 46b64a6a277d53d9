"""Tokens: the ids of a text, and so how many it has, by the very tokenizer that a recipe names.

`engine` encodes a column of text, and checks the library that does so against the one that defines what is
right. `stored` keeps a copy of the tokenizer with a corpus.
"""
