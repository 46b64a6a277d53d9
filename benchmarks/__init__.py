"""Benchmarks: each module is a command that prints tables and saves them; `benchmarks.harness` runs them."""
