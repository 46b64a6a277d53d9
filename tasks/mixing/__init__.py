"""Mix published corpora into the files that a training run reads, and trace positions in them back to documents.

`mixture` defines the file that describes a mixture, and `planning` finds its corpora and published files.
`tokenising` encodes each published file once. `choosing` sets the part and the number of copies of each document;
`amounts` turns weights and a budget into numbers of copies. `scattering` and `gathering` shuffle all copies in two
passes through storage, and write them in the `formats` of trainers. `neighbours` separates held-out documents from
their near-duplicates in other corpora. `mixing` runs all of these. `tracing` finds the document at a position, and
`steps` reads the positions from a trainer's index files. `removal` mixes again without documents that corpora have
removed.
"""
