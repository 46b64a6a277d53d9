"""Formats: modules with `ENDINGS`, `inspect` and `read`, as `tasks.sources.reading` says."""
