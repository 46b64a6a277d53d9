"""The columns that documents receive beside those of their source: labels that others published.

`join` finds the labels of each document by its address, its id or the hash of its text.
"""
