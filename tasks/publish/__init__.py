"""Publish a corpus, export it and push it.

`files` writes the kept documents and the list of removed documents, with `published_columns`. `corpus` puts the
files in place (`placing`) with `card` and `provenance`. `audits` reads the results of audits, and `differences`
compares two texts. `exporting` writes files of another format, `pushing` sends the corpus to the Hugging Face hub.
"""
