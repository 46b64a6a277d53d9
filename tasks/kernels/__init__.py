"""The arithmetic, compiled by numba: signatures, words, forests of documents, byte-pair merges."""
