"""The recipe: one YAML file that says what a corpus is made of, how, and where it goes.

`fields` are what it may say, `loading` makes a recipe of a file, and `faults` words what is wrong with one,
with the line. Nothing else in the project reads configuration.
"""
