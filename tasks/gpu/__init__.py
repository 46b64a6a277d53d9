"""The GPU engine: band keys, edges and forests, equal to those of CPUs bit for bit.

`shard_keys` sends the text of a shard to the kernels of `textkernels.cuda`, `joining` finds components. Only
`rapids` imports cuDF, cuGraph and CuPy.
"""
