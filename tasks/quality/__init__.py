"""Quality: classify documents with a model, and filter documents by their labels and columns.

`forms` loads models and describes their columns. The forms are `fasttext_models`, `kenlm_models`
(`kenlm_process`), `token_models` (`ngram_vectors`, `integer_layers`), and `encoders` (`encoder_files`), which
`torch_models` runs (`torch_networks`). `classify` runs a model on the remaining documents. `keep` evaluates a
recipe's `keep` expression on each row (`keep_parser`, `keep_sql`, `keep_functions`). `filter` removes the documents
that the labels or `keep` reject. `control` compares decisions of a judge alone on a sample (`keep_alone`).
`document_filter` runs a function as a filter stage. The folder `training` trains cheap judges.
"""
