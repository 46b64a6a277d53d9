"""Quality: what is said of single documents, and which of them a source keeps.

`forms` knows what a model answers. `encoders` are the models that we know (`encoder_files`), and `torch_models`
runs them (`torch_networks`). `classify` asks a model about the remaining documents. `keep` evaluates the recipe's
own expression over the columns of a row (`keep_parser`, `keep_sql`, `keep_functions`). `filter` removes the
documents that `classify` or `keep` reject, as all filters do (`document_filter`).
"""
