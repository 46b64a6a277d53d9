"""The recipe: one YAML file that says what a corpus is made of, how, and where it goes.

`fields` are what it may say (with those of a `source`, of `dedup` and of `steps` on documents, which name a
`cleaning`, or rules by `rule_settings`), `loading` makes a recipe of a file, and `faults` words what is wrong with
one, with the line. Nothing else in the project reads configuration.
"""
