"""Training: make a cheap judge from scored documents, or from the answers of an expensive judge.

`training` trains a judge several times, measures it on documents that it has not seen, and writes its folder with a
card (`card`). `sample` draws documents by hash, `targets` checks their scores, `held_out` keeps near-duplicates on
one side. `pooled_training`, `fasttext_training` and `luxical_training` are the forms; `measures` compares answers
with scores.
"""
