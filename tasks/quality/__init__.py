"""Quality: what is said of single documents, and which of them a source keeps.

`forms` knows what a model answers. `encoders` are the models that we know (`encoder_files`), and `torch_models`
runs them (`torch_networks`). `classify` asks a model about what is left. `keep` is the recipe's own expression over
a row's columns (`keep_tree`, `keep_samples`), and `filter` lets go what
either does not want, as all filters do (`document_filter`).
"""
