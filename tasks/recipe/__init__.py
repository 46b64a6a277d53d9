"""The recipe: one YAML file that lists the sources of a corpus, the stages of its build, and its storage.

`fields` has the fields of the file. Parts of it are in `source`, `dedup` and `steps`, which use `cleaning` and
`rule_settings`. `loading` reads a file as a recipe. `faults` words the errors, with file and line. No other chapter
reads configuration.
"""
