"""Kernels that read texts character by character: tokens, lines, repeated n-grams, personal data, segments."""
