"""Formats: modules, or objects, with `ENDINGS`, `inspect` and `read`, as `tasks.sources.reading` says."""
