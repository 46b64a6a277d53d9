"""Documents: what is counted of a text, and what is cleaned in it, while ingest has it in memory.

Each is a pure function from Arrow arrays to Arrow arrays: `counting` finds a text's statistics, `patterns`
how often expressions occur in it, with what `expressions` knows of them. `cleaning` changes a text, `repair`
repairs its Unicode, where `mojibake` says which characters are suspicious, and `classes` what a character is.
No build uses them yet: a recipe's `documents` is refused until it can.
"""
