"""Tokens: encode and count texts with the tokenizer that a recipe names.

`engine` encodes a column of texts with a fast library, and compares a sample with the reference library.
`special` finds special tokens in texts. `stored` loads tokenizers and keeps a copy with a corpus. `trial` tries a
tokenizer in another process.
"""
