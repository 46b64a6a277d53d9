"""The GPU engine: band keys, edges and forests, with the bits of the CPU engine.

`shard_keys` sends the text of a shard to the kernels of `textkernels.cuda`, `joining` finds components. Only
`rapids` imports cuDF, cuGraph and CuPy.
"""
