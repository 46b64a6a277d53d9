"""The engine of GPUs: band keys, edges and forests, bit for bit as `tasks.kernels` makes them on CPUs.

`shard_keys` sends the text of a shard to the kernels of `tasks.kernels.cuda`, `joining` finds components.
`rapids` alone imports cuDF, cuGraph and CuPy.
"""
