"""The flows that people start: `build` a corpus, `watch` its sources, `report` on it.

`python` is the interface for Python programs, `command` is the command line, `dashboard` what Prefect's pages show
of a build, `reporting` the report of a corpus, and `server` what has to run for a flow: a Prefect server, and who
may build when.
"""
