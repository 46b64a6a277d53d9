"""Quality: what is said of single documents, and which of them a source keeps.

`forms` knows what a model answers, `torch_models` runs it (`torch_networks`), `classify` asks it about what
is left. `keep` is the recipe's own expression over a row's columns (`keep_tree`, `keep_samples`), and
`filter` lets go what either does not want.
"""
