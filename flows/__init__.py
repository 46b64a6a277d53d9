"""The flows that people start: `build` a corpus, `watch` its sources, `report` on it.

`python` is the interface for Python programs, `command` is the command line, `dashboard` makes the pages of a build
in Prefect's dashboard, and `reporting` makes the report of a corpus. `server` starts the Prefect server that flows
need, and holds the locks that prevent concurrent builds of a corpus.
"""
