"""Measure and clean texts, as pure functions from Arrow arrays to Arrow arrays, over `textkernels.rules`.

`cleaning`, `repair` and `line_rules` change texts; `counting`, `patterns`, `zyda1` and `prose` measure them.
`classes` has the classes of characters, `english` the tables of the tokenizer; `expressions` and `mojibake` analyse
regular expressions.
"""
