"""Ablation: measure by small models whether a filter, a threshold or other weights make a better corpus.

`drawing` draws documents by the hashes of their texts, as the token ids of `documents`. `model` and `training`
train a small causal model on them, from the start or from a base. `measures` computes bits per byte of texts.
`records` names a run by the content of its input. Only `model`, `training` and `measures` import torch, and are
imported late.
"""
