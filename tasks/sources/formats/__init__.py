"""Formats: modules or objects with the names of `Format` in `tasks.sources.reading`."""
