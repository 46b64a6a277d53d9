"""The engine of GPUs: band keys, edges and forests, bit for bit as `textkernels` makes them on CPUs.

`shard_keys` sends the text of a shard to the kernels of `textkernels.cuda`, `joining` finds components.
`rapids` alone imports cuDF, cuGraph and CuPy.
"""
