"""The arithmetic that touches every character or every edge, compiled by numba: arrays in, arrays out."""
