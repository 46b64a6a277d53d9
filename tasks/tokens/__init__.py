"""Tokens: how many a text has, by the very tokenizer that a recipe names.

`counter` counts a column of text; for tokenizers that cut as GPT-2 does it takes a compiled path, whose
tables `byte_level` reads from the tokenizer itself.
"""
