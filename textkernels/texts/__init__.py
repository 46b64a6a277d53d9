"""Texts: what is counted in a text, and what is cleaned in it, whatever asks for it.

Pure functions from Arrow arrays to Arrow arrays, over `textkernels.rules`: `cleaning`, `repair` and
`line_rules` change texts, `counting`, `patterns`, `zyda1` and `prose` measure them. `classes` says what a
character is, `english` what a word is, `expressions` and `mojibake` what a regular expression asks for.
"""
