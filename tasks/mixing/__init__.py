"""Mixing: from published corpora to the files that a training run reads, and back from a position to a document.

`mixture` is the file that describes one, and `planning` finds what it is made of. `tokenising` encodes each
published file once. `choosing` says which documents are of which part, and how often; `amounts` makes weights and a
budget into numbers of copies. `scattering` and `gathering` shuffle all copies in two passes through storage, and
write them in the `formats` of trainers. `neighbours` keeps held-out documents apart from other corpora. `mixing`
runs all of it; `tracing` goes back, from what a trainer read by `steps`. `removal` mixes again without documents
that corpora have removed.
"""
